"""Stratified bootstrap confidence intervals for any estimate.

Every task is a stratum: its runs are resampled with replacement. The tasks are fixed, so the
interval says nothing about other tasks. With few runs the percentile interval of rliable is too
narrow (with three runs of one task, a nominal 95 % interval covers 74 %), so the default widens it
by the ratio of Welch's t interval to a normal interval with the biased variance. This ratio is
derived for the mean of normal scores but improves the coverage of every estimate.
``docs/statistics.md`` reports the measured coverage and explains why BCa is not offered.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from mviq.arrays import Floats
from mviq.reports.statistics.estimates import points_first
from mviq.reports.statistics.score_checks import (
    as_curves,
    as_scores,
    check_at_least,
    check_choice,
    check_same_tasks,
)

Method = Literal["widened", "percentile"]
LEVEL = 0.95
RESAMPLES = 5000
_BLOCK = 2**18  # scores resampled at a time, to limit memory; the result is the same


@dataclass(frozen=True)
class Interval:
    """An estimate and the two ends of its confidence interval: numbers, or arrays of one shape.

    >>> print(Interval(-179.17, -190.04, -168.2))
    -179 [-190, -168]
    """

    estimate: Any
    low: Any
    high: Any

    @property
    def without_width(self) -> bool:
        """Whether all resamples gave the same estimate, up to rounding."""
        return math.isclose(self.low, self.high)

    def __str__(self) -> str:
        if np.ndim(self.estimate):
            return repr(self)
        numbers = (self.estimate, self.low, self.high)
        estimate, low, high = (f"{x:.0f}" if abs(x) >= 1000 else f"{x:.3g}" for x in numbers)
        return f"{estimate} [{low}, {high}]"


def interval(
    estimator: Callable[..., Floats],
    *samples: ArrayLike,
    level: float = LEVEL,
    method: Method = "widened",
    resamples: int = RESAMPLES,
    seed: int = 0,
    per_task: bool = False,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Interval:
    """Return an estimate from one or more samples ``(..., runs, tasks)`` with its interval.

    ``percentile`` takes the central ``level`` of the estimates from resampled runs. ``widened``
    multiplies the distance of both ends from the estimate by √(n/(n−1)) t/z, which corrects the
    bias of the resampled variance and replaces the normal quantile by Student's t (Hesterberg 2015,
    What Teachers Should Know About the Bootstrap; degrees of freedom of Welch and Satterthwaite).
    ``bounds`` are the least and greatest possible estimate, such as 0 and 1 for a probability. With
    ``per_task``, the last axis of the estimate is the tasks. Samples are resampled independently.
    The same seed gives the same interval. The ends are NaN if a task has fewer than two runs.

    >>> from mviq.reports.statistics.estimates import mean
    >>> number = interval(mean, [[0.1, 0.9], [0.3, 1.1], [0.2, 1.0]], seed=1)
    >>> print(number)
    0.6 [0.484, 0.716]
    """
    arrays = [as_scores(f"sample {i}", sample) for i, sample in enumerate(samples, start=1)]
    _check(arrays, level, method, resamples, seed, bounds)
    estimate = np.asarray(estimator(*arrays))
    tails = [(1 - level) / 2, (1 + level) / 2]
    ends = np.quantile(_resampled_estimates(estimator, arrays, resamples, seed), tails, axis=0)
    several = np.all([_count_runs(array) >= 2 for array in arrays], axis=0)
    known = _per_output(several if per_task else several.all(axis=-1), estimate)
    if method == "widened":
        factor = _per_output(_widening(arrays, per_task, tails[1]), estimate)
        ends = estimate + factor * (ends - estimate)
    # If the estimate is outside the bounds, they are wrong: extend them to include it.
    lowest, highest = np.minimum(bounds[0], estimate), np.maximum(bounds[1], estimate)
    ends = np.where(known, np.clip(ends, lowest, highest), np.nan)
    return Interval(*(float(x) if estimate.ndim == 0 else x for x in (estimate, *ends)))


def curve_interval(
    estimator: Callable[..., Floats], *curves: ArrayLike, **options: Any
) -> Interval:
    """Return an estimate with its interval at every point of curves ``(runs, tasks, points)``.

    Whole runs are resampled, the same at every point. The intervals are pointwise, not a
    simultaneous band. The options are those of ``interval``.

    >>> from mviq.reports.statistics.estimates import interquartile_mean
    >>> curves = np.arange(24.0).reshape(4, 2, 3)
    >>> curve_interval(interquartile_mean, curves).estimate
    array([10.5, 11.5, 12.5])
    """
    checked = [as_curves(f"curves {i}", array) for i, array in enumerate(curves, start=1)]
    return interval(estimator, *map(points_first, checked), **options)


def _check(
    arrays: list[Floats],
    level: float,
    method: str,
    resamples: int,
    seed: int,
    bounds: tuple[float, float],
) -> None:
    if not arrays:
        raise ValueError("interval needs at least one sample of scores, got none")
    for i, array in enumerate(arrays[1:], start=2):
        check_same_tasks("sample 1", arrays[0], f"sample {i}", array)
        if array.shape[:-2] != arrays[0].shape[:-2]:
            raise ValueError(
                f"samples must have the same batch and points, got shapes {arrays[0].shape} and "
                f"{array.shape}"
            )
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, both excluded, got {level}")
    check_choice("method", method, get_args(Method))
    check_at_least("resamples", resamples, 100)
    check_at_least("seed", seed, 0)
    if not bounds[0] < bounds[1]:
        raise ValueError(f"bounds must be a lower and a higher number, got {bounds}")


def _resampled_estimates(
    estimator: Callable[..., Floats], arrays: list[Floats], resamples: int, seed: int
) -> Floats:
    """Return the estimate from each of ``resamples`` draws, along the first axis."""
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(len(arrays))]
    packed = [_present_first(array) for array in arrays]
    block = max(1, _BLOCK // max(array.size for array in arrays))
    sizes = [min(block, resamples - start) for start in range(0, resamples, block)]
    return np.concatenate(
        [
            estimator(*(_draw(a, rng, size) for a, rng in zip(packed, streams, strict=True)))
            for size in sizes
        ]
    )


def _draw(packed: Floats, rng: np.random.Generator, number: int) -> Floats:
    """Draw runs with replacement, task by task, ``number`` times; missing runs stay missing."""
    *batch, runs, tasks = packed.shape
    uniform = rng.random((number, *(1 for _ in batch), runs, tasks))
    count = _count_runs(packed)[..., None, :]
    index = np.minimum((uniform * count).astype(np.intp), np.maximum(count - 1, 0))
    drawn = np.take_along_axis(packed[None], index, axis=-2)
    return np.where(np.arange(runs)[:, None] < count, drawn, np.nan)


def _present_first(scores: Floats) -> Floats:
    """Return the scores with the missing runs of each task moved to the end."""
    return np.take_along_axis(scores, np.argsort(np.isnan(scores), axis=-2, kind="stable"), axis=-2)


def _count_runs(scores: Floats) -> Floats:
    return np.asarray((~np.isnan(scores)).sum(axis=-2))


def _widening(arrays: list[Floats], per_task: bool, upper: float) -> Floats:
    """Return √(unbiased / biased variance) t/z, with the variance of a mean over the tasks."""
    axes = 0 if per_task else (0, -1)
    runs = np.maximum(np.stack([_count_runs(array) for array in arrays]), 2)
    unbiased = np.stack([_variance_of_mean(array) for array in arrays])
    biased = (unbiased * (runs - 1) / runs).sum(axis=axes)
    total = unbiased.sum(axis=axes)
    constant = total == 0  # no spread: nothing to widen
    spread = np.where(constant, 1.0, total)
    degrees = spread**2 / np.where(constant, 1.0, (unbiased**2 / (runs - 1)).sum(axis=axes))
    factor = np.sqrt(spread / np.where(constant, 1.0, biased))
    return np.asarray(factor * stdtrit(degrees, upper) / ndtri(upper))


def _variance_of_mean(scores: Floats) -> Floats:
    """Return s²/n of each task, 0 where there are fewer than two runs."""
    present, count = ~np.isnan(scores), _count_runs(scores)
    total = np.where(present, scores, 0.0).sum(axis=-2, keepdims=True)
    centre = total / np.maximum(count[..., None, :], 1)
    squares = (np.where(present, scores - centre, 0.0) ** 2).sum(axis=-2)
    return np.asarray(squares / np.maximum((count - 1) * count, 1))


def _per_output(values: Floats, estimate: Floats) -> Floats:
    """Append axes to values per batch element so that they broadcast against the estimate."""
    return values.reshape(values.shape + (1,) * (estimate.ndim - values.ndim))
