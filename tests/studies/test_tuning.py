"""Searches: what a file may say, what is proposed, what becomes of trials, and a real kill."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from comparing import assert_same_run
from mviq.cli.main import main
from mviq.reports.tuning import files, ranking, sentences
from mviq.reports.tuning_scores import judge_of
from mviq.runs.directory import Result
from mviq.runs.training import train
from mviq.studies.directory import StudyDirectory
from mviq.studies.engine import Ended, Progress
from mviq.studies.file import study_from
from mviq.studies.plan import config_of, expand
from mviq.studies.running import Options
from mviq.studies.tuning import _Tuning, prepare
from mviq.studies.tuning_file import search_from
from mviq.studies.tuning_trials import Trials
from small_studies import CLOCK, TINY, wait_until, workers_of, write_study

RATES = {"learning_rate": {"low": 1e-5, "high": "1e-2", "log": True}}
SPACE = {**RATES, "train_every": {"low": 1, "high": 8}, "hidden": {"choices": [[8], [16, 16]]}}


def content(tune=None, **more):
    settings = {name: value for name, value in TINY.items() if name != "hidden"}
    return {
        "name": "tiny",
        "environments": ["CartPole-v1"],
        "algorithms": [{"q": 2}],
        "settings": settings,
        "tune": {"trials": 3, "space": SPACE, **(tune or {})},
        **more,
    }


@pytest.mark.parametrize(
    ("tune", "message"),
    [
        ({"space": {}}, "tune.space must name at least one setting"),
        ({"space": {"lerning_rate": {}}}, "no setting 'lerning_rate'; did you mean learning_rate?"),
        ({"space": {"seed": {"low": 0, "high": 1}}}, "seed cannot be searched: it belongs under"),
        ({"space": {"eval_every": {"low": 9, "high": 99}}}, "all trials must be measured alike"),
        ({"space": {"device": {"choices": ["cpu", "auto"]}}}, "it does not change what is learnt"),
        ({"space": {"gamma": {"low": 0.9}}}, "gamma must have low and high, or choices"),
        ({"space": {"gamma": {"low": 0.9, "hihg": 1}}}, "has no key 'hihg'; did you mean high?"),
        ({"space": {"gamma": {"low": 0.9, "high": 0.9}}}, "gamma.low must be below high = 0.9"),
        ({"space": {"gamma": {"low": 0.9, "high": 1.5}}}, "gamma must be between 0 and 1, got 1.5"),
        ({"space": {"gamma": {"low": "x", "high": 1}}}, "gamma must be a number, got 'x'"),
        ({"space": {"q": {"low": 1, "high": "inf"}}}, "q.high must be a finite number, got 'inf'"),
        ({"space": {"train_every": {"low": 1.5, "high": 8}}}, "must be a whole number, got '1.5'"),
        ({"space": {"gamma": {"low": 0, "high": 1, "log": True}}}, "above 0 for a logarithmic"),
        ({"space": {"form": {"low": 0, "high": 1}}}, "form is no number: it must have choices"),
        ({"space": {"clip": {"low": 0, "high": 1}}}, "clip is no number: it must have choices"),
        ({"space": {"form": {"choices": ["gap", "gip"]}}}, "form must be one of gap, log"),
        ({"space": {"q": {"choices": [2, 2.0]}}}, "q.choices has a value twice"),
        ({"space": {"q": {"choices": [2]}}}, "q.choices must be a list of at least two values"),
        ({"space": {"batch_size": {"choices": [16, 999]}}}, "batch_size must be at most buffer_s"),
        ({"space": {"target_every": {"low": 1, "high": 9}}}, "both in tune.space and in settings"),
        ({"trials": 0}, "tune.trials must be a whole number of at least 1, got 0"),
        ({"trails": 3}, "tune has no key 'trails'; did you mean trials?"),
        ({"sampler": "tpee"}, "tune.sampler must be one of tpe, random, grid, got 'tpee'"),
        ({"sampler": "grid"}, "tune.space.learning_rate must have choices: the sampler is grid"),
        ({"seed": -1}, "tune.seed must be a whole number of at least 0, got -1"),
    ],
)
def test_mistakes_in_the_section(tune, message):
    found = content(tune)
    if "batch_size" in found["tune"]["space"]:
        del found["settings"]["batch_size"]
    with pytest.raises(ValueError, match="tune") as error:
        search_from(found)
    assert message in str(error.value)


def test_a_search_is_one_algorithm_on_one_scale():
    with pytest.raises(ValueError, match="one algorithm, and what varies stands in tune"):
        search_from(content(algorithms=["mvi", "vi"]))
    with pytest.raises(ValueError, match="eval_every must be above 0"):
        search_from(content(settings={"eval_every": 0}))
    with pytest.raises(ValueError, match="which only Atari games have"):
        judge_of(search_from(content(environments=["CartPole-v1", "Acrobot-v1"])))
    with pytest.raises(ValueError, match="search with mviq study tune"):
        study_from(content())


def proposals(place: Path, count: int, sessions: int = 1, **tune) -> list[dict]:
    """Return what is proposed when the first trials get the best scores; in several sessions."""
    search = search_from(content({"trials": 99, **tune}))
    for _ in range(sessions):
        trials = Trials(search, place)
        for _ in range(count // sessions):
            trials.finish(trials.ask(), -len(trials.kept()))
    return [trials.chosen(trial) for trial in trials.kept()]


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_the_same_seed_proposes_the_same_also_after_a_break(sampler, tmp_path):
    whole = proposals(tmp_path / "a", 14, sampler=sampler)
    assert whole == proposals(tmp_path / "b", 14, sessions=2, sampler=sampler)
    assert whole[:3] != proposals(tmp_path / "c", 3, sampler=sampler, seed=1)
    assert len({tuple(chosen.items()) for chosen in whole}) == 14
    for chosen in whole:
        assert 1e-5 <= chosen["learning_rate"] <= 1e-2
        assert chosen["train_every"] in range(1, 9)
        assert chosen["hidden"] in ((8,), (16, 16))


def test_the_journal_survives_a_kill_while_it_is_written_and_is_not_unpickled(
    tmp_path, monkeypatch
):
    file = tmp_path / "trials.jsonl"
    whole = proposals(tmp_path / "whole", 3)
    proposals(file, 3)
    lines = file.read_bytes().splitlines(keepends=True)
    starts = [i for i, line in enumerate(lines) if json.loads(line)["op_code"] == 4]
    cut = b"".join(lines[: starts[2] + 2])  # in the middle of the third proposal
    file.write_bytes(cut + lines[starts[2] + 2][:20])
    (tmp_path / "trials.jsonl.lock").symlink_to(file)
    monkeypatch.setattr("optuna.storages.journal._storage.pickle", None)
    trials = Trials(search_from(content()), file)
    assert len(trials.kept()) == 2
    trials.finish(trials.ask(), -3)
    assert [trials.chosen(trial) for trial in trials.kept()] == whole
    with pytest.raises(ValueError, match="belongs to another search"):
        Trials(search_from(content({"score": "area"})), file)


class Pretending:
    """Does runs without learning: the return is that of a table, a bad run waits to be stopped."""

    def __init__(self, directory: StudyDirectory, returns: dict[float, float | str]) -> None:
        self.directory, self.returns, self.done = directory, returns, []

    def room(self, tasks):
        return 1

    def run(self, tasks, events, stop):
        (task,) = tasks
        config = next(config_of(r) for r in self.directory.plan().runs if r.run == task.run)
        run = self.directory.run(task.run)
        run.settle(config)
        value = self.returns[config.learning_rate]
        self.done.append((config.learning_rate, config.seed))
        if isinstance(value, str):
            if value == "diverged":
                run.finish(Result("diverged", 9, "too large"))
            events(Ended(task.run, value, "no luck"))
            return
        run.evaluations.write_text("step,episode,return,length\n")
        for step in range(250, 1001, 250):
            with run.evaluations.open("a") as file:
                file.write(f"{step},0,{value + config.seed},1\n{step},1,{value + config.seed},1\n")
            events(Progress(task.run, step))
            if value < 0 and step == 500:
                assert stop.wait(CLOCK)
                events(Ended(task.run, "stopped"))
                return
        run.finish(Result("finished", 1000, ""))
        events(Ended(task.run, "finished"))


RETURNS = {1.0: 3.0, 2.0: 7.0, 3.0: 5.0, 4.0: 4.0, 5.0: 6.0, 6.0: -9.0, 7.0: "diverged"}


def test_trials_finish_are_pruned_diverge_or_fail_and_nothing_is_done_twice(tmp_path):
    choices = {"learning_rate": {"choices": [*RETURNS, 8.0]}}
    tune = {"space": choices, "sampler": "grid"}
    search = search_from({**content(seeds=2), "tune": tune})
    directory = StudyDirectory(tmp_path / "tiny")
    engine = Pretending(directory, {**RETURNS, 8.0: "failed"})

    def session(**options):
        chosen = Options(quiet=True, measure=False, **options)
        tasks = prepare(search, 8, directory, chosen, engine, print).tasks
        return _Tuning(search, directory, judge_of(search)).run(engine, tasks, chosen)

    outcome = session()
    assert [trial.score for trial in outcome.trials] == [3.5, 7.5, 5.5, 4.5, 6.5, None, None, None]
    states = [trial.state for trial in outcome.trials]
    assert states == ["finished"] * 5 + ["pruned", "diverged", "failed"]
    assert [trial.number for trial in outcome.ranked] == [1, 4, 2, 3, 0]
    assert outcome.exit_code == 1
    assert outcome.trials[5].reason == "below the median after 500 of 2,000 steps"
    assert outcome.trials[6].reason == "seed 0: too large"
    assert engine.done == [
        *((float(rate), seed) for rate in range(1, 6) for seed in (0, 1)),
        *((6.0, 0), (7.0, 0), (8.0, 0), (8.0, 1)),
    ]
    assert "trial 7: failed, no luck" in sentences(outcome)

    engine.done.clear()
    assert session().trials == outcome.trials
    assert engine.done == []
    engine.returns[8.0] = 8.0
    again = session(retry_failed=True)
    assert engine.done == [(8.0, 0), (8.0, 1)]
    assert (again.exit_code, again.ranked[0].chosen) == (0, {"learning_rate": 8.0})
    check_files(again)


def check_files(outcome):
    made = files(outcome)
    assert {"tuning.csv", "best.yaml", "slices.png", "slices.svg"} == made.keys()
    rows = list(csv.DictReader(made["tuning.csv"].decode().splitlines()))
    assert [row["state"] for row in rows].count("finished") == 6
    assert {name: rows[7][name] for name in ("learning_rate", "score", "seed 0", "seed 1")} == {
        "learning_rate": "8.0",
        "score": "8.5",
        "seed 0": "8.0",
        "seed 1": "9.0",
    }
    columns, best = ranking(outcome, 2)
    assert columns == ["trial", "final return", "learning_rate"]
    assert best[0][0] == "7"
    assert best[0][1].startswith("8.50 [")
    study = study_from(yaml.safe_load(made["best.yaml"]))
    assert study.seeds == (2, 3, 4, 5, 6)
    assert {config_of(run).learning_rate for run in expand(study).runs} == {8.0}


def test_a_trial_that_repeats_another_takes_its_result(tmp_path):
    space = {"learning_rate": {"choices": [1.0, 2.0]}}
    search = search_from(content({"space": space, "sampler": "random", "trials": 6}))
    directory = StudyDirectory(tmp_path / "tiny")
    engine, options = Pretending(directory, RETURNS), Options(quiet=True, measure=False)
    tasks = prepare(search, 6, directory, options, engine, print).tasks
    outcome = _Tuning(search, directory, judge_of(search)).run(engine, tasks, options)
    assert len(outcome.trials) == 6
    assert sorted(engine.done) == [(1.0, 0), (2.0, 0)]
    assert sorted(trial.score for trial in outcome.ranked) == [3.0, 7.0]
    assert sum(trial.reason.startswith("same as trial") for trial in outcome.trials) == 4


def write_search(place: Path, **tune) -> Path:
    section = {"trials": 2, "space": RATES, **tune}
    algorithms = [{"q": 2}]
    settings = {"total_steps": 2000}
    return write_study(place, algorithms=algorithms, settings=settings, tune=section)


def typed(file: Path, *options: str) -> list[str]:
    return ["study", "tune", str(file), "--out", str(file.parent), "--no-estimate", *options]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_search_that_is_killed_goes_on(tmp_path, capsys):
    file = write_search(tmp_path)
    directory = StudyDirectory(tmp_path / "tiny")
    command = [sys.executable, "-m", "mviq", *typed(file, "--workers", "2", "--quiet")]
    with subprocess.Popen(command) as search:
        try:
            wait_until(lambda: list(directory.runs.glob("*/checkpoints/step_*[0-9]")), "a save")
        finally:
            search.kill()
    wait_until(lambda: not workers_of(directory), "the end of the orphans")
    begun = {run.name for run in directory.runs.iterdir()}

    assert main(typed(file)) == 0
    shown = capsys.readouterr()
    assert "[2/2, best " in shown.err
    assert "its score and interval are optimistic" in " ".join(shown.out.split())
    runs = directory.plan().runs
    assert begun <= {run.run for run in runs}
    assert [run.label.split(":")[0] for run in runs] == ["trial 0", "trial 1"]
    train(config_of(runs[0]), tmp_path / "alone")
    assert_same_run(config_of(runs[0]), tmp_path / "alone", directory.runs)
    chosen = [run.settings["learning_rate"] for run in runs]
    whole = Trials(search_from({**content({"space": RATES}), "name": "other"}), tmp_path / "other")
    assert chosen == [whole.chosen(whole.ask())["learning_rate"] for _ in chosen]

    assert main(typed(file, "--trials", "2", "--quiet")) == 0  # nothing is left to do
    assert (directory.path / "tuning" / "slices.png").is_file()


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ({"tune": None}, [], "tune must hold settings as 'name: value', got None"),
        ({}, ["--workers", "0"], "--workers must be at least 1, got 0"),
        ({}, ["--trials", "0"], "tune.trials must be a whole number of at least 1, got 0"),
        ({"budget": {"steps": 1999}}, [], "budget.steps is 1,999, the study needs 2,000"),
        ({"environments": ["CartPol-v1"]}, [], "there is no environment 'CartPol-v1'; did you"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(more, options, message, tmp_path, capsys):
    section = {"trials": 2, "space": RATES}
    file = write_study(tmp_path, **{"algorithms": ["mvi"], "tune": section, **more})
    assert main(typed(file, *options)) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [file]


def test_without_optuna_the_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mviq.cli.tune.find_spec", lambda name: None)
    assert main(typed(write_search(tmp_path))) == 2
    assert capsys.readouterr().err == "mviq: study: tune needs an extra: pip install 'mviq[tune]'\n"
