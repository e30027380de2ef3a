"""Curves for several q: the data of figures 1 and 2, and how they are drawn."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from torch import Tensor

from mviq.arrays import Floats
from mviq.drawing.style import BLUE, ORANGE
from mviq.paper.looks import LOOK_OF_Q
from mviq.paper.reproduction import Data


@dataclass(frozen=True)
class FamilyCurve:
    """A line of a figure: y against x at one index q, in one panel."""

    panel: str
    q: float
    x: Floats
    y: Floats


def curve(panel: str, q: float, x: Tensor, y: Tensor) -> FamilyCurve:
    """Return a line through points held in tensors."""
    return FamilyCurve(panel, q, x.double().numpy(), y.double().numpy())


def point(panel: str, q: float, x: float, y: float | Tensor) -> FamilyCurve:
    """Return a line of one point, for panels that show one number per index."""
    return FamilyCurve(panel, q, np.array([float(x)]), np.array([float(y)]))


def of_panel(curves: Iterable[FamilyCurve], panel: str) -> list[FamilyCurve]:
    """Return the curves of one panel."""
    return [one for one in curves if one.panel == panel]


def points(curves: Iterable[FamilyCurve], panel: str) -> tuple[Floats, Floats]:
    """Return x and y of all curves of one panel, concatenated; for panels with one point per q."""
    chosen = of_panel(curves, panel)
    return np.concatenate([c.x for c in chosen]), np.concatenate([c.y for c in chosen])


def two_rows(upper: str, lower: str) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a page-wide figure with two titled rows of three panels, and the two rows."""
    figure = Figure(figsize=(10, 6.6), layout=ConstrainedLayoutEngine(wspace=0.06))
    rows = []
    for half, title in zip(
        figure.subfigures(2, hspace=0.03, squeeze=False).flat, (upper, lower), strict=True
    ):
        half.suptitle(title)
        rows.append(list(half.subplots(1, 3)))
    return figure, rows[0], rows[1]


def draw_family(axes: Axes, curves: Iterable[FamilyCurve], panel: str) -> None:
    """Draw the curves of a panel for q = 1 to 5, each q with its own colour and dashes."""
    for one in of_panel(curves, panel):
        axes.plot(one.x, one.y, label=f"$q={one.q:g}$", **LOOK_OF_Q[int(one.q)].line)


def draw_points(axes: Axes, curves: Sequence[FamilyCurve], labels: Mapping[str, str]) -> None:
    """Draw the points of one or two panels into the same axes, with these legend labels."""
    for (panel, label), line, colour in zip(
        labels.items(), ("o-", "s--"), (BLUE, ORANGE), strict=False
    ):
        axes.plot(*points(curves, panel), line, color=colour, label=label)


def data_of(curves: Iterable[FamilyCurve]) -> Data:
    """Return the points of all curves as a table."""
    rows = [
        (one.panel, float(one.q), float(x), float(y))
        for one in curves
        for x, y in zip(one.x, one.y, strict=True)
    ]
    return Data(("panel", "q", "x", "y"), rows)
