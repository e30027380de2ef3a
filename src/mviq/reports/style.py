"""How every figure looks, in the paper's artefacts and in reports, and how it becomes a file."""

import io
from typing import Any

import matplotlib
from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.5,
    "font.size": 9,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.5,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "savefig.dpi": 200,
    "svg.hashsalt": "mviq",  # else the identifiers in an SVG differ from run to run
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}

# Okabe and Ito's colours, apart for every kind of colour vision; the dashes serve black and white.
BLACK, BLUE, ORANGE, GREEN, PINK = "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"
AMBER, SKY, GREY = "#E69F00", "#56B4E9", "#7F7F7F"


def settle(figure: Figure) -> Figure:
    """Fix the layout of a finished figure: it would move a little with every drawing otherwise."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as PNG or SVG; same figure, same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {}
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format=suffix, metadata=metadata)
    return buffer.getvalue()
