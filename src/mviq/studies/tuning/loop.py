"""The loop of a search: as many runs at once as there is room for, trials given up on the way.

One thread per run at work lets an engine do it; everything else, also all that concerns Optuna,
happens in the thread that calls ``Loop.run``.
"""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass

from mviq.studies.board import STOPPING, Board, Line, Quiet
from mviq.studies.directory import PlannedRun, StudyDirectory
from mviq.studies.engine import Ended, Engine, Event, Note, Stopping, Task
from mviq.studies.plan import config_of
from mviq.studies.session import Session
from mviq.studies.status import status_of
from mviq.studies.tuning.board import Score
from mviq.studies.tuning.curves import Curve, Judge, evaluations, mean_score, read_curve, rungs
from mviq.studies.tuning.proposals import Attempt, Proposals
from mviq.studies.tuning.trials import Trials

POLL = 0.2  # seconds in which a request to stop is noticed


@dataclass(frozen=True)
class Done:
    """A thread has done with a run; the error is a mistake of ours, or no disk to write to."""

    run: str
    error: BaseException | None


Message = tuple[Attempt, Event | Done]


class Relay(Quiet):
    """Passes on what a session shows, to another thread."""

    def __init__(self, attempt: Attempt, heard: "queue.SimpleQueue[Message]") -> None:
        self._attempt, self._heard = attempt, heard

    def show(self, event: Event) -> None:
        """Pass it on, but not that the trial is stopped: it may only have been given up."""
        if not isinstance(event, Stopping):
            self._heard.put((self._attempt, event))

    def say(self, text: str) -> None:
        """Pass it on."""
        self._heard.put((self._attempt, Note(text)))


class Loop:
    """Does the trials of a search."""

    def __init__(
        self,
        directory: StudyDirectory,
        trials: Trials,
        source: Proposals,
        judge: Judge,
        score: Score,
        board: Board,
        engine: Callable[[], Engine],
        room: int,
        memory: int,
    ) -> None:
        self._directory, self._trials, self._source = directory, trials, source
        self._judge, self._score, self._board = judge, score, board
        self._engine, self._room, self._memory = engine, room, memory
        self._attempts: list[Attempt] = []
        self._heard: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def run(self, stop: threading.Event) -> None:
        """Do trials until there are no more, or until asked to stop."""
        try:
            self._run(stop)
        except BaseException:  # Ctrl-C again, or a mistake of ours: leave no run at work
            self._kill()
            raise

    def _kill(self) -> None:
        for attempt in self._attempts:
            attempt.stop.at_once = True
        for attempt in self._attempts:
            for thread in attempt.active.values():
                thread.join()

    def _run(self, stop: threading.Event) -> None:
        announced = False
        while True:
            if stop.is_set():
                if not announced:
                    self._board.say(STOPPING)
                    announced = True
                self._stop()
            else:
                self._fill()
            if not self._attempts:
                return
            try:
                attempt, message = self._heard.get(timeout=POLL)
            except queue.Empty:
                continue
            self._take(attempt, message)

    def _stop(self) -> None:
        for attempt in list(self._attempts):
            attempt.waiting.clear()
            attempt.stop.set()
            self._close_if_over(attempt)

    def _fill(self) -> None:
        while sum(len(attempt.active) for attempt in self._attempts) < self._room:
            attempt = next((one for one in self._attempts if one.waiting), None)
            if attempt is not None:
                self._start(attempt, attempt.waiting.popleft())
                continue
            attempt = self._source.next()
            if attempt is None:
                return
            self._attempts.append(attempt)
            self._check(attempt)
            self._close_if_over(attempt)

    def _start(self, attempt: Attempt, planned: PlannedRun) -> None:
        first = status_of(self._directory, planned).saved
        self._score.begin(planned.run, Line(planned.title, first, config_of(planned).total_steps))
        thread = threading.Thread(target=self._do, args=(attempt, planned), daemon=True)
        thread.start()
        attempt.active[planned.run] = thread

    def _do(self, attempt: Attempt, planned: PlannedRun) -> None:
        """Do a run in a thread."""
        place, threads = self._directory.path.resolve(), config_of(planned).threads
        task = Task(place, planned.run, threads, self._memory)
        try:
            session = Session(self._directory, Relay(attempt, self._heard), attempt.stop)
            session.run(self._engine(), [task])
        except BaseException as error:
            self._heard.put((attempt, Done(planned.run, error)))
        else:
            self._heard.put((attempt, Done(planned.run, None)))

    def _take(self, attempt: Attempt, message: Event | Done) -> None:
        if isinstance(message, Done):
            if message.error is not None:
                raise message.error
            del attempt.active[message.run]
            self._check(attempt)
            self._close_if_over(attempt)
        elif isinstance(message, Ended):
            self._score.take(message)
        else:
            self._board.show(message)
            self._check_curves(attempt, always=False)

    def _check(self, attempt: Attempt) -> None:
        """Give a trial up if a run of it has diverged, or the pruner says so."""
        for planned in attempt.runs:
            status = status_of(self._directory, planned)
            if status.state == "diverged":
                attempt.give_up("diverged", f"seed {planned.seed}: {status.message}")
        self._check_curves(attempt)

    def _check_curves(self, attempt: Attempt, always: bool = True) -> None:
        """Report what is new, and ask the pruner if there is something, or always."""
        if attempt.outcome is not None or attempt.stop.is_set():
            return
        curves, points = self._curves(attempt), max(map(evaluations, attempt.configs))
        known = self._trials.reported(attempt.trial)
        new = list(rungs(curves, self._judge, points, known))
        for rung, value in new:
            self._trials.report(attempt.trial, rung, value)
        if (new or always) and self._trials.should_prune(attempt.trial):
            steps = sum(curve.steps[-1] for curve in curves if curve.steps)
            total = sum(config.total_steps for config in attempt.configs)
            attempt.give_up("pruned", f"below the median after {steps:,.0f} of {total:,} steps")

    def _curves(self, attempt: Attempt) -> list[Curve]:
        return [
            read_curve(self._directory.run(planned.run), config)
            for planned, config in zip(attempt.runs, attempt.configs, strict=True)
        ]

    def _close_if_over(self, attempt: Attempt) -> None:
        if not attempt.over:
            return
        self._attempts.remove(attempt)
        states = [status_of(self._directory, planned).state for planned in attempt.runs]
        if all(state == "finished" for state in states):
            self._trials.finish(attempt.trial, mean_score(self._curves(attempt), self._judge))
        elif attempt.outcome is not None:
            self._trials.give_up(attempt.trial, *attempt.outcome)
        self._source.ended(attempt)
