"""What the runs of a study measured: curves on one grid, last scores, and differences that count.

A difference counts as decided when its 95 % interval says so, not when its estimate does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mviq.paper.drawing import Data
from mviq.reports.comparison import final_points
from mviq.reports.reading import Run, StudyData
from mviq.reports.statistics import (
    Aligned,
    Interval,
    Record,
    align,
    area_under_curve,
    curve_interval,
    interval,
    mean,
    probability_of_improvement,
)
from mviq.reports.statistics.checks import Array


@dataclass(frozen=True)
class Learning:
    """One metric along all runs of a study, ``(seeds, environments, points)`` for each label."""

    metric: str
    envs: tuple[str, ...]
    curves: Mapping[str, Aligned]
    notes: tuple[str, ...]

    def of(self, label: str, env: str) -> Array:
        """Return the curves ``(seeds, points)`` of a label in an environment."""
        return np.asarray(self.curves[label].curves[:, self.envs.index(env)])

    def steps(self, label: str) -> Array:
        """Return the steps of a label's points."""
        return self.curves[label].steps

    def last(self, label: str) -> Array:
        """Return the last scores ``(seeds, environments)``, which reports call final."""
        return self.curves[label].final(final_points(self.steps(label).size))

    def first(self, label: str) -> Array:
        """Return the scores of the first point."""
        return np.asarray(self.curves[label].curves[..., 0])

    def area(self, label: str) -> Array:
        """Return the scores averaged over time, which reward learning early."""
        aligned = self.curves[label]
        return area_under_curve(aligned.curves, aligned.steps)


def learning(data: StudyData, metric: str = "eval") -> Learning:
    """Read a metric of a study; what is missing or broken off stands in the notes."""
    curves, notes = {}, [f"{run.title}: {run.status}, {run.reason}" for run in _troubled(data)]
    for label in data.labels:
        records = [_to_the_end(run, metric) for run in data.runs if _usable(run, label)]
        if not any(record.steps.size for record in records):
            raise ValueError(f"no run of {label} has got far enough to say anything of {metric}")
        curves[label] = align(records, tasks=data.envs, seeds=data.seeds)
        notes += [f"{label}: {note}" for note in curves[label].notes]
    return Learning(metric, data.envs, curves, tuple(notes))


def _troubled(data: StudyData) -> list[Run]:
    return [run for run in data.runs if run.status != "finished"]


def _usable(run: Run, label: str) -> bool:
    return run.label == label and run.status in ("finished", "diverged")


def _to_the_end(run: Run, metric: str) -> Record:
    """Return a record; an agent that diverged does not recover, so its last value is kept."""
    record = run.record(metric)
    end = float(run.settings["total_steps"])
    if run.status == "finished" or record.steps.size == 0 or record.end >= end:
        return record
    return Record(
        record.task,
        record.seed,
        np.append(record.steps, end),
        np.append(record.values, record.values[-1]),
    )


def standard_error(curves: Array) -> Interval:
    """Return the mean of curves ``(seeds, points)``, one standard error below and above."""
    found = np.nanmean(curves, axis=0)
    count = (~np.isnan(curves)).sum(axis=0)
    enough = np.where(count > 1, count, np.nan)
    squares = np.nansum((curves - found) ** 2, axis=0)
    error = np.sqrt(squares / (enough - 1) / enough)
    return Interval(found, found - error, found + error)


def confidence(curves: Array) -> Interval:
    """Return the mean of curves ``(seeds, points)`` with its 95 % interval at every point."""
    return curve_interval(mean, curves[:, None])


def difference(new: Array, old: Array) -> Interval:
    """Return mean(new) − mean(old) with its interval; both have shape ``(seeds, tasks)``."""
    return interval(lambda x, y: mean(x) - mean(y), new, old)


def change(later: Array, earlier: Array) -> Interval:
    """Return the mean of later − earlier, run by run, with its interval."""
    return interval(mean, later - earlier)


def more_often(new: Array, old: Array) -> Interval:
    """Return how likely a run of ``new`` is above one of ``old``, with its interval."""
    return interval(probability_of_improvement, new, old, bounds=(0.0, 1.0))


def above(found: Interval, level: float = 0.0) -> bool | None:
    """Return whether a number lies above a level, None if its interval does not decide it.

    >>> above(Interval(2.0, 1.0, 3.0)), above(Interval(2.0, -1.0, 5.0)), above(Interval(-2, -3, -1))
    (True, None, False)
    """
    return True if found.low > level else False if found.high < level else None


def within(found: Interval, tolerance: float) -> bool | None:
    """Return whether a number is zero up to a tolerance, None if its interval does not decide it.

    >>> within(Interval(0.0, -0.1, 0.1), 0.2), within(Interval(1.0, 0.5, 1.5), 0.2)
    (True, False)
    """
    if -tolerance <= found.low and found.high <= tolerance:
        return True
    return False if found.low > tolerance or found.high < -tolerance else None


def spoken(found: Interval) -> str:
    """Return a number with its interval, as people write it.

    >>> spoken(Interval(0.25, 0.125, 0.5))
    '0.25 [0.125, 0.5]'
    """
    if np.isnan(found.low):
        return f"{found.estimate:.3g} (one seed: no interval)"
    return f"{found.estimate:.3g} [{found.low:.3g}, {found.high:.3g}]"


Line = tuple[str, str, Array, Interval]
"""A panel, a label, steps, and a number with its ribbon at each."""


def data_of(lines: Sequence[Line]) -> Data:
    """Return lines as a table."""
    rows = [
        (panel, label, int(step), float(y), float(low), float(high))
        for panel, label, steps, found in lines
        for step, y, low, high in zip(steps, found.estimate, found.low, found.high, strict=True)
    ]
    return Data(("panel", "label", "step", "mean", "low", "high"), rows)
