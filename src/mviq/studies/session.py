"""A session of a study: what is left to do, and what becomes of each run."""

import threading
from collections.abc import Collection

from mviq.studies.board import Board
from mviq.studies.directory import Failure, Plan, PlannedRun, StudyDirectory
from mviq.studies.engine import Ended, Engine, Event, Progress, Task
from mviq.studies.patterns import is_like
from mviq.studies.status import RunStatus, status_of

SESSIONS = 2  # of a run that is killed from outside, each time the study is started


def chosen(plan: Plan, patterns: Collection[str]) -> list[PlannedRun]:
    """Return the runs that any of some patterns matches; all, if there is no pattern."""
    for pattern in patterns:
        if not any(_matches(run, pattern) for run in plan.runs):
            titles = ", ".join(repr(run.title) for run in plan.runs[:3])
            raise ValueError(f"no run is like {pattern!r}; there are {titles}, …")
    return [run for run in plan.runs if not patterns or any(_matches(run, p) for p in patterns)]


def _matches(run: PlannedRun, pattern: str) -> bool:
    names = (run.label, run.env, str(run.seed), f"seed {run.seed}", run.title, run.run)
    return is_like(names, pattern)


def left_to_do(
    directory: StudyDirectory, runs: Collection[PlannedRun], retry_failed: bool
) -> list[RunStatus]:
    """Return the runs that have not ended; one that failed by itself only if it is asked for."""
    found = [status_of(directory, run) for run in runs]
    open_states = ("running", "interrupted", "waiting")
    return [
        status
        for status in found
        if status.state in open_states
        or (status.state == "failed" and (retry_failed or status.was_killed))
    ]


class Session:
    """Lets an engine do runs of a study, and writes down what becomes of them."""

    def __init__(self, directory: StudyDirectory, board: Board, stop: threading.Event) -> None:
        self._directory, self._board, self._stop = directory, board, stop
        self._again: list[str] = []
        self._attempts: dict[str, int] = {}
        self._steps: dict[str, int] = {}

    def run(self, engine: Engine, tasks: Collection[Task]) -> None:
        """Do the runs; one that is killed from outside is continued once."""
        for task in tasks:
            before = self._directory.failure(task.run)
            self._attempts[task.run] = 0 if before is None else before.attempts
        for _ in range(SESSIONS):
            self._again = []
            engine.run(list(tasks), self._heard, self._stop)
            tasks = [task for task in tasks if task.run in self._again]
            if not tasks or self._stop.is_set():
                return

    def _heard(self, event: Event) -> None:
        try:
            if isinstance(event, Ended):
                self._ended(event)
            elif isinstance(event, Progress):
                self._went_on(event)
        except OSError as error:  # a full disk is no reason to end the others
            self._board.say(f"{self._directory.path} cannot be written: {error.strerror}")
        self._board.show(event)

    def _went_on(self, event: Progress) -> None:
        begins = event.run not in self._steps
        self._steps[event.run] = event.step
        if begins:  # only now is an earlier failure no more
            self._directory.forget_failure(event.run)

    def _ended(self, event: Ended) -> None:
        when, killed = self._steps.pop(event.run, None), event.how == "killed"
        if killed or (event.how == "stopped" and not self._stop.is_set()):
            self._again.append(event.run)
        if killed or event.how == "failed":
            self._attempts[event.run] += 1
            failure = Failure(event.reason, self._attempts[event.run], when, killed)
            self._directory.note_failure(event.run, failure)
        elif event.how in ("finished", "diverged"):
            self._directory.forget_failure(event.run)
