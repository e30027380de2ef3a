"""Searching hyper-parameters from beginning to end, in as many sessions as it takes."""

from collections.abc import Callable
from itertools import chain

from optuna.trial import FrozenTrial, TrialState

from mviq.runs.checkpoint import Checkpoints
from mviq.runs.directory import BusyError
from mviq.runs.stopping import asked_to_stop
from mviq.studies.board import board
from mviq.studies.directory import Plan, PlannedRun, StudyDirectory
from mviq.studies.engine import Engine, Task
from mviq.studies.local import LocalEngine
from mviq.studies.plan import check_runs, config_of, spoken
from mviq.studies.running import Options, Say, Work, check_limits, priced
from mviq.studies.status import RunStatus, status_of
from mviq.studies.tuning.board import Score
from mviq.studies.tuning.curves import Judge, read_curve
from mviq.studies.tuning.file import Search, first_runs, tune_yaml
from mviq.studies.tuning.loop import Loop
from mviq.studies.tuning.proposals import Proposals
from mviq.studies.tuning.results import GIVEN_UP, Outcome, State, TrialResult
from mviq.studies.tuning.space import corners
from mviq.studies.tuning.trials import OUTCOME, REASON, Trials


def tune(
    search: Search,
    directory: StudyDirectory,
    options: Options,
    engine: Engine,
    judge: Judge,
    say: Say,
) -> Outcome:
    """Do what is left of a search; a mistake is a ``ValueError`` before anything is started."""
    trials, work = prepare(search, directory, options, engine, say)
    if work.estimate is not None:
        say(at_most(trials, work))
    check_limits(search.study.budget, work, directory, options)
    with directory.locked():
        return _Tuning(search, directory, judge).run(engine, work.tasks, options)


def at_most(trials: int, work: Work) -> str:
    """Return what some trials will take, as text."""
    return f"{trials} trial{'s' * (trials != 1)}, at most {work}; less where trials are pruned"


def prepare(
    search: Search, directory: StudyDirectory, options: Options, engine: Engine, say: Say
) -> tuple[int, Work]:
    """Find out how many trials are left and what they take, half of them at either end."""
    if directory.busy:
        raise BusyError(f"another process is running {directory.path}")
    trials = _left(search, directory)
    ends = [first_runs(search, corner) for corner in corners(search.space)]
    for runs in ends:
        check_runs(runs, here=options.engine == "local")
    halves = (ends[0], ends[-1])
    copies = [(run, 0) for i in range(trials * len(search.study.seeds)) for run in halves[i % 2]]
    return trials, priced(copies, directory, options, engine, say)


def _left(search: Search, directory: StudyDirectory) -> int:
    """Return how many trials have not ended in earlier sessions; also refuse another search."""
    if not directory.is_search:
        directory.check_owner(Plan(search.study.name, "", None, ()))
        return search.trials
    with directory.locked():
        kept = Trials(search, directory.journal).kept()
    begun = sum(trial.state == TrialState.RUNNING for trial in kept)
    return begun + max(search.trials - len(kept), 0)


