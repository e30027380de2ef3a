"""The state of a search: its trials with their runs and results."""

from collections.abc import Iterable
from itertools import chain

from optuna.trial import FrozenTrial, TrialState

from mviq.runs.checkpoint import Checkpoints
from mviq.studies.board import Tally
from mviq.studies.engine import Ended, Event
from mviq.studies.plan import config_of
from mviq.studies.run_status import RunStatus, status_of
from mviq.studies.study_directory import Plan, PlannedRun, StudyDirectory
from mviq.studies.tuning.results import GIVEN_UP, SearchOutcome, TrialResult
from mviq.studies.tuning.search_file import Search, tune_yaml
from mviq.studies.tuning.trial_scores import Judge, read_curve
from mviq.studies.tuning.trials import OUTCOME, REASON, Trials


class TrialTally(Tally):
    """Counts trials; it knows only the runs that have been started."""

    def __init__(self, trials: int) -> None:
        super().__init__()
        self._trials, self._ended, self._best = trials, 0, "none yet"

    def take(self, event: Event) -> str | None:
        """Count an event; the end of a run is not announced, that of its trial is."""
        text = super().take(event)
        return None if isinstance(event, Ended) else text

    def count(self, trials: Iterable[TrialResult]) -> None:
        """Count the trials that have ended, and find the best."""
        ended = [trial for trial in trials if trial.state != "interrupted"]
        scores = [(t.score, -t.number) for t in ended if t.score is not None]
        self._ended = len(ended)
        if scores:
            score, number = max(scores)
            self._best = f"{score:.4g} (trial {-number})"

    @property
    def done(self) -> int:
        """The number of trials that have ended."""
        return self._ended

    @property
    def total(self) -> int:
        """The number of trials in all."""
        return self._trials

    @property
    def brief(self) -> str:
        """The state of the search, to be appended to other text."""
        return f"[{self._ended}/{self._trials}, best {self._best}]"

    def __str__(self) -> str:
        trials = f"{self._ended}/{self._trials} trials, best so far {self._best}"
        return f"{trials}, {self.rate:,.0f} steps/s"


class SearchState:
    """The trials of a search, managed by the process that holds the lock of its directory."""

    def __init__(self, search: Search, directory: StudyDirectory, judge: Judge) -> None:
        self.search, self.directory, self.judge = search, directory, judge
        self.tally = TrialTally(search.trials)
        self._runs: dict[int, list[PlannedRun]] = {}
        self._results: dict[int, TrialResult] = {}
        if not directory.plan_file.is_file():
            self._write_plan()
        self.trials = Trials(search, directory.journal)
        for trial in self.trials.kept():
            self._runs[trial.number] = search.runs(trial.number, self.trials.chosen(trial))
        self._write_plan()
        self.update()

    def _write_plan(self) -> None:
        """Write the plan with the runs of all trials; a run that two trials share is in it once."""
        study, runs = self.search.study, dict[str, PlannedRun]()
        for run in chain.from_iterable(self._runs.values()):
            runs.setdefault(run.run, run)
        plan = Plan(study.name, study.description, None, tuple(runs.values()))
        self.directory.settle(tune_yaml(self.search), plan)

    def runs(self, trial: FrozenTrial) -> list[PlannedRun]:
        """Return the runs of a trial, which are added to the plan."""
        if trial.number not in self._runs:
            chosen = self.trials.chosen(trial)
            self._runs[trial.number] = self.search.runs(trial.number, chosen)
            self._write_plan()
        return self._runs[trial.number]

    def update(self) -> list[TrialResult]:
        """Update the results of open trials, and return those that have ended since."""
        new = []
        for trial in self.trials.kept():
            before = self._results.get(trial.number)
            if before is None or before.is_open:
                result = self._results[trial.number] = self._result(trial)
                if result.state not in ("interrupted", before and before.state):
                    new.append(result)
                if result.state in GIVEN_UP:
                    self._remove_checkpoints(trial)
        self.tally.count(self._results.values())
        return new

    def outcome(self, stopped: bool) -> SearchOutcome:
        """Return the results of all trials so far."""
        self.update()
        results = tuple(self._results.values())
        return SearchOutcome(self.search, results, self.trials.importances(), stopped)

    def _remove_checkpoints(self, trial: FrozenTrial) -> None:
        """Remove the checkpoints of runs that will not be continued."""
        for run in (self.directory.run(planned.run) for planned in self.runs(trial)):
            if not run.result_file.is_file():
                Checkpoints(run.checkpoints).remove()

    def _result(self, trial: FrozenTrial) -> TrialResult:
        statuses = [status_of(self.directory, run) for run in self.runs(trial)]
        state, reason = "finished", trial.user_attrs.get(REASON, "")
        if trial.state == TrialState.PRUNED:
            state = trial.user_attrs[OUTCOME]
        elif trial.state == TrialState.RUNNING:
            failed = [run.message for run in statuses if run.state == "failed"]
            state, reason = ("failed", failed[0]) if failed else ("interrupted", "")
        return TrialResult(
            trial.number,
            self.trials.chosen(trial),
            state,
            trial.value if trial.state == TrialState.COMPLETE else None,
            {(s.planned.seed, s.planned.env): self._score(s) for s in statuses},
            reason,
        )

    def _score(self, status: RunStatus) -> float | None:
        if status.state != "finished":
            return None
        run = status.planned
        return self.judge(read_curve(self.directory.run(run.run), config_of(run)))
