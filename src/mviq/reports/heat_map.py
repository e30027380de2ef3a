"""A heat map of numbers, each written into its cell."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from mviq.reports.statistics.checks import Array


def heat_map(axes: Axes, values: Array, columns: Sequence[str], rows: Sequence[str]) -> AxesImage:
    """Draw values ``(rows, columns)``, the first row at the bottom; a missing one is a dash."""
    drawn = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    axes.grid(False)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    known = values[~np.isnan(values)]
    middle = (known.min() + known.max()) / 2 if known.size else 0.0
    for (row, column), value in np.ndenumerate(values):
        text = "–" if np.isnan(value) else f"{value:.3g}"
        colour = "white" if value <= middle else "black"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    return drawn