class _Tuning:
    """A session of a search, by the process that holds the lock of its directory."""

    def __init__(self, search: Search, directory: StudyDirectory, judge: Judge) -> None:
        self._search, self._directory, self._judge = search, directory, judge
        self._score = Score(search.trials)
        self._runs: dict[int, list[PlannedRun]] = {}
        self._results: dict[int, TrialResult] = {}
        if not directory.plan_file.is_file():
            self._settle()
        self._trials = Trials(search, directory.journal)
        for trial in self._trials.kept():
            self._runs[trial.number] = search.runs(trial.number, self._trials.chosen(trial))
        self._settle()
        self._count()

    def _settle(self) -> None:
        """Write down all runs there are; what two trials share is there once."""
        study, runs = self._search.study, dict[str, PlannedRun]()
        for run in chain.from_iterable(self._runs.values()):
            runs.setdefault(run.run, run)
        plan = Plan(study.name, study.description, None, tuple(runs.values()))
        self._directory.settle(tune_yaml(self._search), plan)

    def _runs_of(self, trial: FrozenTrial) -> list[PlannedRun]:
        if trial.number not in self._runs:
            chosen = self._trials.chosen(trial)
            self._runs[trial.number] = self._search.runs(trial.number, chosen)
            self._settle()
        return self._runs[trial.number]

    def run(self, engine: Engine, tasks: list[Task], options: Options) -> Outcome:
        """Do the trials that are left."""
        room = engine.room(tasks) if tasks else 0
        memory = max((task.memory for task in tasks), default=0)
        with board(self._score, options.quiet) as shown, asked_to_stop() as stop:
            source = Proposals(
                self._trials,
                self._search.trials,
                self._runs_of,
                self._directory,
                options.retry_failed,
                when_ended=lambda: self._tell(shown.say),
            )
            loop = Loop(
                self._directory,
                self._trials,
                source,
                self._judge,
                self._score,
                shown,
                engine_for_one(engine),
                room,
                memory,
            )
            try:
                loop.run(stop)
                stopped = stop.is_set()
            except KeyboardInterrupt:
                stopped = True
        self._count()
        found = tuple(self._results.values())
        return Outcome(self._search, found, self._trials.importances(), stopped)

    def _tell(self, say: Say) -> None:
        """Say what has become of the trials that have ended since the last time."""
        score, new = self._score, self._count()
        for trial in new:
            say(f"{_line(trial)} [{score.ended}/{score.trials}, best {score.best}]")

    def _count(self) -> list[TrialResult]:
        """Look again at the trials that are open, and return those that have ended since."""
        new = []
        for trial in self._trials.kept():
            before = self._results.get(trial.number)
            if before is None or before.is_open:
                found = self._results[trial.number] = self._result(trial)
                if found.state != "interrupted" and (not before or found.state != before.state):
                    new.append(found)
                if found.state in GIVEN_UP:
                    self._discard(trial)
        self._score.count(self._results.values())
        return new

    def _discard(self, trial: FrozenTrial) -> None:
        """Remove the checkpoints of runs that nobody will continue."""
        for run in (self._directory.run(planned.run) for planned in self._runs_of(trial)):
            if not run.result_file.is_file():
                Checkpoints(run.checkpoints).remove()

    def _result(self, trial: FrozenTrial) -> TrialResult:
        statuses = [status_of(self._directory, run) for run in self._runs_of(trial)]
        reason = trial.user_attrs.get(REASON, "")
        state: State = "finished"
        if trial.state == TrialState.PRUNED:
            state = trial.user_attrs[OUTCOME]
        elif trial.state == TrialState.RUNNING:
            failed = [run.message for run in statuses if run.state == "failed"]
            state, reason = ("failed", failed[0]) if failed else ("interrupted", "")
        return TrialResult(
            trial.number,
            self._trials.chosen(trial),
            state,
            trial.value if trial.state == TrialState.COMPLETE else None,
            {(s.planned.seed, s.planned.env): self._score_of(s) for s in statuses},
            reason,
        )

    def _score_of(self, status: RunStatus) -> float | None:
        if status.state != "finished":
            return None
        run = status.planned
        return self._judge(read_curve(self._directory.run(run.run), config_of(run)))


def engine_for_one(engine: Engine) -> Callable[[], Engine]:
    """Return what gives an engine for a single run: a trial is stopped without the others."""
    if isinstance(engine, LocalEngine):
        return lambda: LocalEngine(1)
    return lambda: engine


def _line(trial: TrialResult) -> str:
    values = ", ".join(f"{name}={spoken(value)}" for name, value in trial.chosen.items())
    end = trial.state if trial.score is None else f"{trial.score:.4g}"
    return f"trial {trial.number}: {values}: {end}" + (f", {trial.reason}" if trial.reason else "")
