"""Searches: what a file may say, what is proposed, what becomes of trials, and a real kill."""

import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import optuna
import pytest
import yaml
from matplotlib.colors import to_rgba

from comparing import assert_same_run
from mviq.cli.main import main
from mviq.drawing.style import ORANGE
from mviq.reports.tuning import ranking, sentences, tuning_files
from mviq.reports.tuning_drawing import surface
from mviq.reports.tuning_scores import judge_of
from mviq.runs.directory import BusyError, Result
from mviq.runs.training import train
from mviq.studies.engine import Ended, Event, Progress
from mviq.studies.estimate import cost_class
from mviq.studies.local import LocalEngine
from mviq.studies.measuring import Measured
from mviq.studies.plan import config_of, expand
from mviq.studies.running import Options
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import study_from
from mviq.studies.tuning import search_state
from mviq.studies.tuning.results import SearchOutcome, TrialResult
from mviq.studies.tuning.search import prepare_search, tune
from mviq.studies.tuning.search_file import Search, search_from
from mviq.studies.tuning.trial_scores import EvaluationCurve, read_curve
from mviq.studies.tuning.trials import STARTUP, MedianAtRung, Trials
from small_studies import TINY, wait_until, workers_of, write_study

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
    with pytest.raises(ValueError, match="one algorithm; put what varies in tune"):
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
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", None)
    trials = Trials(search_from(content()), file)
    assert len(trials.kept()) == 2
    trials.finish(trials.ask(), -3)
    assert [trials.chosen(trial) for trial in trials.kept()] == whole
    with pytest.raises(ValueError, match="belongs to another search"):
        Trials(search_from(content({"score": "area"})), file)


@pytest.mark.parametrize("line", [b"rubbish\n", b"{}\n", b"[]\n", b'{"op_code":4}\n', b"\xff\n"])
def test_a_journal_that_is_damaged_is_named(line, tmp_path):
    file = tmp_path / "trials.jsonl"
    proposals(file, 1)
    with file.open("ab") as journal:
        journal.write(line)
    with pytest.raises(ValueError, match=r"trials\.jsonl is damaged: \w+\(.*\)$"):
        Trials(search_from(content()), file)


def test_what_a_search_takes_counts_environments_seeds_and_trials(tmp_path, monkeypatch):
    games = ["ALE/Pong-v5", "ALE/Breakout-v5", "ALE/Asterix-v5"]
    space = {"learning_rate": {"choices": [1e-4, 1e-3]}, "train_every": {"low": 1, "high": 8}}
    found = content({"space": space, "trials": 4}, environments=games, seeds=2)
    found["settings"] = {"total_steps": 1000, "learning_starts": 100}
    cost = Measured(
        start=0, step=1, evaluation_step=0, memory=7, transition=0, checkpoint=0, model=0
    )
    monkeypatch.setattr(
        "mviq.studies.estimate.measured",
        lambda configs, *_: dict.fromkeys(map(cost_class, configs), cost),
    )
    search, directory = search_from(found), StudyDirectory(tmp_path / "tiny")
    trials, work = prepare_search(search, directory, Options(), LocalEngine(99))
    assert (trials, work.steps, work.estimate.runs, work.estimate.steps) == (4, 24_000, 24, 24_000)
    assert (work.estimate.workers, work.estimate.seconds) == (24, 1000)
    assert sorted({(run.config.env, run.config.train_every) for run in work.tasks}) == [
        (game, every) for game in sorted(games) for every in (1, 8)
    ]


class Pretending:
    """Does runs without learning: the return is that of a table, a bad run waits to be stopped."""

    def __init__(self, directory: StudyDirectory, returns: dict[float, float | str]) -> None:
        self.directory, self.returns, self.done = directory, returns, []
        self.happened: list[Event] = []

    def room(self, tasks):
        return 1

    def start(self, task):
        config = task.config
        run = self.directory.run(task.run)
        run.settle(config)
        run.checkpoints.mkdir(exist_ok=True)
        value = self.returns[config.learning_rate]
        self.done.append((config.learning_rate, config.seed))
        if isinstance(value, str):
            if value == "diverged":
                run.finish(Result("diverged", 9, "too large"))
            self.happened.append(Ended(task.run, value, "no luck"))
            return
        run.evaluations.write_text("step,episode,return,length\n")
        for step in range(config.eval_every, config.total_steps + 1, config.eval_every):
            with run.evaluations.open("a") as file:
                file.write(f"{step},0,{value + config.seed},1\n{step},1,{value + config.seed},1\n")
            self.happened.append(Progress(task.run, step))
            if value < 0 and step == 500:
                return
        run.finish(Result("finished", config.total_steps, ""))
        self.happened.append(Ended(task.run, "finished"))

    def stop(self, run):
        self.happened.append(Ended(run, "stopped"))

    def events(self) -> list[Event]:
        assert self.happened, "a bad run was not stopped"
        happened, self.happened = self.happened, []
        return happened


