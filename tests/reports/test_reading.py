"""What a report reads: studies, directories of runs, single runs, whatever state they are in."""

import json

import numpy as np
import pytest

from mviq.reports.labels import labels_of
from mviq.reports.reading import load_study
from mviq.runs.presets import resolve
from stored_runs import curve, name_of, write_plan, write_run, write_study

ENV = "CartPole-v1"


def test_a_study_is_read_in_the_order_of_its_plan(tmp_path):
    scores = {("MVI(2)", ENV): [curve(4), curve(8)], ("DQN", ENV): [curve(2)]}
    study = load_study(write_study(tmp_path, scores, baseline="DQN", description="What for"))
    assert (study.name, study.description, study.baseline) == ("by hand", "What for", "DQN")
    assert (study.labels, study.envs, study.seeds) == (("MVI(2)", "DQN"), (ENV,), (0, 1))
    assert [run.status for run in study.runs] == ["finished"] * 3


def test_a_score_is_the_mean_over_the_episodes_of_an_evaluation(tmp_path):
    study = load_study(write_study(tmp_path, {("DQN", ENV): [[1, 5, 3, 8]]}))
    record = study.runs[0].curve("eval")
    np.testing.assert_array_equal(record.steps, [100, 200, 300, 400])
    np.testing.assert_array_equal(record.values, [1, 5, 3, 8])
    np.testing.assert_array_equal(study.runs[0].curve("train").values, [0.5, 2.5, 1.5, 4])
    np.testing.assert_allclose(
        study.runs[0].curve("tsallis/entropy").values, [0.01, 0.05, 0.03, 0.08]
    )
    assert study.runs[0].curve("tsallis/residual").steps.size == 0


def test_an_unknown_metric_is_named(tmp_path):
    study = load_study(write_study(tmp_path, {("DQN", ENV): [curve(1)]}))
    with pytest.raises(ValueError, match=r"metric must be one of eval, train, .*got 'tsallis/x'"):
        study.runs[0].curve("tsallis/x")


def test_what_became_of_a_run(tmp_path):
    runs = tmp_path / "runs"
    seeds = range(5)
    write_plan(tmp_path, [("DQN", ENV, seed) for seed in seeds])
    names = [name_of("DQN", ENV, seed) for seed in seeds]
    write_run(runs / names[0], curve(1))
    write_run(runs / names[1], [1, 2], steps=[100, 200], status="diverged", message="too large")
    write_run(runs / names[2], [1], steps=[100], status=None)
    write_run(runs / names[3], [1, 2], steps=[100, 200], status=None)
    failure = {"reason": "MemoryError: 3 GiB", "attempts": 2, "when": 200, "killed": False}
    (runs / names[3] / "failure.json").write_text(json.dumps(failure))
    found = [(run.status, run.steps, run.reason) for run in load_study(tmp_path).runs]
    assert found == [
        ("finished", 400, ""),
        ("diverged", 200, "too large"),
        ("unfinished", 100, "interrupted, or still running"),
        ("failed", 200, "MemoryError: 3 GiB (2 attempts)"),
        ("not begun", 0, "not begun"),
    ]


def test_runs_without_a_plan_are_named_after_what_sets_them_apart(tmp_path):
    write_run(tmp_path / "runs" / "a", curve(1), algorithm="mvi", q=2.0)
    write_run(tmp_path / "runs" / "b", curve(1), algorithm="mvi", q=2.0, temperature=0.1)
    write_run(tmp_path / "runs" / "c", curve(1), env="Acrobot-v1", temperature=0.5)
    write_run(tmp_path / "runs" / "d", curve(1), device="cuda")
    for path in (tmp_path, tmp_path / "runs"):
        study = load_study(path)
        assert study.name == tmp_path.name
        assert study.labels == ("DQN", "MVI(2) temperature=0.03", "MVI(2) temperature=0.1")


def test_what_follows_from_the_length_of_a_run_does_not_name_it():
    def settings(steps, **changes):
        return vars(resolve(ENV, preset="general", total_steps=steps, **changes))

    short, long = settings(2_000), settings(200_000)
    assert short["eval_every"] != long["eval_every"]
    assert labels_of([short, long]) == ["MVI(2) total_steps=2000", "MVI(2) total_steps=200000"]
    often = settings(2_000, eval_every=7)
    assert "eval_every=7" in labels_of([short, often])[1]


def test_a_single_run_by_its_directory_or_the_beginning_of_its_name(tmp_path):
    write_run(tmp_path / "CartPole-v1_vi_seed0_01234567", curve(1))
    for name in ("CartPole-v1_vi_seed0_01234567", "CartPole-v1_vi"):
        assert [run.label for run in load_study(tmp_path / name).runs] == ["DQN"]


def test_labels_of_quantile_critics():
    run = {"env": ENV, "algorithm": "m-vi", "critic": "quantile", "q": 1.0}
    assert labels_of([run]) == ["QR-M-DQN"]


def test_a_line_that_a_crash_cut_off_is_no_row(tmp_path):
    directory = write_run(tmp_path / "run", [1, 2], steps=[100, 200], status=None)
    with (directory / "evaluations.csv").open("a") as file:
        file.write("300,0,9")
    assert load_study(directory).runs[0].curve("eval").steps.tolist() == [100, 200]


def test_an_infinite_value_is_a_missing_one(tmp_path):
    directory = write_run(tmp_path / "run", [1, float("inf")], steps=[100, 200])
    run = load_study(directory).runs[0]
    np.testing.assert_array_equal(run.curve("tsallis/entropy").values, [0.01, np.nan])
    np.testing.assert_array_equal(run.curve("eval").values, [1, np.nan])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("evaluations.csv", "step,return\n100,much\n", "return must be a number, got 'much'"),
        ("config.yaml", "env: CartPole-v1\n", "config.yaml has no seed"),
        ("result.json", '{"status": "tired", "steps": 1}', "the unknown status 'tired'"),
        ("result.json", "{", "^[^ ]*result.json is damaged"),
        ("evaluations.csv", "step,return\n100,\xff\n", "evaluations.csv cannot be read: .*utf-8"),
        ("system.json", "[", "system.json is damaged"),
    ],
)
def test_a_broken_file_is_named(tmp_path, file, content, message):
    directory = write_run(tmp_path / "run", curve(1))
    (directory / file).write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match=message):
        load_study(directory).runs[0].curve("eval")


def test_two_directories_of_the_same_run_are_named(tmp_path):
    for name in ("one", "two"):
        write_run(tmp_path / name, curve(1))
    with pytest.raises(ValueError, match=r"one and .*two are both DQN, CartPole-v1, seed 0"):
        load_study(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"), [("", "is no study and no run"), ("nowhere", "there is no study or run")]
)
def test_a_directory_without_runs_is_refused(tmp_path, name, message):
    with pytest.raises(ValueError, match=message):
        load_study(tmp_path / name)


def test_a_plan_without_runs_is_refused(tmp_path):
    write_plan(tmp_path, [])
    with pytest.raises(ValueError, match="plans no runs"):
        load_study(tmp_path)
