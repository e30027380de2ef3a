"""Reads the files of a run: how it ended, its settings, its curves and its final score.

The status of a study, a search, reports and the paper's figures all read runs through these
functions. Nothing here imports torch, builds an environment or changes a file.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from mviq.arrays import Floats
from mviq.runs.directory import RunDirectory, read_json
from mviq.runs.settings import read_file
from mviq.runs.tables import read_rows

ScoreKind: TypeAlias = Literal["final", "area"]
"""The mean of the last points of a curve, or its time average."""
StoredStatus: TypeAlias = Literal["finished", "diverged", "failed", "unfinished", "not begun"]
STEP = "time/total_timesteps"


class Ending(NamedTuple):
    """How a run ended, according to its files."""

    status: StoredStatus
    steps: int
    """The last step that was recorded."""
    reason: str
    """Why there is no result, or why the run diverged; empty for a finished run."""


def read_ending(run: RunDirectory, failure: str | None = None) -> Ending:
    """Return how a run ended; ``failure`` is the reason its study has recorded, if any."""
    result = run.result
    if result is not None:
        if result.status not in ("finished", "diverged"):
            raise ValueError(f"{run.result_file} has the unknown status {result.status!r:.40}")
        diverged = result.status == "diverged"
        return Ending("diverged" if diverged else "finished", result.steps, result.message)
    steps = logged_step(run)
    if failure is not None:
        return Ending("failed", steps, failure)
    if not run.config_file.is_file():
        return Ending("not begun", steps, "not begun")
    return Ending("unfinished", steps, "interrupted, or still running")


def read_settings(run: RunDirectory) -> dict[str, Any]:
    """Return the settings in config.yaml, which must include env, seed and algorithm."""
    settings = read_file(run.config_file)
    for name, kind in (("env", str), ("seed", int), ("algorithm", str)):
        if not isinstance(settings.get(name), kind):
            raise ValueError(f"{run.config_file} has no {name}")
    return settings


def read_system(run: RunDirectory) -> dict[str, Any]:
    """Return the versions and hardware in system.json, empty if there is no such file."""
    file: Path = run.system_file
    return read_json(file) if file.is_file() else {}


def seconds_of(run: RunDirectory) -> float | None:
    """Return the wall-clock time of a run in seconds, over all its starts; None if unknown."""
    column = "time/time_elapsed"
    clock = [_number(run.timing, row, column) for row in read_rows(run.timing) if column in row]
    before_a_start = [now for now, later in pairwise(clock) if later < now]
    return sum(before_a_start) + clock[-1] if clock else None


def logged_step(run: RunDirectory) -> int:
    """Return the step of the last row of progress.csv, 0 if there is none."""
    steps = [_number(run.progress, row, STEP) for row in read_rows(run.progress) if STEP in row]
    return int(steps[-1]) if steps else 0


def saved_step(run: RunDirectory) -> int:
    """Return the step of the newest checkpoint, 0 if there is none."""
    places = run.checkpoints.glob("step_*[0-9]")
    return max((int(place.name.removeprefix("step_")) for place in places), default=0)


def evaluation_curve(run: RunDirectory, episodes: int = 1) -> tuple[Floats, Floats]:
    """Return the steps of the evaluations and the mean return of each.

    An evaluation with fewer than ``episodes`` episodes is left out: it is still being written.
    The mean is NaN if a return is not finite.
    """
    returns: dict[float, list[float]] = {}
    for row in read_rows(run.evaluations):
        if "step" in row and "return" in row:
            step = _number(run.evaluations, row, "step")
            returns.setdefault(step, []).append(_finite(run.evaluations, row, "return"))
    means = {s: sum(own) / len(own) for s, own in returns.items() if len(own) >= episodes}
    return np.array(list(means)), np.array(list(means.values()))


def progress_curve(run: RunDirectory, column: str) -> tuple[Floats, Floats]:
    """Return the steps at which a column of progress.csv has a value, and the values.

    A value that is not finite is NaN.
    """
    rows = [row for row in read_rows(run.progress) if STEP in row and column in row]
    values = {_number(run.progress, r, STEP): _finite(run.progress, r, column) for r in rows}
    return np.array(list(values)), np.array(list(values.values()))


def final_points(size: int) -> int:
    """Return how many points of a curve make its final score: a tenth of them, at least one."""
    return max(1, size // 10)


def final_score(curves: Floats, points: int | None = None) -> Floats:
    """Return the mean over the last points of curves ``(..., points)``: the final score.

    The score is NaN if one of these points is missing (NaN).

    >>> float(final_score(np.arange(20.0)))
    18.5
    """
    size = curves.shape[-1]
    points = final_points(size) if points is None else points
    if not 1 <= points <= size:
        raise ValueError(f"points must be at most {size}, got {points}")
    return np.asarray(curves[..., -points:].mean(axis=-1))


def _finite(path: Path, row: Mapping[str, str], column: str) -> float:
    value = _number(path, row, column)
    return value if math.isfinite(value) else math.nan


def _number(path: Path, row: Mapping[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise ValueError(f"{path}: {column} must be a number, got {row[column]!r}") from None