def session(search: Search, engine: Pretending, **options) -> SearchOutcome:
    chosen = Options(quiet=True, measure=False, **options)
    return tune(search, engine.directory, chosen, engine, judge_of(search))


RETURNS = {1.0: 3.0, 2.0: 7.0, 3.0: 5.0, 4.0: 4.0, 5.0: 6.0, 6.0: -9.0, 7.0: "diverged"}


def test_trials_finish_are_pruned_diverge_or_fail_and_nothing_is_done_twice(tmp_path):
    choices = {"learning_rate": {"choices": [*RETURNS, 8.0]}}
    tune = {"space": choices, "sampler": "grid"}
    search = search_from({**content(seeds=2), "tune": tune})
    directory = StudyDirectory(tmp_path / "tiny")
    engine = Pretending(directory, {**RETURNS, 8.0: "failed"})

    outcome = session(search, engine)
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
    assert "trial 7: failed, no luck" in sentences(outcome, tmp_path)
    runs = directory.plan().runs
    assert [(run.settings["learning_rate"], run.seed) for run in runs] == [
        (float(rate), seed) for rate in range(1, 9) for seed in (0, 1)
    ]
    kept = [run for run in runs if directory.run(run.run).checkpoints.exists()]
    assert {run.settings["learning_rate"] for run in kept} == {*RETURNS, 8.0} - {6.0}

    engine.done.clear()
    assert session(search, engine).trials == outcome.trials
    assert engine.done == []
    with directory.locked(), pytest.raises(BusyError, match="another process is running"):
        session(search, engine)
    engine.returns[8.0] = 8.0
    again = session(search, engine, retry_failed=True)
    assert engine.done == [(8.0, 0), (8.0, 1)]
    assert (again.exit_code, again.ranked[0].chosen) == (0, {"learning_rate": 8.0})
    check_files(again)


def test_a_score_that_is_no_number_ends_its_trial(tmp_path):
    tune = {"space": {"learning_rate": {"choices": [1.0, 2.0]}}, "sampler": "grid"}
    search = search_from({**content(seeds=2), "tune": tune})
    engine = Pretending(StudyDirectory(tmp_path / "tiny"), {1.0: math.nan, 2.0: 5.0})
    outcome = session(search, engine)
    assert [trial.state for trial in outcome.trials] == ["diverged", "finished"]
    assert outcome.trials[0].reason == "its score is nan"


def test_a_lucky_evaluation_of_the_first_seed_does_not_protect_a_trial():
    study = optuna.create_study(direction="maximize", pruner=MedianAtRung())
    for _ in range(STARTUP):
        trial = study.ask()
        for rung in (0, 10):
            trial.report(100.0, rung)
        study.tell(trial, 100.0)
    trial = study.ask()
    trial.report(150.0, 0)
    assert not trial.should_prune()
    trial.report(10.0, 10)
    assert trial.should_prune()


def check_files(outcome):
    made = tuning_files(outcome)
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
    rates = {run.label: config_of(run).learning_rate for run in expand(study).runs}
    assert rates == {"best": 8.0, "untuned": 0.001}
    assert study.baseline == "untuned"


def test_a_trial_that_repeats_another_takes_its_result(tmp_path, monkeypatch):
    read: list[EvaluationCurve] = []
    monkeypatch.setattr(
        search_state, "read_curve", lambda *run: read.append(read_curve(*run)) or read[-1]
    )
    space = {"learning_rate": {"choices": [1.0, 2.0]}}
    search = search_from(content({"space": space, "sampler": "random", "trials": 6}))
    engine = Pretending(StudyDirectory(tmp_path / "tiny"), RETURNS)
    outcome = session(search, engine)
    assert len(outcome.trials) == len(read) == 6  # what has ended is not read again
    assert sorted(engine.done) == [(1.0, 0), (2.0, 0)]
    assert sorted(trial.score for trial in outcome.ranked) == [3.0, 7.0]
    assert sum(trial.reason.startswith("same as trial") for trial in outcome.trials) == 4


class Impatient(Pretending):
    """Presses Ctrl-C twice while a run is at work."""

    def start(self, task):
        os.kill(os.getpid(), signal.SIGINT)

    def stop(self, run):
        os.kill(os.getpid(), signal.SIGINT)

    def events(self):
        return []

    def kill(self):
        self.done.append("killed")


