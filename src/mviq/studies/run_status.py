"""The status of the runs of a study, from stored files only. Nothing here loads torch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from mviq.runs.directory import RunDirectory
from mviq.runs.records import StoredStatus, progress_curve, read_ending, saved_step
from mviq.studies.study_directory import PlannedRun, StudyDirectory

RunState = Literal["finished", "diverged", "failed", "running", "interrupted", "waiting"]
_NOBODY_AT_WORK: Mapping[StoredStatus, RunState] = {
    "unfinished": "interrupted",
    "not begun": "waiting",
}
"""The state of a run with a stored status, if no process is working on it."""


@dataclass(frozen=True)
class RunStatus:
    """The state and progress of a run."""

    planned: PlannedRun
    state: RunState
    step: int = 0
    """The last step that was recorded."""
    message: str = ""
    """Why it failed or diverged."""
    was_killed: bool = False
    """Whether it failed because it was killed, and so is worth another attempt."""
    saved: int = 0
    """The step at which it continues if it is started again."""


def status_of(directory: StudyDirectory, planned: PlannedRun) -> RunStatus:
    """Return the status of a run from its files and its lock."""
    run, failure = directory.run(planned.run), directory.failure(planned.run)
    saved = saved_step(run)
    try:
        ending = read_ending(run, None if failure is None else failure.reason)
    except ValueError as damaged:
        return RunStatus(planned, "failed", saved, str(damaged), saved=saved)
    if ending.status == "finished" or ending.status == "diverged":
        return RunStatus(planned, ending.status, ending.steps, ending.reason)
    if run.busy:
        return RunStatus(planned, "running", ending.steps, saved=saved)
    if failure is not None:
        step = saved if failure.when is None else failure.when
        return RunStatus(planned, "failed", step, failure.reason, failure.killed, saved)
    step = max(saved, ending.steps)
    return RunStatus(planned, _NOBODY_AT_WORK[ending.status], step, saved=saved)


def last_return(run: RunDirectory) -> float | None:
    """Return the mean return of the last evaluation, or else of the last training episodes."""
    for column in ("eval/mean_reward", "rollout/ep_rew_mean"):
        _, values = progress_curve(run, column)
        if values.size:
            return float(values[-1])
    return None


def count_states(runs: Iterable[RunStatus]) -> str:
    """Return how many runs are in which state, as text."""
    states = [status.state for status in runs]
    return ", ".join(f"{states.count(x)} {x}" for x in get_args(RunState) if x in states)
