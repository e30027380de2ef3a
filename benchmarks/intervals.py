"""How often does a 95 % interval contain the truth, with few seeds?

Runs are simulated from three kinds of score whose true aggregates are known: normal, skewed
(log-normal), and failing (a quarter of the runs learn nothing). The share of simulated studies
whose interval contains the truth is the coverage; below 95 % the interval is too narrow. Its
standard error is 0.7 points with 1000 simulations. A cell is ``percentile → widened``.

    python benchmarks/intervals.py [--simulations 1000] [--resamples 1000]

With ``--bca`` a cell is ``percentile → widened → BCa``, where BCa is SciPy's and estimates of two
samples are left out. It is slow.
"""

import argparse
import functools
import warnings
from collections.abc import Callable

import numpy as np
import scipy.stats
from numpy.typing import NDArray
from rich.box import MARKDOWN
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mviq.reports.statistics import (
    interquartile_mean,
    interval,
    mean,
    median,
    optimality_gap,
    probability_of_improvement,
)

Array = NDArray[np.float64]
Kind = Callable[[np.random.Generator, int, int], Array]
METHODS = ("percentile", "widened")
RUNS = (2, 3, 5, 10, 20)
TASKS = (1, 5)
SIMULATIONS_AT_ONCE = 50  # they share bootstrap draws, so use many groups


def normal(rng: np.random.Generator, runs: int, tasks: int) -> Array:
    return levels(tasks) * (1 + 0.3 * rng.normal(size=(runs, tasks)))


def skewed(rng: np.random.Generator, runs: int, tasks: int) -> Array:
    return levels(tasks) * rng.lognormal(0.0, 0.6, size=(runs, tasks))


def failing(rng: np.random.Generator, runs: int, tasks: int) -> Array:
    learnt = rng.random((runs, tasks)) < 0.75
    return np.where(learnt, levels(tasks), 0.1) + 0.05 * rng.normal(size=(runs, tasks))


def levels(tasks: int) -> Array:
    return np.linspace(0.5, 1.5, tasks) if tasks > 1 else np.array([0.8])


COMPARING = ("difference", "P(improvement)")
KINDS: dict[str, Kind] = {"normal": normal, "skewed": skewed, "failing": failing}


def difference(new: Array, old: Array) -> Array:
    """Return the difference of means, which decides most claims."""
    return mean(new) - mean(old)


ESTIMATES: dict[str, Callable[..., Array]] = {
    "mean": mean,
    "difference": difference,
    "median": median,
    "IQM": interquartile_mean,
    "gap": optimality_gap,
    "P(improvement)": probability_of_improvement,
}


def samples(
    estimate: str, kind: Kind, rng: np.random.Generator, runs: int, tasks: int
) -> tuple[Array, ...]:
    """Return simulated scores for an estimate: two samples for one that compares."""
    if estimate not in COMPARING:
        return (kind(rng, runs, tasks),)
    return kind(rng, runs, tasks) + 0.1, kind(rng, runs, tasks)


@functools.cache
def truth(estimate: str, kind: Kind, tasks: int, runs: int = 500_000) -> float:
    large = samples(estimate, kind, np.random.default_rng(12345), runs, tasks)
    if estimate == "P(improvement)":
        return float((large[0] > large[1]).mean())
    return float(ESTIMATES[estimate](*large))


def coverage(
    estimate: str,
    kind: Kind,
    runs: int,
    tasks: int,
    *,
    simulations: int,
    resamples: int,
    bca: bool = False,
) -> dict[str, float]:
    """Return for each method the share of intervals that contain the truth."""
    rng, target = np.random.default_rng(runs), truth(estimate, kind, tasks)
    hits: dict[str, list[Array]] = {method: [] for method in (*METHODS, *["BCa"][:bca])}
    bounds = (0.0, 1.0) if estimate == "P(improvement)" else (-np.inf, np.inf)
    for group in range(0, simulations, SIMULATIONS_AT_ONCE):
        drawn = [samples(estimate, kind, rng, runs, tasks) for _ in range(SIMULATIONS_AT_ONCE)]
        batch = [np.stack(sample) for sample in zip(*drawn, strict=True)]
        options = {"resamples": resamples, "seed": group, "bounds": bounds}
        for method in METHODS:
            found = interval(ESTIMATES[estimate], *batch, method=method, **options)
            hits[method].append((found.low <= target) & (target <= found.high))
        if bca:
            low, high = by_bca(ESTIMATES[estimate], batch[0], resamples, group)
            hits["BCa"].append((low <= target) & (target <= high))
    return {method: float(np.mean(found)) for method, found in hits.items()}


def by_bca(estimator: Callable[..., Array], batch: Array, resamples: int, seed: int) -> Array:
    """Return the ends of SciPy's bias-corrected and accelerated intervals, one sample per task."""

    def of_tasks(*tasks: Array, axis: int) -> Array:
        longest = max(task.shape[-1] for task in tasks)  # the jackknife leaves one run out
        gaps = [[(0, 0)] * (task.ndim - 1) + [(0, longest - task.shape[-1])] for task in tasks]
        padded = [np.pad(t, g, constant_values=np.nan) for t, g in zip(tasks, gaps, strict=True)]
        return estimator(np.stack(np.broadcast_arrays(*padded), axis=-1))

    options = {"method": "BCa", "n_resamples": resamples, "vectorized": True, "rng": seed}
    with warnings.catch_warnings(action="ignore"):  # it warns if all resamples are equal
        found = [scipy.stats.bootstrap(scores.T, of_tasks, **options) for scores in batch]
    return np.transpose([result.confidence_interval for result in found])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=1000)
    parser.add_argument("--bca", action="store_true")
    arguments = vars(parser.parse_args())
    table = Table("tasks", "scores", "estimate", *(f"{runs} runs" for runs in RUNS), box=MARKDOWN)
    cases = [
        (tasks, kind, estimate)
        for tasks in TASKS
        for kind in KINDS
        for estimate in ESTIMATES
        if tasks > 1 or estimate != "median"  # with one task it is the mean
        if not (arguments["bca"] and estimate in COMPARING)
    ]
    for tasks, kind, estimate in track(cases, "simulating", console=Console(stderr=True)):
        found = [coverage(estimate, KINDS[kind], runs, tasks, **arguments) for runs in RUNS]
        cells = [" → ".join(f"{100 * share:.0f}" for share in case.values()) for case in found]
        table.add_row(str(tasks), kind, estimate, *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
