"""Summary tables: the aggregate scores of every algorithm, with intervals."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mviq.arrays import Floats
from mviq.reports.statistics.estimates import (
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
)
from mviq.reports.statistics.intervals import Interval, interval
from mviq.reports.statistics.score_checks import as_scores

AGGREGATES = {
    "mean": mean,
    "median": median,
    "interquartile mean": interquartile_mean,
    "optimality gap": optimality_gap,
}
"""Estimates over all tasks; the optimality gap is only meaningful for normalised scores."""


@dataclass(frozen=True, kw_only=True)
class Row(Interval):
    """One estimate of the table, with its interval and the number of runs."""

    algorithm: str
    statistic: str
    fewest_runs: int
    """The number of runs of the task that has the fewest."""


def summarise(
    scores: Mapping[str, ArrayLike], *, normalised: bool, **options: Any
) -> tuple[Row, ...]:
    """Return the aggregates of each algorithm's scores ``(runs, tasks)`` with their intervals.

    ``normalised`` says that 1 is the target in every task, as the optimality gap needs. The options
    are those of ``interval``.

    >>> for row in summarise({"DQN": [[0.4, 0.8], [0.6, 1.0]]}, normalised=False):
    ...     print(row.statistic, round(row.estimate, 2), row.fewest_runs)
    mean 0.7 2
    median 0.7 2
    interquartile mean 0.7 2
    """
    chosen = [name for name in AGGREGATES if normalised or name != "optimality gap"]
    gap = {**options, "bounds": (0.0, np.inf)}
    return tuple(
        _row(
            algorithm,
            name,
            array,
            interval(AGGREGATES[name], array, **gap if name == "optimality gap" else options),
        )
        for algorithm, array in _checked(scores).items()
        for name in chosen
    )


def improvements(scores: Mapping[str, ArrayLike], baseline: str, **options: Any) -> tuple[Row, ...]:
    """Return the probability that each other algorithm improves on ``baseline``.

    >>> rows = improvements({"DQN": [[0.4], [0.6]], "M-DQN": [[0.5], [0.7]]}, baseline="DQN")
    >>> rows[0].algorithm, rows[0].estimate
    ('M-DQN', 0.75)
    """
    if baseline not in scores:
        raise ValueError(f"baseline must be one of {', '.join(scores)}, got {baseline!r}")
    statistic, checked = f"probability of improvement over {baseline}", _checked(scores)
    bounded = partial(interval, probability_of_improvement, **{"bounds": (0.0, 1.0), **options})
    return tuple(
        _row(algorithm, statistic, array, bounded(array, checked[baseline]))
        for algorithm, array in checked.items()
        if algorithm != baseline
    )


def _checked(scores: Mapping[str, ArrayLike]) -> dict[str, Floats]:
    return {name: as_scores(f"scores of {name}", array) for name, array in scores.items()}


def _row(algorithm: str, statistic: str, scores: Floats, estimated: Interval) -> Row:
    present = ~np.isnan(scores)
    return Row(
        algorithm=algorithm,
        statistic=statistic,
        **vars(estimated),
        fewest_runs=int(present.sum(axis=-2).min()),
    )
