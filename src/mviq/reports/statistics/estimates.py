"""Point estimates: one number, or one number per task, threshold or point, from many runs.

Scores have shape ``(runs, tasks)`` and learning curves ``(runs, tasks, points)``; NaN marks a
missing run. Axes before ``(runs, tasks)`` are batch axes, so that a bootstrap is a single call. If
a task has no run, estimates over the tasks are NaN, because an aggregate over the other tasks would
be a different quantity (``alignment.comparable`` leaves such tasks out, with a note).

The definitions are those of Agarwal et al. (2021), Deep Reinforcement Learning at the Edge of the
Statistical Precipice, and its library rliable.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid

from mviq.arrays import Floats
from mviq.reports.statistics.score_checks import (
    as_curves,
    as_increasing,
    as_scores,
    check_same_tasks,
)

Estimator: TypeAlias = Callable[[Floats], Floats]
"""Maps scores ``(..., runs, tasks)`` to ``(...)`` or ``(..., numbers)``."""


def task_means(scores: ArrayLike) -> Floats:
    """Return the mean over the runs of each task, NaN for a task without runs.

    >>> task_means([[1.0, 4.0], [3.0, float("nan")]])
    array([2., 4.])
    """
    return _mean_over_runs(as_scores("scores", scores))


def mean(scores: ArrayLike) -> Floats:
    """Return the mean over tasks of the mean over runs. One task with large scores dominates it.

    >>> float(mean([[0.0, 1.0, 9.0], [2.0, 1.0, 11.0]]))
    4.0
    """
    return np.asarray(task_means(scores).mean(axis=-1))


def median(scores: ArrayLike) -> Floats:
    """Return the median over tasks of the mean over runs. Zeros in half the tasks can go unnoticed.

    >>> float(median([[0.0, 1.0, 9.0], [2.0, 1.0, 11.0]]))
    1.0
    """
    return np.asarray(np.median(task_means(scores), axis=-1))


def interquartile_mean(scores: ArrayLike) -> Floats:
    """Return the mean of the middle half of all scores, runs and tasks together.

    Of n scores, the ⌊n/4⌋ lowest and the ⌊n/4⌋ highest are left out. If runs are missing, tasks
    with more runs have more weight.

    >>> float(interquartile_mean([[1.0, 2.0, 3.0, 100.0], [1.0, 2.0, 3.0, -50.0]]))
    2.0
    """
    array = as_scores("scores", scores)
    pooled = np.sort(array.reshape(*array.shape[:-2], -1), axis=-1)  # NaN last
    count = (~np.isnan(pooled)).sum(axis=-1, keepdims=True)
    trimmed, place = count // 4, np.arange(pooled.shape[-1])
    middle = (place >= trimmed) & (place < count - trimmed)
    total = np.where(middle, pooled, 0.0).sum(axis=-1)
    kept = (count - 2 * trimmed)[..., 0]
    every_task_has_a_run = (~np.isnan(array)).any(axis=-2).all(axis=-1)
    return np.where(every_task_has_a_run, total / np.maximum(kept, 1), np.nan)


def optimality_gap(scores: ArrayLike, target: float = 1.0) -> Floats:
    """Return the mean shortfall of the scores from ``target``; scores above it have none.

    ``E max(target − score, 0)``, over the runs of a task and then over the tasks. Lower is better.

    >>> float(optimality_gap([[0.5, 2.0], [1.0, 0.0]]))
    0.375
    """
    if not np.isfinite(target):
        raise ValueError(f"target must be a finite number, got {target}")
    return mean(np.maximum(target - as_scores("scores", scores), 0.0))


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Floats:
    """Return the share of runs above each threshold: P(score > threshold), averaged over tasks.

    >>> performance_profile([[0.5, 2.0], [1.0, 0.0]], [0.0, 0.5, 1.0])
    array([0.75, 0.5 , 0.25])
    """
    array, levels = as_scores("scores", scores), as_increasing("thresholds", thresholds)
    present = ~np.isnan(array)
    shares = [mean(np.where(present, array > level, np.nan)) for level in levels]
    return np.stack(shares, axis=-1)


def probability_of_improvement(new: ArrayLike, baseline: ArrayLike) -> Floats:
    """Return the probability that a run of ``new`` beats one of ``baseline`` on a random task.

    The mean over the tasks of P(X > Y) + ½ P(X = Y), over all pairs of a run X of ``new`` and a
    run Y of ``baseline`` (the Mann-Whitney U statistic over the number of pairs). Their numbers of
    runs may differ. It measures how often ``new`` is better, not by how much.

    >>> float(probability_of_improvement([[2.0, 1.0], [3.0, 1.0]], [[1.0, 1.0], [2.0, 1.0]]))
    0.6875
    """
    x, y = _pair(new, baseline)
    left, right = x[..., :, None, :], y[..., None, :, :]
    wins = (left > right).sum(axis=(-3, -2)) + (left == right).sum(axis=(-3, -2)) / 2
    pairs = (~np.isnan(x)).sum(axis=-2) * (~np.isnan(y)).sum(axis=-2)  # NaN never wins nor ties
    shares = np.where(pairs > 0, wins / np.maximum(pairs, 1), np.nan)
    return np.asarray(shares.mean(axis=-1))


def percent_improvement(new: ArrayLike, baseline: ArrayLike, *, floor: float = 0.0) -> Floats:
    """Return ``100 (new − baseline) / |baseline|`` for each task, with the means over the runs.

    This is the formula of the paper's Figure 5. It is meaningless for a baseline near zero, and NaN
    for one of zero. With ``floor`` it is safe: the denominator is ``max(|baseline|, floor)``. Set
    ``floor``, in units of the score, to the smallest difference that matters. If there are
    reference scores, ``referenced_improvement`` needs no such choice.

    >>> percent_improvement([[30.0, 1.0]], [[10.0, -2.0]])
    array([200., 150.])
    >>> percent_improvement([[30.0, 0.5]], [[10.0, 0.0]])
    array([200.,  nan])
    >>> percent_improvement([[30.0, 0.5]], [[10.0, 0.0]], floor=1.0)
    array([200.,  50.])
    """
    if not 0.0 <= floor < np.inf:
        raise ValueError(f"floor must be a finite number >= 0, got {floor}")
    x, y = (_mean_over_runs(array) for array in _pair(new, baseline))
    return _percent(x - y, np.maximum(np.abs(y), floor))


def referenced_improvement(
    new: ArrayLike, baseline: ArrayLike, low: ArrayLike, high: ArrayLike
) -> Floats:
    """Return 100 (new − baseline) / (max(high, baseline) − low) for each task.

    ``low`` and ``high`` are reference scores of the tasks, such as those of random play and of a
    human, so that the denominator is positive for any baseline. The measure is that of Wang et al.
    (2016), Dueling Network Architectures for Deep Reinforcement Learning.

    >>> referenced_improvement([[30.0, 50.0]], [[0.0, 30.0]], low=[0.0, 10.0], high=[60.0, 20.0])
    array([ 50., 100.])
    """
    x, y = (_mean_over_runs(array) for array in _pair(new, baseline))
    bottom, top = np.asarray(low, np.float64), np.asarray(high, np.float64)
    if not (bottom < top).all():
        raise ValueError(f"low must be below high in every task, got {low!r:.80} and {high!r:.80}")
    return _percent(x - y, np.maximum(top, y) - bottom)


def along_curve(estimator: Estimator, curves: ArrayLike) -> Floats:
    """Return an estimate at every point of the learning curves: the sample-efficiency curve.

    >>> along_curve(mean, [[[0.0, 2.0], [0.0, 4.0]], [[2.0, 2.0], [2.0, 4.0]]])
    array([1., 3.])
    """
    return estimator(points_first(as_curves("curves", curves)))


def area_under_curve(curves: ArrayLike, steps: ArrayLike) -> Floats:
    """Return the time average of every curve: scores ``(runs, tasks)`` that reward early learning.

    The integral by the trapezoidal rule over the range of ``steps``, or the value of a single
    point; NaN if a point is missing.

    >>> area_under_curve([[[0.0, 2.0, 2.0]]], steps=[0, 10, 30])
    array([[1.66666667]])
    """
    array, times = as_curves("curves", curves), as_increasing("steps", steps)
    if times.size != array.shape[-1]:
        raise ValueError(
            f"steps must be one number per point of curves, got {times.size} for "
            f"{array.shape[-1]} points"
        )
    if times.size == 1:
        return array[..., 0].copy()
    return np.asarray(trapezoid(array, times, axis=-1) / (times[-1] - times[0]))


def points_first(curves: Floats) -> Floats:
    """Return curves ``(runs, tasks, points)`` as a batch of scores ``(points, runs, tasks)``."""
    return np.moveaxis(curves, -1, 0)


def _mean_over_runs(scores: Floats) -> Floats:
    present = ~np.isnan(scores)
    count = present.sum(axis=-2)
    total = np.where(present, scores, 0.0).sum(axis=-2)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _pair(new: ArrayLike, baseline: ArrayLike) -> tuple[Floats, Floats]:
    x, y = as_scores("new", new), as_scores("baseline", baseline)
    check_same_tasks("new", x, "baseline", y)
    return x, y


def _percent(difference: Floats, scale: Floats) -> Floats:
    return np.divide(100 * difference, scale, out=np.full_like(difference, np.nan), where=scale > 0)
