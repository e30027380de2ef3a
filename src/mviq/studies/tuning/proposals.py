"""The trials of a search as a source of tasks for the scheduler."""

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from optuna.trial import FrozenTrial, TrialState

from mviq.studies.engine import Ended, Progress, Task
from mviq.studies.plan import config_of
from mviq.studies.run_status import status_of
from mviq.studies.scheduler import left_to_do
from mviq.studies.study_directory import PlannedRun
from mviq.studies.tuning.search_state import SearchState
from mviq.studies.tuning.trial_scores import (
    EvaluationCurve,
    evaluations,
    mean_score,
    read_curve,
    rungs,
)


@dataclass
class Attempt:
    """A trial whose runs are being executed."""

    trial: FrozenTrial
    runs: list[PlannedRun]
    waiting: deque[Task]
    active: set[str] = field(default_factory=set)
    outcome: tuple[str, str] | None = None
    """How and why it was given up."""

    def __post_init__(self) -> None:
        self.configs = list(map(config_of, self.runs))

    def give_up(self, outcome: str, reason: str) -> None:
        """Start no more of its runs."""
        self.outcome = self.outcome or (outcome, reason)
        self.waiting.clear()


class Proposals:
    """Proposes tasks: first those of trials left by an earlier session, then of new trials.

    A trial is given up, and its runs are stopped, as soon as one of them has diverged or the
    pruner says so.
    """

    def __init__(
        self, state: SearchState, memory: int, retry_failed: bool, say: Callable[[str], None]
    ) -> None:
        self._state, self._memory, self._retry_failed, self._say = state, memory, retry_failed, say
        self._trials, self._directory, self._judge = state.trials, state.directory, state.judge
        self._opened: set[int] = set()
        self._attempts: list[Attempt] = []

    def next(self) -> Task | None:
        """Return the next run of an open trial, or else of the next trial."""
        while (task := self._waiting_task()) is None:
            trial = self._next_trial()
            if trial is None:
                return None
            self._open(trial)
        return task

    def _waiting_task(self) -> Task | None:
        active = {run for attempt in self._attempts for run in attempt.active}
        for attempt in self._attempts:
            for task in attempt.waiting:
                if task.run not in active:  # two trials may share a run
                    attempt.waiting.remove(task)
                    attempt.active.add(task.run)
                    self._state.tally.add([task])
                    return task
        return None

    def _next_trial(self) -> FrozenTrial | None:
        """Return the next trial that needs work; one that repeats another takes its result."""
        while True:
            kept = self._trials.kept()
            for trial in kept:
                if trial.state == TrialState.RUNNING and trial.number not in self._opened:
                    first = next(t for t in kept if t.params == trial.params)
                    if first.number == trial.number:
                        return trial
                    if first.state != TrialState.RUNNING:
                        self._trials.copy(trial, first)
                        self._announce()
            if len(kept) >= self._state.search.trials:
                return None
            self._trials.ask()

    def _open(self, trial: FrozenTrial) -> None:
        self._opened.add(trial.number)
        runs = self._state.runs(trial)
        tasks = left_to_do(self._directory, runs, self._retry_failed)
        waiting = deque(replace(task, memory=self._memory) for task in tasks)
        attempt = Attempt(trial, runs, waiting)
        self._attempts.append(attempt)
        self._check(attempt)
        self._close_if_over(attempt)

    def retry(self, task: Task) -> None:
        """Put a run back in front of the others of its trial."""
        attempt = self._attempt_of(task.run)
        attempt.active.remove(task.run)
        attempt.waiting.appendleft(task)

    def update(self, event: Progress | Ended) -> Collection[str]:
        """Update the trial of a run; return its active runs if the trial is given up."""
        attempt = self._attempt_of(event.run)
        if isinstance(event, Ended):
            attempt.active.remove(event.run)
            self._check(attempt)
            self._close_if_over(attempt)
        else:
            self._check_curves(attempt, always=False)
        return () if attempt.outcome is None else attempt.active

    def _attempt_of(self, run: str) -> Attempt:
        return next(attempt for attempt in self._attempts if run in attempt.active)

    def _check(self, attempt: Attempt) -> None:
        """Give a trial up if a run of it has diverged, or the pruner says so."""
        for planned in attempt.runs:
            status = status_of(self._directory, planned)
            if status.state == "diverged":
                attempt.give_up("diverged", f"seed {planned.seed}: {status.message}")
        self._check_curves(attempt)

    def _check_curves(self, attempt: Attempt, always: bool = True) -> None:
        """Report new evaluations; ask the pruner if there are any, or if ``always``."""
        if attempt.outcome is not None:
            return
        curves, points = self._curves(attempt), max(map(evaluations, attempt.configs))
        trial, known = self._trials.live(attempt.trial), self._trials.reported(attempt.trial)
        new = list(rungs(curves, self._judge, points, known))
        for rung, value in new:
            trial.report(value, rung)
        if (new or always) and trial.should_prune():
            steps = sum(curve.steps[-1] for curve in curves if curve.steps)
            total = sum(config.total_steps for config in attempt.configs)
            attempt.give_up("pruned", f"below the median after {steps:,.0f} of {total:,} steps")

    def _curves(self, attempt: Attempt) -> list[EvaluationCurve]:
        return [
            read_curve(self._directory.run(planned.run), config)
            for planned, config in zip(attempt.runs, attempt.configs, strict=True)
        ]

    def _close_if_over(self, attempt: Attempt) -> None:
        """Record the result of a trial once its runs are over."""
        if attempt.active or attempt.waiting:
            return
        self._attempts.remove(attempt)
        states = [status_of(self._directory, planned).state for planned in attempt.runs]
        if all(state == "finished" for state in states):
            score = mean_score(self._curves(attempt), self._judge)
            if math.isfinite(score):
                self._trials.finish(attempt.trial, score)
            else:  # which Optuna would count as a failure, to be proposed again
                self._trials.give_up(attempt.trial, "diverged", f"its score is {score}")
        elif attempt.outcome is not None:
            self._trials.give_up(attempt.trial, *attempt.outcome)
        self._announce()

    def _announce(self) -> None:
        """Announce the trials that have ended since the last call."""
        for trial in self._state.update():
            self._say(f"{trial} {self._state.tally.brief}")
