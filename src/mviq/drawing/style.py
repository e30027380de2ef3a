"""The style of figures: colours, lines and short names of labels; rendering to PNG and SVG."""

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

# Okabe and Ito's palette, which is colour-blind safe; the dashes are for black-and-white print.
BLACK, BLUE, ORANGE, GREEN, PINK = "#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7"
AMBER, SKY, GREY = "#E69F00", "#56B4E9", "#7F7F7F"
_ON_DARK = {
    **{BLUE: "#58AEE6", ORANGE: "#F08A4B", GREEN: "#2FC49B", PINK: "#E39CC4", BLACK: "#F0F0F0"},
    **{AMBER: "#F2B632", SKY: "#8FD0F7", GREY: "#A9A9A9"},
}
_COLOURS = tuple(_ON_DARK)  # the strongest first
_DASHES = ((), (6, 1.5), (2.5, 1.5), (7, 1.5, 1.5, 1.5), (1, 1.2))
_THINNEST = 1.2  # points
_HALF = 18  # characters of a long name that are kept at each end
_SYMBOLS = {"learning_rate": "lr", "temperature": "τ", "munchausen_alpha": "α"}
_SETTING = re.compile(rf"\b({'|'.join(_SYMBOLS)})(?==)")  # in a label that is too long

P = ParamSpec("P")
F = TypeVar("F", Figure, Figure | None)


class Look(NamedTuple):
    """The style of a label, the same in all figures."""

    name: str
    """Short name of the label."""
    colour: str
    dashes: tuple[float, ...]
    """Lengths of dashes and gaps, alternating, in line widths; empty for a solid line."""
    width: float
    """Line width in points."""

    @property
    def on_dark(self) -> str:
        """The colour on a dark background."""
        return _ON_DARK[self.colour]

    @property
    def line(self) -> dict[str, Any]:
        """Keyword arguments for Matplotlib's ``plot``."""
        dashes = (0, self.dashes) if self.dashes else "solid"
        return {"color": self.colour, "linestyle": dashes, "linewidth": self.width}


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """Return a style for each label; the first 40 are distinct, the first eight by colour alone.

    Later lines are thinner, because they are drawn on top and should not hide earlier ones.

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
    """Shorten names to fit into a figure; names that become equal are numbered.

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
    """Abbreviate the settings in a long name, then cut its middle: names differ at the end."""
    for shorter in (name, _SETTING.sub(lambda match: _SYMBOLS[match[1]], name)):
        if len(shorter) <= 2 * _HALF + 1:
            return shorter
    return f"{shorter[:_HALF]}…{shorter[-_HALF:]}"


def in_style(draw: Callable[P, F]) -> Callable[P, F]:
    """Decorate a drawing function: apply the common style and freeze the layout of the figure.

    Otherwise the layout would change slightly with every rendering.
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
    """Suppress warnings about missing glyphs, which are drawn as boxes (see docs/reports.md)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")
        yield


def pictures(
    name: str, figure: Figure, suffixes: Iterable[str] = ("png", "svg")
) -> dict[str, bytes]:
    """Return the files of a figure by name."""
    return {f"{name}.{suffix}": render(figure, suffix) for suffix in suffixes}


def render(figure: Figure, suffix: str) -> bytes:
    """Render a figure as PNG or SVG; the same figure gives the same bytes."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if suffix == "svg" else {}
    with matplotlib.rc_context(STYLE), _boxes_for_missing_glyphs():
        figure.savefig(buffer, format=suffix, metadata=metadata)
    return buffer.getvalue()
