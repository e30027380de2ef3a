"""Searching hyper-parameters from beginning to end, in as many sessions as it takes."""

from collections.abc import Callable
from dataclasses import replace

from optuna.trial import FrozenTrial, TrialState

from mviq.runs.directory import BusyError
from mviq.runs.stopping import asked_to_stop
from mviq.studies import estimate as estimates
from mviq.studies.directory import Plan, PlannedRun, StudyDirectory
from mviq.studies.engine import Engine, Task
from mviq.studies.estimate import Left
from mviq.studies.local import LocalEngine
from mviq.studies.plan import check_runs, config_of, spoken
from mviq.studies.running import Options, Say, Work, check_limits, engine_of
from mviq.studies.status import RunStatus, status_of
from mviq.studies.tuning_board import Score, trial_board
from mviq.studies.tuning_curves import Judge, read_curve
from mviq.studies.tuning_file import Search, first_runs, tune_yaml
from mviq.studies.tuning_loop import Loop
from mviq.studies.tuning_proposals import Proposals
from mviq.studies.tuning_results import Outcome, State, TrialResult
from mviq.studies.tuning_space import corners
from mviq.studies.tuning_trials import OUTCOME, REASON, Trials

JOURNAL = "trials.jsonl"


def tune(
    search: Search, directory: StudyDirectory, options: Options, judge: Judge, say: Say
) -> Outcome:
    """Do what is left of a search; a mistake is a ``ValueError`` before anything is started."""
    if directory.busy:
        raise BusyError(f"another process is running {directory.path}")
    left = search.trials - _ended(search, directory)
    with engine_of(options) as engine:
        work = prepare(search, left, directory, options, engine, say)
        if work.estimate is not None:
            say(f"{left} trials, at most {work.estimate}; less where trials are pruned")
        if not options.force:
            check_limits(search.study.budget, work, directory, options)
        with directory.locked():
            return _Tuning(search, directory, judge).run(engine, work.tasks, options)


def _ended(search: Search, directory: StudyDirectory) -> int:
    """Return how many trials have ended in earlier sessions; also refuse another search."""
    if not (directory.path / JOURNAL).is_file():
        directory.check_owner(Plan(search.study.name, "", None, ()))
        return 0
    with directory.locked():
        trials = Trials(search, directory.path / JOURNAL).kept()
    return sum(trial.state != TrialState.RUNNING for trial in trials)


def prepare(
    search: Search,
    trials: int,
    directory: StudyDirectory,
    options: Options,
    engine: Engine,
    say: Say,
) -> Work:
    """Find out what some trials take: as if half of them were at either end of the space."""
    ends = list(corners(search.space))
    for corner in ends:
        check_runs(first_runs(search, corner), here=options.engine == "local")
    looks = [run for corner in (ends[0], ends[-1]) for run in first_runs(search, corner)]
    configs = list(map(config_of, looks))
    several = trials * len(search.study.seeds)
    steps = several * sum(config.total_steps for config in configs) // 2
    place = directory.path.resolve()
    tasks = [
        Task(place, run.run, config.threads) for run, config in zip(looks, configs, strict=True)
    ]
    left = [RunStatus(run, "waiting") for run in looks if trials > 0]
    work = Work(Plan(search.study.name, "", None, ()), left, tasks, {"all": steps}, None)
    if not left or not options.measure:
        return work
    say("measuring for a moment what the runs take …")
    costs = estimates.measured(configs, LocalEngine(options.workers).room(tasks))
    memory = max(estimates.memory(c, costs[estimates.cost_class(c)]) for c in configs)
    tasks = [replace(task, memory=memory) for task in tasks]
    copies = [Left(c, 0) for c in configs for _ in range(-(-several // 2))][: max(several, 1)]
    room = min(engine.room(tasks), several)
    return replace(work, tasks=tasks, estimate=estimates.estimate(copies, costs, room))


class _Tuning:
    """A session of a search, by the process that holds the lock of its directory."""

    def __init__(self, search: Search, directory: StudyDirectory, judge: Judge) -> None:
        self._search, self._directory, self._judge = search, directory, judge
        if not directory.plan_file.is_file():
            self._settle([])
        self._trials = Trials(search, directory.path / JOURNAL)
        self._runs: dict[int, list[PlannedRun]] = {}
        for trial in self._trials.kept():
            self._runs[trial.number] = self._search.runs(trial.number, self._trials.chosen(trial))
        self._settle_all()

    def _settle_all(self) -> None:
        """Write down all runs there are; what two trials share is there once."""
        runs = {run.run: run for of_trial in reversed(self._runs.values()) for run in of_trial}
        self._settle(list(reversed(runs.values())))

    def _settle(self, runs: list[PlannedRun]) -> None:
        study = self._search.study
        plan = Plan(study.name, study.description, None, tuple(runs))
        self._directory.settle(tune_yaml(self._search), plan)

    def _runs_of(self, trial: FrozenTrial) -> list[PlannedRun]:
        if trial.number not in self._runs:
            chosen = self._trials.chosen(trial)
            self._runs[trial.number] = self._search.runs(trial.number, chosen)
            self._settle_all()
        return self._runs[trial.number]

    def run(self, engine: Engine, tasks: list[Task], options: Options) -> Outcome:
        """Do the trials that are left."""
        total = self._search.trials
        room, memory = engine.room(tasks), tasks[0].memory
        of_a_run = engine_for_one(engine)
        source = Proposals(
            self._trials, total, self._runs_of, self._directory, options.retry_failed
        )
        score = Score(total)
        with trial_board(score, options.quiet) as board, asked_to_stop() as stop:
            self._count(score)
            source.when_ended = lambda: self._count(score, board.say)
            try:
                Loop(self._directory, self._trials, self._judge, of_a_run, room, memory).run(
                    source, score, board, stop
                )
                stopped = stop.is_set()
            except KeyboardInterrupt:
                stopped = True
        return Outcome(self._search, self.results(), self._trials.importances(), stopped)

    def _count(self, score: Score, say: Say | None = None) -> None:
        """Count the trials that have ended, and say what has become of the new ones."""
        ended = [t for t in self.results() if t.state != "interrupted"]
        best = max((t for t in ended if t.score is not None), key=_score, default=None)
        if best is not None:
            score.best = f"{_score(best):.4g} (trial {best.number})"
        if say is not None:
            for trial in ended:
                if trial.number not in score.told:
                    say(f"{_line(trial)} [{len(ended)}/{score.trials}, best {score.best}]")
        score.ended, score.told = len(ended), {trial.number for trial in ended}

    def results(self) -> tuple[TrialResult, ...]:
        """Return what has become of the trials so far."""
        return tuple(map(self._result, self._trials.kept()))

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


def _score(trial: TrialResult) -> float:
    return -float("inf") if trial.score is None else trial.score


def _line(trial: TrialResult) -> str:
    values = ", ".join(f"{name}={spoken(value)}" for name, value in trial.chosen.items())
    end = trial.state if trial.score is None else f"{trial.score:.4g}"
    return f"trial {trial.number}: {values}: {end}" + (f", {trial.reason}" if trial.reason else "")
