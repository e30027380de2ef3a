"""Runs that were measured at different steps are compared where all of them were measured."""

import numpy as np
import pytest

from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.page import render_page
from mviq.reports.provenance import NOT_BEGUN, settings_by_label
from mviq.reports.reading import load_study
from mviq.reports.report import make_report
from mviq.reports.stability import stability
from stored_runs import name_of, write_plan, write_run

RISING = {"total_steps": 1000, "train_every": 4, "n_envs": 1, "log_every": 100}


def write(place, label, every, seeds=3, scores=None, overshoot=0, **settings):
    """Write runs that were evaluated ``every`` so many steps, with the step as their return."""
    due = np.arange(every, 1001, every)
    for seed in range(seeds):
        own = [float(step) for step in due] if scores is None else scores
        write_run(
            place / f"{label}{seed}",
            own,
            algorithm=label,
            seed=seed,
            steps=[int(step) + overshoot for step in due],
            **RISING | {"eval_every": every} | settings,
        )


def finals(comparison):
    (env,) = comparison.environments
    return {label: env.final(label, comparison.choices).tolist() for label in env.curves}


def test_another_number_of_evaluations_is_no_advantage(tmp_path):
    write(tmp_path, "vi", 200)
    write(tmp_path, "mvi", 50)
    found = compare(load_study(tmp_path), ReportChoices())
    assert {tuple(own) for own in finals(found).values()} == {(1000.0,) * 3}
    assert "CartPole-v1: only the 5 of 20 steps that all runs have are compared" in found.notes


def test_rollouts_of_another_length_are_no_advantage(tmp_path):
    write(tmp_path, "vi", 100)
    write(
        tmp_path, "mvi", 100, scores=[100.0 * k for k in range(1, 11)], overshoot=2, train_every=3
    )
    found = compare(load_study(tmp_path), ReportChoices())
    assert {tuple(own) for own in finals(found).values()} == {(1000.0,) * 3}
    assert found.environments[0].steps.tolist() == [100.0 * k for k in range(1, 11)]
    assert found.environments[0].cut_off == ()
    assert found.notes == ()


def test_a_run_that_diverged_does_not_cut_the_last_evaluation_of_others(tmp_path):
    write(tmp_path, "mvi", 100, overshoot=2, train_every=3)
    settings = RISING | {"eval_every": 100}
    bad = {"algorithm": "vi", "status": "diverged", **settings}
    write_run(tmp_path / "bad", [500.0, float("nan")], steps=[100, 200], **bad)
    found = compare(load_study(tmp_path), ReportChoices())
    assert sorted(finals(found).values()) == [[500.0], [1000.0] * 3]
    assert found.environments[0].blanks == 1


def test_a_label_without_a_score_at_the_common_end_is_left_out_with_a_note(tmp_path):
    write(tmp_path, "vi", 100)
    write(tmp_path, "mvi", 100, scores=[*range(9), float("inf")])
    found = compare(load_study(tmp_path), ReportChoices())
    assert len(found.environments[0].curves) == 1
    assert any("no finite value at the end of CartPole-v1" in note for note in found.notes)


def test_a_wrapper_may_change_the_returns_that_are_possible(tmp_path):
    write(tmp_path, "vi", 100, scores=[1017.0] * 10, wrappers=["mine:Rewards"])
    study = load_study(tmp_path)
    assert study.returns_of("CartPole-v1") == (-np.inf, np.inf)
    assert study.returns_of("Acrobot-v1") == (-500.0, 0.0)


@pytest.mark.parametrize(("which", "runs"), [("ended", 3), ("finished", 2), ("all", 4)])
def test_stability_counts_the_runs_that_are_included(which, runs, tmp_path):
    write(tmp_path, "vi", 100, seeds=2)
    more = {"algorithm": "vi", **RISING, "eval_every": 100}
    write_run(tmp_path / "bad", [9.0] * 4, seed=2, status="diverged", **more)
    write_run(tmp_path / "going on", [9.0] * 4, seed=3, status=None, **more)
    (row,) = stability(compare(load_study(tmp_path), ReportChoices(which=which)))
    assert row.runs == runs


def test_settings_of_a_label_that_has_not_begun_are_not_said_to_differ(tmp_path):
    begun = tmp_path / "runs" / name_of("DQN", "CartPole-v1", 0)
    write_run(begun, [1.0, 2.0, 3.0, 4.0])
    write_plan(tmp_path, [("DQN", "CartPole-v1", 0), ("MVI(2)", "CartPole-v1", 0)])
    assert settings_by_label(load_study(tmp_path))["algorithm"] == ["vi", NOT_BEGUN]
    page = render_page(make_report(tmp_path, ReportChoices())).decode()
    assert "Settings that differ between labels" not in page


def test_runs_that_were_never_evaluated_do_not_hide_one_that_diverged(tmp_path):
    more = {"algorithm": "vi", **RISING, "eval_every": 100}
    write_run(tmp_path / "a", [1.0] * 4, evaluated=False, **more)
    write_run(tmp_path / "b", [9.0] * 4, seed=1, status="diverged", **more)
    found = compare(load_study(tmp_path), ReportChoices())
    assert found.environments[0].steps.tolist() == [100, 200, 300, 400, 1000]


def test_an_unfinished_run_is_compared_at_its_last_evaluation(tmp_path):
    write(tmp_path, "vi", 100)
    more = {"algorithm": "mvi", **RISING, "eval_every": 100, "train_every": 3}
    write_run(tmp_path / "going on", [100.0, 200.0], steps=[102, 201], status=None, **more)
    found = compare(load_study(tmp_path), ReportChoices(which="all"))
    assert found.environments[0].steps.tolist() == [100, 200]
