"""A figure as data: panels of series, made once, then drawn, put on a page and written as CSV."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mviq.reports.statistics.checks import Array

Kind: TypeAlias = Literal["curves", "bars", "intervals"]
SHARES = (-0.02, 1.02)  # an axis for probabilities


@dataclass(frozen=True)
class Series:
    """What one label has in a panel: a number with its interval at every place."""

    label: str
    x: Array | tuple[str, ...]
    """Numbers on an axis, or names of groups of bars."""
    y: Array
    low: Array
    high: Array
    """The ends of the interval, NaN where it is not known."""
    runs: Array | None = None
    """Single runs ``(runs, places)``, drawn instead of the interval where it would be too wide to
    be of use; None: the interval is drawn."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    reference: float | None = None
    """A line for the eye: no difference, or an even chance."""
    limits: tuple[float, float] | None = None
    """What the axis of the numbers must show; None: what there is."""
    symbol: str = ""
    """What the numbers are called in pictures, as Matplotlib's mathematics; empty: ``y_title``."""
    linear_below: float | None = None
    """Where the axis of pictures turns from linear to logarithmic; None: it is linear."""

    @property
    def places(self) -> list[str]:
        """The names of the groups of bars."""
        return list(dict.fromkeys(str(name) for series in self.series for name in series.x))


@dataclass(frozen=True)
class FigureData:
    """All that a figure shows."""

    name: str
    """Of its files."""
    title: str
    caption: str
    kind: Kind
    panels: tuple[Panel, ...]


def value_range(panel: Panel) -> tuple[float, float]:
    """Return the part of the axis to show: every number, and intervals that are not too wide.

    An interval of few runs can be ten times as wide as the numbers lie apart; it is then cut by
    the frame.
    """
    if panel.limits is not None:
        return panel.limits
    lines = [line for s in panel.series for line in (s.y, *(() if s.runs is None else s.runs))]
    y = np.concatenate(lines)
    if panel.reference is not None:
        y = np.append(y, panel.reference)
    banded = [series for series in panel.series if series.runs is None]
    ends = [end for series in banded for end in (series.low, series.high)]
    low, high = _extent(y)
    margin = 0.6 * (high - low)
    bottom, top = _extent(np.concatenate([y, *ends]))
    low, high = max(low - margin, bottom), min(high + margin, top)
    padding = 0.04 * (high - low) or 0.5
    return low - padding, high + padding


def _extent(values: Array) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def as_csv(figure: FigureData) -> bytes:
    """Return every number of a figure as a table; an unknown one is an empty cell."""
    rows = [
        (panel.title, series.label, *cells)
        for panel in figure.panels
        for series in panel.series
        for cells in zip(
            map(_cell, series.x), *map(_cells, (series.y, series.low, series.high)), strict=True
        )
    ]
    return table(("panel", "label", "x", "y", "low", "high"), rows)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bytes:
    """Return a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue().encode()


def _cells(values: Array) -> list[str]:
    return [_cell(value) for value in values]


def _cell(value: float | str) -> str:
    return value if isinstance(value, str) else written(value)


def written(value: float) -> str:
    """Return a number as a file has it: twelve digits, the last ones differ between machines.

    >>> written(0.1), written(float("nan"))
    ('0.1', '')
    """
    return "" if np.isnan(value) else f"{value:.12g}"
