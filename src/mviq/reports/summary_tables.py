"""The tables of a report: the summary by label, scores by environment, every run."""

from dataclasses import dataclass

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
from mviq.reports.statistics.score_checks import Array


@dataclass(frozen=True)
class SummaryRow:
    """What is known about one label."""

    label: str
    numbers: dict[str, Interval]
    """By the name of the statistic."""
    runs: int
    """Those behind the numbers."""
    planned: int
    diverged: int


@dataclass(frozen=True)
class Summary:
    """The main table, with the rows of the statistics it is made of."""

    columns: tuple[str, ...]
    rows: tuple[SummaryRow, ...]
    aggregates: tuple[Row, ...]
    chances: tuple[Row, ...]


@dataclass(frozen=True)
class EnvironmentScore:
    """The mean final score of one label in one environment."""

    label: str
    env: str
    number: Interval
    runs: int


IQM = "interquartile mean"
GAP = "optimality gap"
AREA = "area under curve"


def summary(comparison: Comparison) -> Summary:
    """Return the summary: labels by interquartile mean, highest first, those without one last."""
    finals, areas = comparison.scaled("final"), comparison.scaled("area")
    seed = comparison.choices.seed
    aggregates = _aggregates(comparison, finals)
    chances: tuple[Row, ...] = ()
    if comparison.baseline is not None and finals:
        chances = improvements(finals, comparison.baseline, seed=seed)
    numbers: dict[str, dict[str, Interval]] = {label: {} for label in comparison.study.labels}
    for row in aggregates:
        numbers[row.algorithm][row.statistic] = row
    for label, own in areas.items():
        numbers[label][AREA] = interval(interquartile_mean, own, seed=seed)
    for row in chances:
        numbers[row.algorithm][f"P(better than {comparison.baseline})"] = row
    rows = [_summary_row(comparison, label, own) for label, own in numbers.items()]
    there = dict.fromkeys(name for own in numbers.values() for name in own)
    columns = tuple(sorted(there, key=lambda name: name != IQM))  # the one to read first
    return Summary(columns, tuple(sorted(rows, key=_rank)), aggregates, chances)


def _aggregates(comparison: Comparison, finals: dict[str, Array]) -> tuple[Row, ...]:
    target, seed = comparison.scale.has_target, comparison.choices.seed
    rows = summarise(finals, normalised=target, seed=seed)
    one = len(comparison.shared) == 1  # then the median over environments is the mean
    return tuple(row for row in rows if not (one and row.statistic == "median"))


def _rank(row: SummaryRow) -> float:
    height = row.numbers.get(IQM, UNKNOWN).estimate
    return np.inf if np.isnan(height) else -height


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
    """Return the mean final score, raw, of every label in every environment."""
    return tuple(
        _cell(label, environment.env, environment.final(label, comparison.choices), comparison)
        for environment in comparison.environments
        for label in environment.curves
    )


def _cell(label: str, env: str, scores: Array, comparison: Comparison) -> EnvironmentScore:
    number = interval(mean, scores[:, None], seed=comparison.choices.seed)
    return EnvironmentScore(label, env, number, int((~np.isnan(scores)).sum()))


def summary_csv(table: Summary) -> bytes:
    """Return the summary as a table, a row for each number."""
    rows = [
        (*(row.label, name, x.estimate, x.low, x.high), row.runs, row.planned, row.diverged)
        for row in table.rows
        for name, x in row.numbers.items()
    ]
    header = ("label", "statistic", "estimate", "low", "high", "runs", "planned", "diverged")
    return csv_bytes(header, rows)


def scores_csv(comparison: Comparison) -> bytes:
    """Return what became of every run, with its final score and its area under the curve."""
    rows = [
        (
            *(run.label, run.env, run.seed, run.name, run.status, run.steps),
            *(comparison.score(run, "final"), comparison.score(run, "area"), run.reason),
        )
        for run in comparison.study.runs
    ]
    header = ("label", "env", "seed", "run", "status", "steps", "final", "area", "reason")
    return csv_bytes(header, rows)
