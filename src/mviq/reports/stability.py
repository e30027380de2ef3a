"""Stability of learning: returns in the second half of a run, and drops after a success.

A success is an evaluation whose mean return reaches Gymnasium's ``reward_threshold``. Environments
without a threshold have no row.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.panels import csv_bytes
from mviq.reports.comparison import Comparison, Environment, counts
from mviq.reports.numbers import UNKNOWN
from mviq.reports.statistics import Interval, interval, mean


@dataclass(frozen=True)
class StabilityRow:
    """How stable the runs of one label are in one environment."""

    env: str
    label: str
    solved: float
    """The mean return at which the environment counts as solved."""
    runs: int
    """Number of runs that are included, with those whose curve is incomplete."""
    diverged: int
    late: Interval
    """Mean return of the evaluations in the second half of the run."""
    share: Interval
    """Share of these evaluations that were successes."""
    succeeded: int
    """Runs with at least one success."""
    worst: float
    """The lowest evaluation of any run from its first success on; NaN without a success."""


def stability(comparison: Comparison) -> tuple[StabilityRow, ...]:
    """Return a row for every label in every environment with a reward threshold."""
    return tuple(
        _row(comparison, environment, label, solved)
        for environment in comparison.environments
        if (solved := solved_at(environment.env)) is not None
        for label in environment.curves
    )


def solved_at(env: str) -> float | None:
    """Return Gymnasium's reward threshold of an environment; None if it has none.

    >>> solved_at("CartPole-v1"), solved_at("module_of_mine:MyEnv-v0")
    (475.0, None)
    """
    import gymnasium

    spec = gymnasium.registry.get(env)
    return None if spec is None or spec.reward_threshold is None else float(spec.reward_threshold)


def worst_after_success(curve: Floats, solved: float) -> float:
    """Return the lowest point of a curve from its first success on; NaN without a success.

    >>> worst_after_success(np.array([10.0, 500.0, 90.0, 480.0]), 475.0)
    90.0
    """
    successes = np.flatnonzero(curve >= solved)
    return float(curve[successes[0] :].min()) if successes.size else np.nan


def _row(
    comparison: Comparison, environment: Environment, label: str, solved: float
) -> StabilityRow:
    steps, curves = environment.steps, environment.curves[label]
    curves = curves[~np.isnan(curves).any(axis=1)]
    late = curves[:, steps > steps[-1] / 2]
    seed = comparison.choices.seed
    worst = [worst_after_success(curve, solved) for curve in curves]
    which = comparison.choices.which
    ended = [run for run in comparison.study.select(label, environment.env) if counts(run, which)]
    return StabilityRow(
        env=environment.env,
        label=label,
        solved=solved,
        runs=len(ended),
        diverged=sum(run.status == "diverged" for run in ended),
        late=_mean(late, seed=seed, bounds=comparison.study.returns_of(environment.env)),
        share=_mean((late >= solved).astype(float), seed=seed, bounds=(0, 1)),
        succeeded=int((~np.isnan(worst)).sum()),
        worst=float(np.nanmin(worst)) if np.isfinite(worst).any() else np.nan,
    )


def _mean(late: Floats, **options: Any) -> Interval:
    """Return the mean over runs of their time averages."""
    return interval(mean, late.mean(axis=1, keepdims=True), **options) if len(late) else UNKNOWN


def stability_csv(rows: tuple[StabilityRow, ...]) -> bytes:
    """Return the rows as CSV."""
    header = (
        *("env", "label", "solved", "runs", "diverged", "late", "late low", "late high"),
        *("share", "share low", "share high", "succeeded", "worst"),
    )
    cells = [
        (
            *(row.env, row.label, row.solved, row.runs, row.diverged),
            *(row.late.estimate, row.late.low, row.late.high),
            *(row.share.estimate, row.share.low, row.share.high),
            *(row.succeeded, row.worst),
        )
        for row in rows
    ]
    return csv_bytes(header, cells)
