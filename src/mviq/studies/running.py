"""Running a study from beginning to end, in as many sessions as it takes."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal

from mviq.runs.directory import BusyError
from mviq.runs.stopping import asked_to_stop
from mviq.studies import estimate as estimates
from mviq.studies import machine
from mviq.studies.board import Line, Tally, board
from mviq.studies.directory import Plan, PlannedRun, StudyDirectory
from mviq.studies.engine import Engine, Task
from mviq.studies.estimate import Estimate, Left, counted, size
from mviq.studies.local import LocalEngine
from mviq.studies.plan import check_runs, config_of, expand
from mviq.studies.ray_engine import Resources, ray_engine
from mviq.studies.session import Session, chosen, left_to_do
from mviq.studies.status import RunStatus, status_of
from mviq.studies.study import Budget, LimitError, Study, as_yaml

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a study is to be run."""

    only: Sequence[str] = ()
    """Patterns of labels, environments or seeds; none is all."""
    retry_failed: bool = False
    drop: bool = False
    """Whether runs that the study no longer has leave it; their files stay."""
    workers: int | None = None
    """Runs at once; None is as many as cores and memory allow."""
    measure: bool = True
    """Whether to measure first what the study will take."""
    force: bool = False
    """Whether to start although budget, memory or disk will not do."""
    quiet: bool = False
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    """Of a Ray cluster; None is the one of this machine, or a new one."""
    resources: Resources = field(default_factory=Resources)
    """What Ray gives to a run."""


@dataclass(frozen=True)
class Outcome:
    """How the runs that were wanted have ended so far."""

    runs: list[RunStatus]
    stopped: bool = False

    @property
    def exit_code(self) -> int:
        """Return 0 if all have finished, 130 if the study was stopped, 1 otherwise."""
        if self.stopped:
            return 130
        return 0 if all(run.state == "finished" for run in self.runs) else 1


@dataclass(frozen=True)
class Work:
    """Runs to be done now, and what they take."""

    tasks: list[Task]
    left: list[Left]
    """What is left of each."""
    estimate: Estimate | None = None
    """None if it was not measured."""

    @property
    def steps(self) -> int:
        """Return the steps that are left."""
        return sum(run.steps for run in self.left)

    def __str__(self) -> str:
        return str(self.estimate or f"{counted(len(self.left))}, {self.steps:,} steps")


def run_study(study: Study, directory: StudyDirectory, options: Options, say: Say) -> Outcome:
    """Run what is left of a study; a mistake is a ``ValueError`` before anything is started."""
    with engine_of(options) as engine:
        plan, work = prepare(study, directory, options, engine, say)
        if work.estimate is not None:
            say(str(work))
        check_limits(study.budget, work, directory, options)
        with directory.locked():
            directory.settle(as_yaml(study), plan, options.drop)
            stopped = _work(directory, plan, work, engine, options.quiet) if work.left else False
    wanted = chosen(plan, options.only)
    return Outcome([status_of(directory, run) for run in wanted], stopped)


def engine_of(options: Options) -> AbstractContextManager[Engine]:
    """Return the engine that is wanted, for as long as it is needed."""
    if options.engine == "local":
        return nullcontext(LocalEngine(options.workers))
    return ray_engine(options.address, options.resources, options.workers)


def prepare(
    study: Study, directory: StudyDirectory, options: Options, engine: Engine, say: Say
) -> tuple[Plan, Work]:
    """Find out what is to be done and what that takes; nothing is written."""
    plan = expand(study)
    wanted = chosen(plan, options.only)
    directory.check_owner(plan, options.drop)
    if directory.busy:
        raise BusyError(f"another process is running {directory.path}")
    check_runs(wanted, here=options.engine == "local")
    left = left_to_do(directory, wanted, options.retry_failed)
    return plan, priced([(run.planned, run.saved) for run in left], directory, options, engine, say)


def priced(
    runs: Sequence[tuple[PlannedRun, int]],
    directory: StudyDirectory,
    options: Options,
    engine: Engine,
    say: Say,
) -> Work:
    """Return the work of doing some runs, each from a step on; measured here if so wished."""
    place = directory.path.resolve()
    left = [Left(config_of(run), step) for run, step in runs]
    pairs = zip(runs, left, strict=True)
    tasks = [Task(place, run.run, x.config.threads) for (run, _), x in pairs]
    if tasks:
        engine.room(tasks)  # or say now that there is none
    if not tasks or not options.measure:
        return Work(tasks, left)
    say("measuring for a moment what the runs take …")
    at_once = min(LocalEngine(options.workers).room(tasks), len(tasks))
    costs = estimates.measured([run.config for run in left], at_once)
    memory = [estimates.memory(x.config, costs[estimates.cost_class(x.config)]) for x in left]
    tasks = [replace(task, memory=needed) for task, needed in zip(tasks, memory, strict=True)]
    room = min(engine.room(tasks), len(tasks))
    return Work(tasks, left, estimates.estimate(left, costs, room))


def check_limits(budget: Budget, work: Work, directory: StudyDirectory, options: Options) -> None:
    """Refuse what is over budget, or more than this machine has, unless it is forced."""
    if options.force:
        return
    found = work.estimate
    if budget.steps is not None and work.steps > budget.steps:
        raise LimitError(_over("budget.steps", f"{budget.steps:,}", f"{work.steps:,}"))
    if budget.hours is not None and work.left:
        if found is None:
            raise ValueError("budget.hours needs the study to be measured")
        hours = found.seconds / 3600
        if hours > budget.hours:
            raise LimitError(_over("budget.hours", f"{budget.hours:g}", f"about {hours:.2g}"))
    if found is None:
        return
    available, free = machine.available_memory(), machine.free_disk(directory.path)
    if options.engine == "local" and available is not None and found.memory > available:
        raise LimitError(_over("free memory", size(available), size(found.memory)))
    if found.disk > free:
        raise LimitError(_over("free disk", size(free), size(found.disk)))


def _over(limit: str, allowed: str, needed: str) -> str:
    return f"{limit} is {allowed}, the study needs {needed}"


def _work(directory: StudyDirectory, plan: Plan, work: Work, engine: Engine, quiet: bool) -> bool:
    """Let the engine do what is left, and return whether it was stopped."""
    titles = {run.run: run.title for run in plan.runs}
    lines = {
        task.run: Line(titles[task.run], left.step, left.config.total_steps)
        for task, left in zip(work.tasks, work.left, strict=True)
    }
    with board(Tally(lines), quiet) as shown, asked_to_stop() as stop:
        try:
            Session(directory, shown, stop).run(engine, work.tasks)
        except KeyboardInterrupt:
            return True
        return stop.is_set()
