"""Panels of learning curves, one colour per label throughout a figure."""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mviq.paper.learning import Line
from mviq.reports.style import looks


def grid_of(
    panels: Sequence[str], width: float = 3.3, height: float = 2.5
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a titled panel for each name, at most four in a row."""
    columns = min(4, len(panels))
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(max(width * columns, 5), height * rows + 0.4), layout="constrained")
    every = figure.subplots(rows, columns, squeeze=False).flat
    found = dict(zip(panels, every, strict=False))
    for name, axes in found.items():
        axes.set_title(name)
    for spare in list(every)[len(panels) :]:
        spare.set_axis_off()
    return figure, found


def draw_lines(panels: Mapping[str, Axes], lines: Sequence[Line], ylabel: str) -> None:
    """Draw every line with its ribbon into its panel."""
    seen = looks(list(dict.fromkeys(label for _, label, _, _ in lines)))
    for panel, label, steps, found in lines:
        axes = panels[panel]
        colour = seen[label].colour
        axes.plot(steps, found.estimate, color=colour, label=label)
        axes.fill_between(steps, found.low, found.high, color=colour, alpha=0.2, lw=0)
        axes.set(xlabel="steps", ylabel=ylabel)
        axes.ticklabel_format(axis="x", style="sci", scilimits=(-3, 4))
    first = next(iter(panels.values()))
    first.legend()
