"""The tables of a report: the summary by label, scores by environment, every run."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mviq.drawing.panels import csv_bytes
from mviq.reports.comparison import Comparison
from mviq.reports.numbers import UNKNOWN
from mviq.reports.statistics import (
    Interval,
    Row,
    improvements,
    interquartile_mean,
    interval,
    mean,
    summarise,
)


@dataclass(frozen=True)
class SummaryRow:
    """The statistics of one label."""

    label: str
    numbers: dict[str, Interval]
    """Estimates and intervals by the name of the statistic."""
    runs: int
    """Number of runs with a score in the averages."""
    planned: int
    diverged: int


@dataclass(frozen=True)
class Summary:
    """The main table, with the statistics it is built from."""

    columns: tuple[str, ...]
    rows: tuple[SummaryRow, ...]
    aggregates: tuple[Row, ...]
    chances: tuple[Row, ...]


class EnvironmentScore(NamedTuple):
    """The mean final score of one label in one environment."""

    label: str
    env: str
    number: Interval


IQM = "interquartile mean"
GAP = "optimality gap"
AREA = "area under curve"


def summary(comparison: Comparison) -> Summary:
    """Return the summary, sorted by descending interquartile mean; labels without one are last."""
    finals, areas = comparison.scaled("final"), comparison.scaled("area")
    seed = comparison.choices.seed
    options: Any = {"seed": seed, "bounds": comparison.scale.bounds}
    aggregates = summarise(finals, normalised=comparison.scale.has_target, **options)
    if len(comparison.shared) == 1:  # then the median over environments is the mean
        aggregates = tuple(row for row in aggregates if row.statistic != "median")
    chances: tuple[Row, ...] = ()
    if comparison.baseline is not None and finals:
        every = improvements(finals, comparison.baseline, seed=seed)
        chances = tuple(row for row in every if not np.isnan(row.low))  # one run has no interval
    numbers: dict[str, dict[str, Interval]] = {label: {} for label in comparison.study.labels}
    for row in aggregates:
        numbers[row.algorithm][row.statistic] = row
    for label, own in areas.items():
        numbers[label][AREA] = interval(interquartile_mean, own, **options)
    for row in chances:
        numbers[row.algorithm][f"P(better than {comparison.baseline})"] = row
    rows = [_summary_row(comparison, label, own) for label, own in numbers.items()]
    there = dict.fromkeys(name for own in numbers.values() for name in own)
    columns = tuple(sorted(there, key=lambda name: name != IQM))  # the main statistic first
    rows.sort(key=lambda row: np.nan_to_num(-row.numbers.get(IQM, UNKNOWN).estimate, nan=np.inf))
    return Summary(columns, tuple(rows), aggregates, chances)


def _summary_row(comparison: Comparison, label: str, numbers: dict[str, Interval]) -> SummaryRow:
    own = [run for run in comparison.study.runs if run.label == label]
    averaged = comparison.shared if label in comparison.ranked else ()
    scores = [e.final(label, comparison.choices) for e in averaged]
    return SummaryRow(
        label,
        numbers,
        runs=int(sum((~np.isnan(scored)).sum() for scored in scores)),
        planned=len(own),
        diverged=sum(run.status == "diverged" for run in own),
    )


def by_environment(comparison: Comparison) -> tuple[EnvironmentScore, ...]:
    """Return the mean raw final score of every label in every environment."""
    choices = comparison.choices
    scores = [(x, e.env, e.final(x, choices)) for e in comparison.environments for x in e.curves]
    return tuple(
        EnvironmentScore(
            label,
            env,
            interval(
                mean, own[:, None], seed=choices.seed, bounds=comparison.study.returns_of(env)
            ),
        )
        for label, env, own in scores
    )


def summary_csv(table: Summary) -> bytes:
    """Return the summary as CSV, with a row for each statistic of a label."""
    rows = [
        (*(row.label, name, x.estimate, x.low, x.high), row.runs, row.planned, row.diverged)
        for row in table.rows
        for name, x in row.numbers.items()
    ]
    header = ("label", "statistic", "estimate", "low", "high", "runs", "planned", "diverged")
    return csv_bytes(header, rows)


def scores_csv(comparison: Comparison) -> bytes:
    """Return a CSV table of all runs: status, final score and area under the curve."""
    rows = [
        (
            *(run.label, run.env, run.seed, run.name, run.status, run.steps),
            *(comparison.score(run, "final"), comparison.score(run, "area"), run.reason),
        )
        for run in comparison.study.runs
    ]
    header = ("label", "env", "seed", "run", "status", "steps", "final", "area", "reason")
    return csv_bytes(header, rows)
