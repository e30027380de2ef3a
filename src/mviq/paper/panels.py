"""Panels of learning curves, one look per label throughout a figure, one per q throughout all."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

from mviq.paper.learning import Line
from mviq.reports.panels import Panel, Series, value_range
from mviq.reports.style import BLACK, BLUE, GREEN, ORANGE, PINK, looks

Look = Mapping[str, Any]
"""What Matplotlib takes to draw a line."""
LOOK_OF_Q: Mapping[float, Look] = {
    1: {"color": BLACK, "linestyle": "solid"},
    2: {"color": BLUE, "linestyle": (0, (6, 1.2))},
    3: {"color": GREEN, "linestyle": (0, (4, 1.2, 1, 1.2))},
    4: {"color": ORANGE, "linestyle": (0, (2.2, 1.2))},
    5: {"color": PINK, "linestyle": (0, (1, 1))},
}


def looks_of(labels: Sequence[str]) -> dict[str, Look]:
    """Return how each label is drawn; an index q looks the same in every figure."""
    by_q = {f"q={q}": look for q, look in LOOK_OF_Q.items()}
    others = {
        label: {"color": look.colour, "linestyle": (0, look.dashes) if look.dashes else "solid"}
        for label, look in looks(labels).items()
    }
    return {label: by_q.get(label, others[label]) for label in labels}


def grid_of(
    panels: Sequence[str], width: float = 3.3, height: float = 2.5
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a titled panel for each name, at most four in a row."""
    rows = math.ceil(len(panels) / 4)
    columns = math.ceil(len(panels) / rows)
    figure = Figure(figsize=(max(width * columns, 5), height * rows + 0.4), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False).ravel()
    found = dict(zip(panels, every, strict=False))
    for name, axes in found.items():
        axes.set_title(short(name))
    for spare in every[len(panels) :]:
        spare.set_axis_off()
    return figure, found


def short(name: str) -> str:
    """Return a name without what all Atari games share; another kind of game stays recognisable.

    >>> short("ALE/Pong-v5"), short("MinAtar/Asterix-v1")
    ('Pong', 'MinAtar/Asterix-v1')
    """
    return name.removeprefix("ALE/").removesuffix("-v5")


def draw_lines(panels: Mapping[str, Axes], lines: Sequence[Line], ylabel: str) -> None:
    """Draw every line with its ribbon into its panel, and one legend for all below them."""
    seen = looks_of(list(dict.fromkeys(label for _, label, _, _ in lines)))
    for name, axes in panels.items():
        for panel, label, steps, found in lines:
            if panel == name:
                mark = "o" if steps.size == 1 else None
                axes.plot(steps, found.estimate, label=label, marker=mark, **seen[label])
                colour = seen[label]["color"]
                axes.fill_between(steps, found.low, found.high, color=colour, alpha=0.15, lw=0)
        axes.set(xlabel="agent steps", ylabel=ylabel, ylim=_value_range(lines, name))
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    first = next(iter(panels.values()))
    handles, labels = first.get_legend_handles_labels()
    first.figure.legend(
        handles, labels, loc="outside lower center", ncols=len(labels), handlelength=3.2
    )


def _value_range(lines: Sequence[Line], panel: str) -> tuple[float, float]:
    """Return the part of the axis to show, which cuts ribbons that are far too wide."""
    series = [
        Series(label, steps, found.estimate, found.low, found.high)
        for name, label, steps, found in lines
        if name == panel
    ]
    return value_range(Panel(panel, "agent steps", "", tuple(series)))
