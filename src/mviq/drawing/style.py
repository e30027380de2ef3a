"""How figures look: colours, lines and names of labels, and how a figure becomes a picture."""

import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import matplotlib
from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9.5,
    "figure.titlesize": 9.5,
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
_ON_DARK = {
    **{BLUE: "#58AEE6", ORANGE: "#F08A4B", GREEN: "#2FC49B", PINK: "#E39CC4", BLACK: "#F0F0F0"},
    **{AMBER: "#F2B632", SKY: "#8FD0F7", GREY: "#A9A9A9"},
}
_COLOURS = tuple(_ON_DARK)  # the strongest first
_DASHES = ((), (6, 1.5), (2.5, 1.5), (7, 1.5, 1.5, 1.5), (1, 1.2))
_THINNEST = 1.2  # points
_HALF = 18  # characters of a long name that stay at each end
_SYMBOLS = {"learning_rate": "lr", "temperature": "τ", "munchausen_alpha": "α"}
_SETTING = re.compile(rf"\b({'|'.join(_SYMBOLS)})(?==)")  # in a label that does not fit

P = ParamSpec("P")
F = TypeVar("F", Figure, Figure | None)


class Look(NamedTuple):
    """How a label looks, in all figures that show it."""

    name: str
    """What it is called where there is little room."""
    colour: str
    dashes: tuple[float, ...]
    """Line and gap in turns, in widths of the line; none for a solid line."""
    width: float
    """Of the line, in points."""

    @property
    def on_dark(self) -> str:
        """The colour on a dark ground."""
        return _ON_DARK[self.colour]

    @property
    def line(self) -> dict[str, Any]:
        """What Matplotlib takes to draw a line."""
        dashes = (0, self.dashes) if self.dashes else "solid"
        return {"color": self.colour, "linestyle": dashes, "linewidth": self.width}


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a look for each label; 40 labels differ, the first eight by their colour.

    Lines are drawn in this order and get thinner, so that one which lies on another one does not
    hide it.

    >>> looks(["DQN", "MVI(2)"])["DQN"].colour
    '#0072B2'
    """
    names, last = short_names(labels), len(labels) - 1
    step = min(0.3, 2.1 / max(last, 1))
    return {
        label: Look(
            names[i],
            _COLOURS[i % len(_COLOURS)],
            _DASHES[i % len(_DASHES)],
            _THINNEST + step * (last - i),
        )
        for i, label in enumerate(labels)
    }


def short_names(names: Sequence[str]) -> list[str]:
    """Return names that fit into a figure; those that would look alike are numbered.

    >>> short_names(["DQN", "MVI(2) temperature=0.03 munchausen_alpha=0.9", "x" * 80, "x" * 90])
    ['DQN', 'MVI(2) τ=0.03 α=0.9', 'xxxxxxxxxxxxxxxxxx…xxxxxxxxxxxxxxxxxx (1)',
    'xxxxxxxxxxxxxxxxxx…xxxxxxxxxxxxxxxxxx (2)']
    """
    short = [_short(name) for name in names]
    return [
        f"{name} ({short[:i].count(name) + 1})" if short.count(name) > 1 else name
        for i, name in enumerate(short)
    ]


def _short(name: str) -> str:
    """Return a long name with short settings, then without its middle: its end sets it apart."""
    for shorter in (name, _SETTING.sub(lambda match: _SYMBOLS[match[1]], name)):
        if len(shorter) <= 2 * _HALF + 1:
            return shorter
    return f"{shorter[:_HALF]}…{shorter[-_HALF:]}"


def in_style(draw: Callable[P, F]) -> Callable[P, F]:
    """Let a function draw in the common style, and fix the layout of the figure it returns.

    The layout would otherwise move a little with every rendering.
    """

    @wraps(draw)
    def styled(*args: P.args, **options: P.kwargs) -> F:
        with matplotlib.rc_context(STYLE), _boxes_for_missing_glyphs():
            figure = draw(*args, **options)
            if figure is not None:
                figure.draw_without_rendering()
                figure.set_layout_engine("none")
        return figure

    return styled


@contextmanager
def _boxes_for_missing_glyphs() -> Iterator[None]:
    """Draw what the font lacks as boxes, as docs/reports.md says, without a warning for each."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def pictures(
    name: str, figure: Figure, suffixes: Iterable[str] = ("png", "svg")
) -> dict[str, bytes]:
    """Return a figure as files by their names."""
    return {f"{name}.{suffix}": render(figure, suffix) for suffix in suffixes}


def render(figure: Figure, suffix: str) -> bytes:
    """Return a picture as PNG or SVG; same figure, same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {}
    with matplotlib.rc_context(STYLE), _boxes_for_missing_glyphs():
        figure.savefig(buffer, format=suffix, metadata=metadata)
    return buffer.getvalue()
