"""Which trial is next: those that an earlier session has left, then new ones."""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from optuna.trial import FrozenTrial, TrialState

from mviq.runs.config import Config
from mviq.studies.directory import PlannedRun, StudyDirectory
from mviq.studies.plan import config_of
from mviq.studies.session import left_to_do
from mviq.studies.tuning.trials import Trials


class Stop(threading.Event):
    """Asks runs to stop; engines look at it several times a second."""

    at_once = False
    """Whether Ctrl-C was pressed again: an engine that looks is then interrupted as by it."""

    def is_set(self) -> bool:
        """Return whether the runs are to save where they are, and end."""
        if self.at_once:
            raise KeyboardInterrupt
        return super().is_set()


@dataclass
class Attempt:
    """A trial whose runs are being done."""

    trial: FrozenTrial
    runs: list[PlannedRun]
    waiting: deque[PlannedRun]
    active: dict[str, threading.Thread] = field(default_factory=dict)
    """The runs at work, each in a thread."""
    stop: Stop = field(default_factory=Stop)
    outcome: tuple[str, str] | None = None
    """How and why it was given up."""
    configs: list[Config] = field(init=False)

    def __post_init__(self) -> None:
        self.configs = list(map(config_of, self.runs))

    def give_up(self, outcome: str, reason: str) -> None:
        """Stop its runs."""
        self.outcome = self.outcome or (outcome, reason)
        self.waiting.clear()
        self.stop.set()

    @property
    def over(self) -> bool:
        """Return whether nothing of it is at work or waiting."""
        return not self.active and not self.waiting


class Proposals:
    """The trials that are left: first those of an earlier session, then new ones."""

    def __init__(
        self,
        trials: Trials,
        total: int,
        runs_of: Callable[[FrozenTrial], list[PlannedRun]],
        directory: StudyDirectory,
        retry_failed: bool,
        when_ended: Callable[[], None],
    ) -> None:
        self._trials, self._total, self._runs_of = trials, total, runs_of
        self._directory, self._retry_failed = directory, retry_failed
        self._when_ended = when_ended
        self._left = deque(t for t in trials.kept() if t.state == TrialState.RUNNING)

    def next(self) -> Attempt | None:
        """Return the next trial that needs work; one that repeats another takes its result."""
        while self._left or len(self._trials.kept()) < self._total:
            trial = self._left.popleft() if self._left else self._trials.ask()
            twin = next(t for t in self._trials.kept() if t.params == trial.params)
            if twin.number == trial.number:
                return self._attempt(trial)
            if twin.state != TrialState.RUNNING:
                self._trials.copy(trial, twin)
                self._when_ended()
        return None

    def _attempt(self, trial: FrozenTrial) -> Attempt:
        runs = self._runs_of(trial)
        left = left_to_do(self._directory, runs, self._retry_failed)
        return Attempt(trial, runs, deque(status.planned for status in left))

    def ended(self, attempt: Attempt) -> None:
        """End also the trials that waited for this one, as it has ended."""
        twin, *others = (t for t in self._trials.kept() if t.params == attempt.trial.params)
        if twin.state != TrialState.RUNNING:
            for trial in others:
                self._trials.copy(trial, twin)
                self._left = deque(left for left in self._left if left.number != trial.number)
        self._when_ended()
