"""How far the runs of a study are, from stored files only. Nothing here loads torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mviq.runs.directory import RunDirectory
from mviq.runs.overrides import read_file
from mviq.runs.tables import read_rows
from mviq.studies.directory import Plan, PlannedRun, StudyDirectory

State = Literal["finished", "diverged", "failed", "running", "interrupted", "waiting"]


@dataclass(frozen=True)
class RunStatus:
    """How far a run is."""

    planned: PlannedRun
    state: State
    step: int = 0
    """How far it has come, as far as is written down."""
    message: str = ""
    """Why it failed or diverged."""
    was_killed: bool = False
    """Whether it failed because it was killed, and so is worth another attempt."""
    saved: int = 0
    """Where it continues if it is started again."""


def statuses(directory: StudyDirectory, plan: Plan) -> list[RunStatus]:
    """Return how far each run of a plan is."""
    return [status_of(directory, run) for run in plan.runs]


def status_of(directory: StudyDirectory, planned: PlannedRun) -> RunStatus:
    """Return how far a run is."""
    run = directory.run(planned.run)
    try:
        result = run.result
    except ValueError as damaged:
        saved = saved_step(run)
        return RunStatus(planned, "failed", saved, str(damaged), saved=saved)
    if result is not None:
        state: State = "finished" if result.status == "finished" else "diverged"
        return RunStatus(planned, state, result.steps, result.message)
    saved = saved_step(run)
    if run.busy:
        return RunStatus(planned, "running", logged_step(run), saved=saved)
    failure = directory.failure(planned.run)
    if failure is not None:
        when = saved if failure.when is None else failure.when
        return RunStatus(planned, "failed", when, failure.reason, failure.killed, saved)
    if not run.config_file.is_file():
        return RunStatus(planned, "waiting", saved=saved)
    return RunStatus(planned, "interrupted", max(saved, logged_step(run)), saved=saved)


def saved_step(run: RunDirectory) -> int:
    """Return the step of the newest checkpoint."""
    places = run.checkpoints.glob("step_*[0-9]")
    return max((int(place.name.removeprefix("step_")) for place in places), default=0)


def logged_step(run: RunDirectory) -> int:
    """Return the step of the last row of progress.csv."""
    rows = read_rows(run.progress) if run.progress.is_file() else []
    return int(rows[-1].get("time/total_timesteps", 0)) if rows else 0


def last_return(run: RunDirectory) -> float | None:
    """Return the mean return of the last evaluation, or else of the last training episodes."""
    rows = read_rows(run.progress) if run.progress.is_file() else []
    for column in ("eval/mean_reward", "rollout/ep_rew_mean"):
        found = [row[column] for row in rows if column in row]
        if found:
            return float(found[-1])
    return None


def total_steps(run: RunDirectory) -> int | None:
    """Return how many steps a run has in all, if it has begun."""
    return read_file(run.config_file)["total_steps"] if run.config_file.is_file() else None


def summary(found: Iterable[RunStatus]) -> str:
    """Return how many runs are in which state, as text."""
    states = [status.state for status in found]
    known = ("finished", "diverged", "failed", "running", "interrupted", "waiting")
    return ", ".join(f"{states.count(state)} {state}" for state in known if state in states)
