"""Figures as data: panels of series, for pictures, the HTML page and CSV files."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mviq.arrays import Floats

Cell: TypeAlias = str | int | float | None
Kind: TypeAlias = Literal["curves", "bars", "intervals"]
SHARES = (-0.02, 1.02)  # an axis for probabilities


class Maths(str):
    """Text in Matplotlib's mathtext; any other ``str`` is shown literally."""

    __slots__ = ()


@dataclass(frozen=True)
class Series:
    """The data of one label in a panel: values with their intervals."""

    label: str
    x: Floats | tuple[str, ...]
    """Numbers on an axis, or names of groups of bars."""
    y: Floats
    low: Floats
    high: Floats
    """The ends of the interval, NaN where they are unknown."""
    runs: Floats | None = None
    """Single runs ``(runs, points)``, drawn instead of an interval that would be too wide to be
    useful; None: the interval is drawn."""
    dotted: bool = False
    """Whether it is a second line of its label, drawn dotted and not in the legend."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    kind: Kind = "curves"
    reference: float | None = None
    """Position of a reference line: no difference, a probability of one half, or the optimum."""
    limits: tuple[float, float] | None = None
    """Limits of the value axis; None: set by the data."""
    symbol: str = ""
    """Title of the value axis in pictures, in mathtext; empty: ``y_title``."""
    linear_below: float | None = None
    """Below this value the axis in pictures is linear, above it logarithmic (symlog); None: linear;
    0: logarithmic."""

    @property
    def places(self) -> list[str]:
        """The names of the groups of bars."""
        return list(dict.fromkeys(str(name) for series in self.series for name in series.x))


@dataclass(frozen=True)
class FigureData:
    """The content of a figure."""

    name: str
    """Name of its files, without suffix."""
    title: str
    caption: str
    panels: tuple[Panel, ...]

    @property
    def kind(self) -> Kind:
        """The kind of its first panel."""
        return self.panels[0].kind

    @property
    def labels(self) -> list[str]:
        """The labels that it shows."""
        return list(dict.fromkeys(s.label for panel in self.panels for s in panel.series))


def value_range(panel: Panel) -> tuple[float, float]:
    """Return the limits of the value axis: all values, and intervals unless they are too wide.

    With few runs, an interval can be ten times as wide as the range of the values; the frame then
    cuts it off.
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


def _extent(values: Floats) -> tuple[float, float]:
    known = values[~np.isnan(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def rows_of(figure: FigureData) -> list[tuple[Cell, ...]]:
    """Return all points of a figure: panel, label, x, y, and the ends of the interval."""
    return [
        (panel.title, series.label, *cells)
        for panel in figure.panels
        for series in panel.series
        for cells in zip(series.x, series.y, series.low, series.high, strict=True)
    ]


def csv_bytes(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> bytes:
    """Return a CSV file; None and NaN are empty cells.

    Floats have twelve digits, because further digits differ between machines.

    >>> csv_bytes(("a", "b", "c"), [(0.1, 2, float("nan"))])
    b'a,b,c\\n0.1,2,\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_written(cell) for cell in row] for row in rows)
    return text.getvalue().encode()


def _written(cell: Cell) -> str:
    if isinstance(cell, float):
        return "" if np.isnan(cell) else f"{cell:.12g}"
    return "" if cell is None else str(cell)
