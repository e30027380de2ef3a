"""Runs a study; if started again, continues where it stopped."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal

from mviq.messages import counted
from mviq.progress import Display
from mviq.studies import estimate as estimates
from mviq.studies import machine
from mviq.studies.board import Board, Tally
from mviq.studies.definition import Budget, LimitError, Study, study_yaml
from mviq.studies.engine import Engine, Task
from mviq.studies.estimate import Estimate, cost_class, memory, size
from mviq.studies.local import LocalEngine
from mviq.studies.plan import check_runs, expand, matching_runs
from mviq.studies.ray_engine import Resources, ray_engine
from mviq.studies.run_status import RunStatus, status_of
from mviq.studies.scheduler import Scheduler, TaskList, left_to_do
from mviq.studies.study_directory import Plan, StudyDirectory


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to run a study."""

    only: Sequence[str] = ()
    """Patterns of labels, environments or seeds; no pattern selects all runs."""
    retry_failed: bool = False
    drop: bool = False
    """Whether to drop runs that the study no longer contains; their files stay."""
    workers: int | None = None
    """Runs at once; None means as many as cores and memory allow."""
    measure: bool = True
    """Whether to measure the cost of the study first."""
    force: bool = False
    """Whether to start although budget, memory or disk do not suffice."""
    quiet: bool = False
    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    """Address of a Ray cluster; None means the one of this machine, or a new one."""
    resources: Resources = field(default_factory=Resources)
    """What a run gets from Ray."""

    def say(self, text: str) -> None:
        """Write a message to standard error, unless quiet."""
        Display(lambda elapsed: (), quiet=self.quiet).say(text)


@dataclass(frozen=True)
class StudyOutcome:
    """How the selected runs of a study have ended so far."""

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
    """Tasks to execute now, and their cost."""

    tasks: list[Task]
    estimate: Estimate | None = None
    """None if it was not measured."""

    @property
    def steps(self) -> int:
        """The number of steps left."""
        return sum(task.steps for task in self.tasks)

    def __str__(self) -> str:
        return str(self.estimate or f"{counted(len(self.tasks), 'run')}, {self.steps:,} steps")


def run_study(study: Study, directory: StudyDirectory, options: Options) -> StudyOutcome:
    """Run what is left of a study; raise ``ValueError`` before any run starts if it is invalid."""
    with engine_of(options) as engine:
        plan, work = prepare_study(study, directory, options, engine)
        if work.estimate is not None:
            options.say(str(work))
        check_limits(study.budget, work, directory, options)
        with directory.locked():
            directory.settle(study_yaml(study), plan, options.drop)
            stopped = _execute(work.tasks, directory, options, engine) if work.tasks else False
    selected = matching_runs(plan, options.only)
    return StudyOutcome([status_of(directory, run) for run in selected], stopped)


def _execute(
    tasks: list[Task], directory: StudyDirectory, options: Options, engine: Engine
) -> bool:
    """Execute tasks, and return whether they were stopped."""
    at_once = engine.room(tasks)
    if options.engine == "ray":  # Ray queues what does not fit, and nodes may join
        at_once = options.workers or len(tasks)
    tally = Tally()
    tally.add(tasks)
    with Board(tally, quiet=options.quiet) as shown:
        return Scheduler(directory, engine, at_once, shown).run(TaskList(tasks))


def engine_of(options: Options) -> AbstractContextManager[Engine]:
    """Return a context manager of the engine that the options name."""
    if options.engine == "local":
        return nullcontext(LocalEngine(options.workers))
    return ray_engine(options.address, options.resources, options.workers)


def prepare_study(
    study: Study, directory: StudyDirectory, options: Options, engine: Engine
) -> tuple[Plan, Work]:
    """Return the plan of a study and the work left; only measured costs are written to disk."""
    plan = expand(study)
    selected = matching_runs(plan, options.only)
    directory.check_owner(plan, options.drop)
    directory.check_idle()
    check_runs(selected, here=options.engine == "local")
    left = left_to_do(directory, selected, options.retry_failed)
    return plan, priced(left, options, engine)


def priced(tasks: list[Task], options: Options, engine: Engine) -> Work:
    """Return tasks with their cost, measured on this machine if the options say so."""
    if tasks:
        engine.room(tasks)  # raises an error if there is none
    if not tasks or not options.measure:
        return Work(tasks)
    at_once = min(LocalEngine(options.workers).room(tasks), len(tasks))
    kept = StudyDirectory(tasks[0].study).measured
    costs = estimates.measured([task.config for task in tasks], at_once, kept, options.say)
    tasks = [
        replace(task, memory=memory(task.config, costs[cost_class(task.config)])) for task in tasks
    ]
    room = min(engine.room(tasks), len(tasks))
    return Work(tasks, estimates.estimate(tasks, costs, room))


def check_limits(budget: Budget, work: Work, directory: StudyDirectory, options: Options) -> None:
    """Refuse work that exceeds the budget or this machine, unless it is forced."""
    if options.force:
        return
    estimate = work.estimate
    if budget.steps is not None and work.steps > budget.steps:
        raise LimitError(_over("budget.steps", f"{budget.steps:,}", f"{work.steps:,}"))
    if budget.hours is not None and work.tasks:
        if estimate is None:
            raise ValueError("budget.hours needs the study to be measured")
        hours = estimate.seconds / 3600
        if hours > budget.hours:
            raise LimitError(_over("budget.hours", f"{budget.hours:g}", f"about {hours:.2g}"))
    if estimate is None:
        return
    available, free = machine.available_memory(), machine.free_disk(directory.path)
    if options.engine == "local" and available is not None and estimate.memory > available:
        raise LimitError(_over("free memory", size(available), size(estimate.memory)))
    if estimate.disk > free:
        raise LimitError(_over("free disk", size(free), size(estimate.disk)))


def _over(limit: str, allowed: str, needed: str) -> str:
    return f"{limit} is {allowed}, the study needs {needed}"
