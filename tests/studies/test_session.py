"""What is left to do, and what is written down: with an engine that only pretends."""

import threading

import pytest

from mviq.runs.directory import Result
from mviq.studies.board import Quiet
from mviq.studies.directory import Failure, StudyDirectory
from mviq.studies.engine import Ended, Progress, Task
from mviq.studies.file import study_from
from mviq.studies.plan import config_of, expand
from mviq.studies.session import Session, chosen, left_to_do
from mviq.studies.status import status_of, summary

PLAN = expand(
    study_from(
        {
            "name": "it",
            "environments": ["CartPole-v1", "Acrobot-v1"],
            "algorithms": [{"label": "MVI(2)", "q": 2}, "vi"],
            "seeds": [0, 3],
        }
    )
)
KILLED = ("killed", "killed by SIGKILL, probably out of memory")


class Pretending:
    """Ends each session as a script says; a run without one finishes."""

    def __init__(self, directory: StudyDirectory, script: dict[str, list[tuple[str, str]]]) -> None:
        self.directory, self.script, self.done = directory, script, []

    def run(self, tasks, events, stop) -> None:
        for task in tasks:
            self.done.append(task.run)
            events(Progress(task.run, 7))
            how, reason = (self.script.get(task.run) or [("finished", "")]).pop(0)
            run = self.directory.run(task.run)
            run.settle(next(config_of(one) for one in PLAN.runs if one.run == task.run))
            if how in ("finished", "diverged"):
                run.finish(Result(how, 9, reason))
            events(Ended(task.run, how, reason))


@pytest.fixture
def directory(tmp_path):
    found = StudyDirectory(tmp_path / "it")
    found.settle("", PLAN)
    return found


def session(directory, script, retry_failed=False, stop=None):
    engine = Pretending(directory, script)
    left = left_to_do(directory, PLAN.runs, retry_failed)
    tasks = [Task(directory.path, status.planned.run) for status in left]
    Session(directory, Quiet(), stop or threading.Event()).run(engine, tasks)
    return engine.done


def states(directory):
    return [status_of(directory, run).state for run in PLAN.runs]


A, B, C, *REST = [run.run for run in PLAN.runs]


def test_what_has_ended_is_left_alone(directory):
    assert session(directory, {B: [("diverged", "too large")]}) == [A, B, C, *REST]
    assert states(directory) == ["finished", "diverged"] + ["finished"] * 6
    assert session(directory, {}, retry_failed=True) == []


def test_a_failure_is_kept_until_it_is_tried_again(directory):
    session(directory, {B: [("failed", "no luck")]})
    assert directory.failure(B) == Failure("no luck", attempts=1, when=7)
    assert states(directory)[1] == "failed"
    assert session(directory, {}) == []
    session(directory, {B: [("failed", "again")]}, retry_failed=True)
    assert directory.failure(B) == Failure("again", attempts=2, when=7)
    assert session(directory, {}, retry_failed=True) == [B]
    assert directory.failure(B) is None
    assert not list(directory.runs.glob("*/failure.json"))


def test_what_was_killed_is_continued_once_and_at_the_next_start(directory):
    assert session(directory, {B: [KILLED]}) == [A, B, C, *REST, B]
    assert directory.failure(B) is None
    directory.run(B).result_file.unlink()
    assert session(directory, {B: [KILLED, KILLED]}) == [B, B]
    assert directory.failure(B) == Failure(KILLED[1], attempts=2, when=7)
    assert session(directory, {}) == [B]
    assert states(directory)[1] == "finished"


def test_a_run_stopped_by_somebody_else_is_continued_but_not_when_all_is(directory):
    assert session(directory, {B: [("stopped", "")]}) == [A, B, C, *REST, B]
    directory.run(B).result_file.unlink()
    stop = threading.Event()
    stop.set()
    assert session(directory, {B: [("stopped", "")]}, stop=stop) == [B]
    assert states(directory)[1] == "interrupted"
    assert summary(status_of(directory, run) for run in PLAN.runs) == "7 finished, 1 interrupted"


@pytest.mark.parametrize(
    ("patterns", "count"),
    [
        ([], 8),
        (["MVI(2)"], 4),
        (["M*"], 4),
        (["seed 3"], 4),
        (["3"], 4),
        (["Acrobot*"], 4),
        (["vi Acrobot-v1 seed 0"], 1),
        (["vi Acrobot-v1 *", "MVI* seed 0"], 4),
        ([A], 1),
    ],
)
def test_patterns(patterns, count):
    assert len(chosen(PLAN, patterns)) == count


def test_a_pattern_without_a_run_is_named():
    with pytest.raises(ValueError, match="no run is like 'DQN'; there are 'MVI"):
        chosen(PLAN, ["DQN"])