def test_ctrl_c_again_ends_the_runs_at_once(tmp_path):
    engine = Impatient(StudyDirectory(tmp_path / "tiny"), {})
    outcome = session(search_from(content()), engine)
    assert (engine.done, outcome.exit_code) == (["killed"], 130)


def test_a_real_run_is_pruned(tmp_path):
    """Five trials only pretend to be excellent; the sixth learns in a process, and is stopped."""
    settings = {**TINY, "total_steps": 10_000, "eval_every": 1000, "checkpoint_every": 5000}
    space = {"learning_rate": {"choices": [1.0, 2.0, 3.0, 4.0, 5.0, 1e-3]}}
    search = search_from(
        {**content(settings=settings), "tune": {"space": space, "sampler": "grid"}}
    )
    directory = StudyDirectory(tmp_path / "tiny")
    engine = Mixed(directory, dict.fromkeys(space["learning_rate"]["choices"][:5], 9e9))
    outcome = session(search, engine)
    *_, last = outcome.trials
    assert (last.state, outcome.exit_code) == ("pruned", 0)
    assert re.fullmatch(r"below the median after \d{1,2},000 of 10,000 steps", last.reason)
    run = directory.run(directory.plan().runs[-1].run)
    assert run.result is None
    assert not run.busy
    assert run.evaluations.is_file()
    assert not run.checkpoints.exists()


class Mixed(Pretending):
    """Does runs that are in no table in a process."""

    local = LocalEngine(1)

    def start(self, task):
        real = task.config.learning_rate not in self.returns
        (self.local if real else super()).start(task)

    def stop(self, run):
        self.local.stop(run)

    def events(self):
        return super().events() if self.happened else self.local.events()


@pytest.mark.parametrize("other", [{"choices": [1, 2]}, {"low": 1, "high": 4}])
def test_the_best_is_ringed_on_the_surface(other):
    space = {"temperature": {"choices": [0.1, 1.0]}, "train_every": other}
    scores = {(0.1, 1): 3.0, (1.0, 2): 9.0, (1.0, 1): None}
    trials = tuple(
        TrialResult(i, dict(zip(space, values, strict=True)), "finished", score, {}, "")
        for i, (values, score) in enumerate(scores.items())
    )
    outcome = SearchOutcome(search_from(content({"space": space})), trials, {})
    ring = surface(outcome, "return").axes[0].collections[-1]
    assert ring.get_offsets().tolist() == [[1, 1 if "choices" in other else 2]]
    assert ring.get_edgecolor().tolist() == [list(to_rgba(ORANGE))]


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

    (command,) = (line for line in shown.out.splitlines() if line.startswith("Confirm"))
    confirm = command.partition("mviq ")[2].split()
    assert main([*confirm, "--dry-run", "--no-estimate"]) == 0
    assert "left to do: 10 runs, 20,000 steps" in capsys.readouterr().out
    assert main(["study", "status", str(file), "--out", str(tmp_path)]) == 0
    assert "2 finished" in capsys.readouterr().out

    place = directory.path / "tuning"
    shutil.rmtree(place)
    assert main(typed(file, "--trials", "1", "--quiet")) == 0  # nothing is left to do
    assert (place / "slices.png").is_file()
    shutil.rmtree(place)
    place.touch()
    assert main(typed(file, "--quiet")) == 2
    assert capsys.readouterr().err == f"mviq: study: {place} is not a directory\n"
    for action in ("run", "tune", "status"):
        assert main(["study", action, str(directory.path), "--out", "x"]) == 2
        assert "--out is for a file" in capsys.readouterr().err


def test_what_it_will_take_is_said_and_nothing_is_written(tmp_path, capsys):
    file = write_search(tmp_path)
    assert main(typed(file, "--dry-run")) == 0
    assert "left to do: 2 trials, 2 runs, 4,000 steps" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("more", "options", "message"),
    [
        ({"tune": None}, [], "tune must hold settings as 'name: value', got None"),
        ({}, ["--workers", "0"], "--workers must be at least 1, got 0"),
        ({}, ["--trials", "0"], "tune.trials must be a whole number of at least 1, got 0"),
        ({"budget": {"steps": 1999}}, [], "budget.steps is 1,999, the study needs 2,000"),
        ({"environments": ["CartPol-v1"]}, [], "there is no environment 'CartPol-v1'; did you"),
        ({"environments": ["CartPole-v1", "Acrobot-v1"]}, ["--dry-run"], "scores on one scale"),
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
