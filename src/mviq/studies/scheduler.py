"""The scheduler: executes the tasks of a source on an engine, and records how each run ends."""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from mviq.runs.stopping import asked_to_stop
from mviq.studies.board import Board
from mviq.studies.engine import Ended, Engine, EngineLost, Event, Note, Progress, Task
from mviq.studies.plan import config_of
from mviq.studies.run_status import status_of
from mviq.studies.study_directory import Failure, PlannedRun, StudyDirectory

STOPPING = "stopping: the runs save where they are; once more to stop at once"


def left_to_do(
    directory: StudyDirectory, runs: Iterable[PlannedRun], retry_failed: bool
) -> list[Task]:
    """Return the tasks of the runs that have not ended.

    A run that failed by itself is left out unless ``retry_failed``; one that was killed is not.
    """
    statuses = [status_of(directory, run) for run in runs]
    return [
        Task(directory.path.resolve(), status.planned, config_of(status.planned), status.saved)
        for status in statuses
        if status.state in ("running", "interrupted", "waiting")
        or (status.state == "failed" and (retry_failed or status.was_killed))
    ]


class Source(Protocol):
    """Where tasks come from: a fixed list (a study) or proposals (a search)."""

    def next(self) -> Task | None:
        """Return the next task, or None if there is none for now."""

    def retry(self, task: Task) -> None:
        """Take back a task whose process was killed, to be returned by ``next`` once more."""

    def update(self, event: Progress | Ended) -> Collection[str]:
        """Handle an event of a run, and return the runs that must stop because of it."""


class TaskList:
    """A fixed list of tasks; those that are retried come last."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._waiting = deque(tasks)

    def next(self) -> Task | None:
        return self._waiting.popleft() if self._waiting else None

    def retry(self, task: Task) -> None:
        """Append a task to the list."""
        self._waiting.append(task)

    def update(self, event: Progress | Ended) -> Collection[str]:
        """Return no runs: those of a list do not depend on each other."""
        return ()


@dataclass
class _Active:
    """A run whose process is alive."""

    task: Task
    failures: int
    """How often the run has failed before."""
    step: int | None = None
    """The last step it reported, None before the first."""
    stopping: bool = False
    """Whether it was asked to stop."""


class Scheduler:
    """Keeps up to ``at_once`` runs of a source going.

    A run that is killed from outside is continued once. Ctrl-C asks all runs to stop, a second
    one kills them.
    """

    def __init__(
        self, directory: StudyDirectory, engine: Engine, at_once: int, board: Board
    ) -> None:
        self._directory, self._engine, self._board = directory, engine, board
        self._at_once = at_once
        self._active: dict[str, _Active] = {}
        self._retried: set[str] = set()

    def run(self, source: Source) -> bool:
        """Execute the tasks of a source; return whether they were stopped by the user."""
        with asked_to_stop() as stop:
            try:
                while not stop.is_set() and self._fill(source):
                    self._handle_events(source)
                if self._active:
                    self._board.say(STOPPING)
                    self._stop(self._active)
                while self._active:
                    self._handle_events(source)
            except KeyboardInterrupt:
                self._engine.kill()
                return True
            except EngineLost as error:
                place = self._directory.path
                verb = "tune" if self._directory.is_search else "run"
                how = f"'mviq study {verb} {place}' continues, with this engine or another"
                self._board.say(f"{error}; the runs are kept as their checkpoints are: {how}")
                return False
            except BaseException:  # a bug of ours: leave no process behind
                self._engine.kill()
                raise
            return stop.is_set()

    def _fill(self, source: Source) -> bool:
        """Start tasks while there is room; return whether any run is active."""
        while len(self._active) < self._at_once and (task := source.next()) is not None:
            before = self._directory.failure(task.run)
            self._active[task.run] = _Active(task, before.attempts if before else 0)
            self._engine.start(task)
        return bool(self._active)

    def _stop(self, runs: Iterable[str]) -> None:
        for run in runs:
            if not self._active[run].stopping:
                self._active[run].stopping = True
                self._engine.stop(run)

    def _handle_events(self, source: Source) -> None:
        for event in self._engine.events():
            try:
                self._record(event)
            except OSError as error:  # a full disk is no reason to end the other runs
                self._board.say(f"{self._directory.path} cannot be written: {error.strerror}")
            self._board.show(event)
            if isinstance(event, Note):
                continue
            if isinstance(event, Ended):
                ended = self._active.pop(event.run)
                if self._is_retried(ended, event):
                    source.retry(ended.task)
                    continue
            self._stop(source.update(event))

    def _record(self, event: Event) -> None:
        """Keep ``failure.json`` of a run up to date."""
        if isinstance(event, Note):
            return
        run = self._active[event.run]
        if isinstance(event, Progress):
            begins, run.step = run.step is None, event.step
            if begins:  # only now is an earlier failure obsolete
                self._directory.forget_failure(event.run)
        elif event.how in ("killed", "failed"):
            killed = event.how == "killed"
            failure = Failure(event.reason, run.failures + 1, run.step, killed)
            self._directory.note_failure(event.run, failure)
        elif event.how in ("finished", "diverged"):
            self._directory.forget_failure(event.run)

    def _is_retried(self, run: _Active, event: Ended) -> bool:
        """Return whether a run was killed or stopped by somebody else, for the first time."""
        if run.stopping or event.how not in ("killed", "stopped") or event.run in self._retried:
            return False
        self._retried.add(event.run)
        return True
