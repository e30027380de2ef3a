"""Searches hyper-parameters; if started again, continues where it stopped."""

from optuna.trial import TrialState

from mviq.messages import counted
from mviq.studies.board import Board
from mviq.studies.engine import Engine, Task
from mviq.studies.plan import check_runs, config_of
from mviq.studies.running import Options, Work, check_limits, priced
from mviq.studies.scheduler import Scheduler
from mviq.studies.study_directory import Plan, StudyDirectory
from mviq.studies.tuning.proposals import Proposals
from mviq.studies.tuning.results import SearchOutcome
from mviq.studies.tuning.search_file import Search, first_runs
from mviq.studies.tuning.search_state import SearchState
from mviq.studies.tuning.space import corners
from mviq.studies.tuning.trial_scores import Judge
from mviq.studies.tuning.trials import Trials


def tune(
    search: Search,
    directory: StudyDirectory,
    options: Options,
    engine: Engine,
    judge: Judge,
) -> SearchOutcome:
    """Run what is left of a search; raise ``ValueError`` before any run starts if it is invalid."""
    trials, work = prepare_search(search, directory, options, engine)
    if work.estimate is not None:
        options.say(cost_of(trials, work))
    check_limits(search.study.budget, work, directory, options)
    at_once = engine.room(work.tasks) if work.tasks else 0
    memory = max((task.memory for task in work.tasks), default=0)
    with directory.locked():
        state = SearchState(search, directory, judge)
        with Board(state.tally, quiet=options.quiet) as shown:
            proposals = Proposals(state, memory, options.retry_failed, shown.say)
            stopped = Scheduler(directory, engine, at_once, shown).run(proposals)
        return state.outcome(stopped)


def cost_of(trials: int, work: Work) -> str:
    """Describe the cost of trials."""
    return f"{counted(trials, 'trial')}, {work}; less where trials are pruned"


def prepare_search(
    search: Search, directory: StudyDirectory, options: Options, engine: Engine
) -> tuple[int, Work]:
    """Return how many trials are left, and their cost if half are at each end of the space."""
    directory.check_idle()
    trials = _left(search, directory)
    ends = [first_runs(search, corner) for corner in corners(search.space)]
    for runs in ends:
        check_runs(runs, here=options.engine == "local")
    halves = (ends[0], ends[-1])
    place = directory.path.resolve()
    tasks = [
        Task(place, run, config_of(run))
        for i in range(trials * len(search.study.seeds))
        for run in halves[i % 2]
    ]
    return trials, priced(tasks, options, engine)


def _left(search: Search, directory: StudyDirectory) -> int:
    """Return how many trials are left; raise if the directory belongs to another search."""
    if not directory.is_search:
        directory.check_owner(Plan(search.study.name, "", None, ()))
        return search.trials
    with directory.locked():
        kept = Trials(search, directory.journal).kept()
    begun = sum(trial.state == TrialState.RUNNING for trial in kept)
    return begun + max(search.trials - len(kept), 0)
