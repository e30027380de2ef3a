"""What is left to do, and what is written down: with an engine that only pretends."""

import errno
import signal

import pytest

from mviq.runs.directory import Result
from mviq.studies.board import Board, Tally
from mviq.studies.engine import Ended, Event, Progress, Task
from mviq.studies.plan import expand, matching_runs
from mviq.studies.run_status import count_states, status_of
from mviq.studies.scheduler import Scheduler, TaskList, left_to_do
from mviq.studies.study_directory import Failure, StudyDirectory
from mviq.studies.study_file import study_from

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
    """Ends each run as a script says; a run without one finishes."""

    def __init__(self, directory: StudyDirectory, script: dict[str, list[tuple[str, str]]]) -> None:
        self.directory, self.script, self.done = directory, script, []
        self.happened: list[Event] = []

    def start(self, task) -> None:
        self.done.append(task.run)
        self.happened.append(Progress(task.run, 7))
        how, reason = (self.script.get(task.run) or [("finished", "")]).pop(0)
        run = self.directory.run(task.run)
        run.settle(task.config)
        if how in ("finished", "diverged"):
            run.finish(Result(how, 9, reason))
        self.happened.append(Ended(task.run, how, reason))

    def stop(self, run) -> None:
        pass

    def events(self) -> list[Event]:
        happened, self.happened = self.happened, []
        return happened


@pytest.fixture
def directory(tmp_path):
    found = StudyDirectory(tmp_path / "it")
    found.settle("", PLAN)
    return found


def session(directory, script, retry_failed=False, engine=Pretending):
    made = engine(directory, script)
    scheduled(directory, made, left_to_do(directory, PLAN.runs, retry_failed))
    return made.done


def scheduled(directory, engine, tasks: list[Task], board=Board) -> bool:
    tally = Tally()
    tally.add(tasks)
    return Scheduler(directory, engine, 1, board(tally, quiet=True)).run(TaskList(tasks))


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
    assert directory.failure(B) == Failure(KILLED[1], attempts=2, when=7, killed=True)
    assert session(directory, {}) == [B]
    assert states(directory)[1] == "finished"


class Interrupted(Pretending):
    """Is asked by Ctrl-C to stop as soon as a run is started."""

    def start(self, task) -> None:
        super().start(task)
        signal.raise_signal(signal.SIGINT)


def test_a_run_stopped_by_somebody_else_is_continued_but_not_when_all_is(directory):
    assert session(directory, {B: [("stopped", "")]}) == [A, B, C, *REST, B]
    directory.run(B).result_file.unlink()
    assert session(directory, {B: [("stopped", "")]}, engine=Interrupted) == [B]
    assert states(directory)[1] == "interrupted"
    assert (
        count_states(status_of(directory, run) for run in PLAN.runs) == "7 finished, 1 interrupted"
    )


def test_a_failure_that_was_not_tried_again_is_kept(directory):
    session(directory, {B: [("failed", "no luck")], C: [("failed", "no luck")]})

    class Stopped(Pretending):
        def start(self, task) -> None:
            signal.raise_signal(signal.SIGINT)
            self.happened = [Ended(task.run, "stopped")]

    tasks = left_to_do(directory, PLAN.runs[1:3], retry_failed=True)
    assert [task.run for task in tasks] == [B, C]
    assert scheduled(directory, Stopped(directory, {}), tasks)
    assert directory.failure(B) == directory.failure(C) == Failure("no luck", attempts=1, when=7)


def test_a_full_disk_does_not_stop_the_others(directory, monkeypatch):
    said = []

    class Saying(Board):
        def show(self, event) -> None:
            pass

        def say(self, text) -> None:
            said.append(text)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(StudyDirectory, "note_failure", full)
    engine = Pretending(directory, {A: [("failed", "no disk")], B: [KILLED]})
    scheduled(directory, engine, left_to_do(directory, PLAN.runs[:3], False), Saying)
    assert engine.done == [A, B, C, B]
    assert said == [f"{directory.path} cannot be written: No space left on device"] * 2
    assert states(directory)[:3] == ["interrupted", "finished", "finished"]


@pytest.mark.parametrize("name", ["failure.json", "result.json"])
@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"reason": 3}', b"\xff"])
def test_a_damaged_file_is_the_failure_of_its_run_alone(name, content, directory):
    place = directory.run(B).path
    place.mkdir(parents=True)
    (place / name).write_bytes(content)
    assert states(directory) == ["waiting", "failed"] + ["waiting"] * 6
    assert name in status_of(directory, PLAN.runs[1]).message
    assert B not in session(directory, {})


def test_what_is_left_of_a_failed_run_is_from_its_checkpoint(directory):
    session(directory, {B: [("failed", "no luck")]})
    (directory.run(B).checkpoints / "step_5").mkdir(parents=True)
    status = status_of(directory, PLAN.runs[1])
    assert (status.step, status.saved) == (7, 5)


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
    assert len(matching_runs(PLAN, patterns)) == count


def test_a_pattern_without_a_run_is_named():
    with pytest.raises(ValueError, match="no run is like 'DQN'; there are 'MVI"):
        matching_runs(PLAN, ["MVI*", "DQN"])
