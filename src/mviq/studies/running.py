"""Running a study from beginning to end, in as many sessions as it takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mviq.runs.config import Config
from mviq.runs.directory import BusyError
from mviq.runs.stopping import graceful_stop
from mviq.studies import estimate as estimates
from mviq.studies import machine
from mviq.studies.board import Line, board
from mviq.studies.directory import Plan, StudyDirectory
from mviq.studies.engine import Task
from mviq.studies.estimate import Estimate, Left, size
from mviq.studies.local import LocalEngine
from mviq.studies.measuring import Measured
from mviq.studies.plan import check_runs, config_of, expand
from mviq.studies.session import Session, chosen, left_to_do
from mviq.studies.status import RunStatus, status_of
from mviq.studies.study import Budget, Study, as_yaml

Costs = Mapping[tuple[object, ...], Measured]


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a study is to be run."""

    only: Sequence[str] = ()
    """Patterns of labels, environments or seeds; none is all."""
    retry_failed: bool = False
    workers: int | None = None
    """Runs at once; None is as many as cores and memory allow."""
    measure: bool = True
    """Whether to measure first what the study will take."""
    force: bool = False
    """Whether to start although budget, memory or disk will not do."""
    quiet: bool = False
    engine: Literal["local"] = "local"


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
    """What is to be done now."""

    plan: Plan
    left: list[RunStatus]
    configs: dict[str, Config]
    costs: Costs
    workers: int
    estimate: Estimate | None


def run_study(
    study: Study, directory: StudyDirectory, options: Options, say: Callable[[str], None]
) -> Outcome:
    """Run what is left of a study; a mistake is a ``ValueError`` before anything is started."""
    work = prepare(study, directory, options, say)
    if work.estimate is not None:
        say(str(work.estimate))
    if not options.force:
        check_limits(study.budget, work, directory)
    with directory.locked():
        directory.settle(as_yaml(study), work.plan)
        stopped = _work(directory, work, options) if work.left else False
    wanted = chosen(work.plan, options.only)
    return Outcome([status_of(directory, run) for run in wanted], stopped)


def prepare(
    study: Study, directory: StudyDirectory, options: Options, say: Callable[[str], None]
) -> Work:
    """Find out what is to be done and what that takes; nothing is written."""
    plan = expand(study)
    wanted = chosen(plan, options.only)
    directory.check_owner(plan)
    if directory.busy:
        raise BusyError(f"another process is running {directory.path}")
    check_runs(wanted)
    left = left_to_do(directory, wanted, options.retry_failed)
    configs = {status.planned.run: config_of(status.planned) for status in left}
    workers = options.workers or _by_cores(configs)
    costs: Costs = {}
    if options.measure and left:
        say("measuring for a moment what the runs take …")
        costs = estimates.measured(list(configs.values()), min(workers, len(left)))
        workers = options.workers or min(workers, _by_memory(configs, costs))
    workers = min(workers, max(len(left), 1))
    return Work(plan, left, configs, costs, workers, _estimate(left, configs, costs, workers))


def _estimate(
    left: Sequence[RunStatus], configs: Mapping[str, Config], costs: Costs, workers: int
) -> Estimate | None:
    if not costs:
        return None
    rest = [Left(c, c.total_steps - run.step) for run in left for c in [configs[run.planned.run]]]
    return estimates.estimate(rest, costs, workers)


def _by_cores(configs: Mapping[str, Config]) -> int:
    return max(1, machine.cores() // max((c.threads for c in configs.values()), default=1))


def _by_memory(configs: Mapping[str, Config], costs: Costs) -> int:
    available = machine.available_memory()
    need = max(estimates.memory(c, costs[estimates.cost_class(c)]) for c in configs.values())
    return max(1, available // need) if available is not None else len(configs)


def check_limits(budget: Budget, work: Work, directory: StudyDirectory) -> None:
    """Refuse what is over budget, or more than this machine has."""
    found = work.estimate
    steps = sum(c.total_steps for c in work.configs.values()) - sum(r.step for r in work.left)
    if budget.steps is not None and steps > budget.steps:
        raise ValueError(_over("budget.steps", f"{budget.steps:,}", f"{steps:,}"))
    if budget.hours is not None and work.left:
        if found is None:
            raise ValueError("budget.hours needs the study to be measured")
        hours = found.seconds / 3600
        if hours > budget.hours:
            raise ValueError(_over("budget.hours", f"{budget.hours:g}", f"about {hours:.2g}"))
    if found is None:
        return
    available, free = machine.available_memory(), machine.free_disk(directory.path)
    if available is not None and found.memory > available:
        raise ValueError(_over("free memory", size(available), size(found.memory)))
    if found.disk > free:
        raise ValueError(_over("free disk", size(free), size(found.disk)))


def _over(limit: str, allowed: str, needed: str) -> str:
    return f"{limit} is {allowed}, the study needs {needed} (--force starts it nevertheless)"


def _work(directory: StudyDirectory, work: Work, options: Options) -> bool:
    """Let the engine do what is left, and return whether it was stopped."""
    text = "stopping: the runs save where they are"
    with board(_lines(work), options.quiet) as shown, graceful_stop(shown.say, text) as stop:
        session = Session(directory, shown, stop)
        try:
            session.run(LocalEngine(work.workers, stop), _tasks(directory, work))
        except KeyboardInterrupt:
            return True
        return stop.is_set()


def _lines(work: Work) -> dict[str, Line]:
    return {
        run.planned.run: Line(
            run.planned.title, run.step, work.configs[run.planned.run].total_steps
        )
        for run in work.left
    }


def _tasks(directory: StudyDirectory, work: Work) -> list[Task]:
    path = directory.path.resolve()
    return [Task(path, run, config.threads) for run, config in work.configs.items()]
