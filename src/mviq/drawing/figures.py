"""Draw figures with Matplotlib."""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

from mviq.arrays import Floats
from mviq.drawing.panels import FigureData, Kind, Maths, Panel, Series, value_range
from mviq.drawing.style import Look, in_style, short_names

Looks = Mapping[str, Look]
_BAND, _THIN = 0.15, 0.4  # opacity
_LEGEND_ROW, _CHARACTER = 0.18, 0.06  # inches
_BAR, _GROUP = 0.24, 1.5  # inches: a bar or dot, and the maximum for a group of bars


@in_style
def draw(data: FigureData, looks: Looks, heading: str = "") -> Figure:
    """Draw a figure with its panels side by side and one legend below."""
    kinds = {panel.kind for panel in data.panels}
    sizes = [_panel_size(panel, alone=len(data.panels) == 1) for panel in data.panels]
    width, height = map(max, zip(*sizes, strict=True))
    columns = 2 if "bars" in kinds else 3
    names = [_places(panel, looks) for panel in data.panels]
    same = "curves" not in kinds and all(own == names[0] for own in names)
    figure, axes = panel_grid(len(data.panels), width, height, columns, sharey=same)
    beside = max((len(name) for own in names for name in own), default=0)
    figure.set_figwidth(figure.get_figwidth() + _CHARACTER * beside * (1 if same else len(names)))
    for one, panel in zip(axes, data.panels, strict=True):
        _DRAW[panel.kind](one, panel, looks)
        one.set_title(_wrapped(panel.title))
    if kinds != {"intervals"}:  # these have the labels on their axis
        _legend(figure, data, looks)
    if heading:
        figure.suptitle(literal(heading))
    return figure


def panel_grid(
    count: int, width: float, height: float, columns: int = 3, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return a figure with ``count`` panels, each of the given size in inches, in even rows."""
    rows = math.ceil(count / columns)
    columns = math.ceil(count / rows)
    size = max(width * columns, 4.6), height * rows
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey).ravel()
    for spare in axes[count:]:
        spare.remove()
    return figure, list(axes[:count])


def heat_map(
    axes: Axes,
    values: Floats,
    columns: Sequence[str],
    rows: Sequence[str],
    texts: Sequence[Sequence[str]] | None = None,
) -> AxesImage:
    """Draw values ``(rows, columns)`` with the first row at the bottom; NaN is shown as a dash.

    ``texts`` are written into the cells instead of the values.
    """
    drawn = axes.imshow(values, origin="lower", aspect="auto", cmap="viridis")
    axes.grid(False)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(rows)), rows)
    known = values[~np.isnan(values)]
    middle = (known.min() + known.max()) / 2 if known.size else 0.0
    for (row, column), value in np.ndenumerate(values):
        number = "–" if np.isnan(value) else f"{value:.3g}"
        text = number if texts is None else texts[row][column]
        colour = "white" if value <= middle else "black"
        axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    return drawn


def _panel_size(panel: Panel, alone: bool) -> tuple[float, float]:
    if panel.kind == "curves":
        return (6.0, 3.6) if alone else (3.6, 2.7)
    lines = sum(len(series.x) for series in panel.series)
    if panel.kind == "intervals":
        return 3.2, max(1.2, _BAR * lines + 0.8)
    return 4.0, max(1.2, min(_BAR, _GROUP / len(panel.series)) * lines + 0.8)


def _places(panel: Panel, looks: Looks) -> list[str]:
    """Return the tick labels: labels for intervals, environments for bars, none for curves."""
    if panel.kind == "intervals":
        return [looks[series.label].name for series in panel.series]
    return short_names(panel.places) if panel.kind == "bars" else []


def _legend(figure: Figure, data: FigureData, looks: Looks) -> None:
    """Add a legend below the panels, and make the figure higher to fit it."""
    seen = [looks[label] for label in data.labels]
    handles: list[Artist] = [
        Patch(color=look.colour) if data.kind == "bars" else Line2D([], [], **look.line)
        for look in seen
    ]
    names = [literal(look.name) for look in seen]
    longest = max(map(len, names))
    columns = max(1, min(len(names), int(15 * figure.get_figwidth() / (longest + 6))))
    rows = math.ceil(len(names) / columns)
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * (rows + 1))
    figure.legend(handles, names, loc="outside lower center", ncols=columns, handlelength=3.2)


def literal(text: str) -> str:
    """Escape text that Matplotlib would take for mathtext or a hidden label."""
    if isinstance(text, Maths):
        return text
    shown = text.replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


def _wrapped(text: str) -> str:
    if isinstance(text, Maths):
        return text
    return literal("\n".join(textwrap.wrap(text, 36, max_lines=3, placeholder=" …")))


def _draw_curves(axes: Axes, panel: Panel, looks: Looks) -> None:
    for series in panel.series:
        _draw_line(axes, series, looks[series.label])
    for series in panel.series:
        _draw_spread(axes, series, looks[series.label].colour)
    axes.set(xlabel=panel.x_title, ylabel=panel.symbol or _wrapped(panel.y_title))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if panel.x_title == "agent steps":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    if panel.reference is not None:
        axes.axhline(panel.reference, color="#555555", linewidth=0.8)
    if panel.linear_below == 0:
        if any(np.isfinite(series.y).any() for series in panel.series):
            axes.set_yscale("log")
        return
    axes.set_ylim(*value_range(panel))
    if panel.linear_below is not None:
        axes.set_yscale("symlog", linthresh=panel.linear_below)
        if panel.limits is None:
            axes.set_ylim(bottom=-0.2 * panel.linear_below)  # do not clip a line at zero


def _draw_line(axes: Axes, series: Series, look: Look) -> None:
    style = {**look.line, "marker": "o" if len(series.x) == 1 else None, "markersize": 4}
    if series.dotted:
        style["linestyle"] = "dotted"
    else:
        style["label"] = literal(series.label)
    axes.plot(np.asarray(series.x, dtype=float), series.y, **style)


def _draw_spread(axes: Axes, series: Series, colour: str) -> None:
    """Draw the interval or single runs, behind the lines."""
    x = np.asarray(series.x, dtype=float)
    if series.runs is None:
        axes.fill_between(x, series.low, series.high, color=colour, alpha=_BAND, linewidth=0)
    for run in () if series.runs is None else series.runs:
        mark = "." if x.size == 1 else None
        axes.plot(x, run, color=colour, marker=mark, alpha=_THIN, linewidth=0.7, zorder=1.5)


def _draw_intervals(axes: Axes, panel: Panel, looks: Looks) -> None:
    for place, series in enumerate(panel.series):
        colour = looks[series.label].colour
        axes.plot([series.low[0], series.high[0]], [place, place], color=colour, linewidth=3)
        axes.plot(series.y, [place], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(panel.series)), [literal(x) for x in _places(panel, looks)])
    axes.set_ylim(len(panel.series) - 0.4, -0.6)
    axes.set_xlabel(_wrapped(panel.x_title))
    if panel.limits is not None:
        axes.set_xlim(*panel.limits)
    _reference(axes, panel)


def _draw_bars(axes: Axes, panel: Panel, looks: Looks) -> None:
    names = panel.places
    thick = 0.8 / len(panel.series)
    for i, series in enumerate(panel.series):
        middle = -0.4 + thick * (i + 0.5)
        places = np.array([names.index(str(name)) for name in series.x]) + middle
        axes.barh(places, series.y, height=0.86 * thick, color=looks[series.label].colour)
        for place, low, high in zip(places, series.low, series.high, strict=True):
            _whisker(axes, place, (low, high), value_range(panel))
    axes.set_yticks(range(len(names)), [literal(name) for name in _places(panel, looks)])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set(xlabel=_wrapped(panel.y_title), xlim=value_range(panel))
    if panel.linear_below is not None:
        axes.set_xscale("symlog", linthresh=panel.linear_below)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}".replace("-", "−")))
    _reference(axes, panel)


def _whisker(
    axes: Axes, place: float, ends: tuple[float, float], frame: tuple[float, float]
) -> None:
    """Draw an interval; an arrowhead marks an end outside the frame."""
    axes.plot(ends, [place, place], color="#333333", linewidth=1)
    for edge, head, cut in zip(frame, "<>", (ends[0] < frame[0], ends[1] > frame[1]), strict=True):
        if cut:
            axes.plot(edge, place, head, color="#333333", markersize=4, clip_on=False)


def _reference(axes: Axes, panel: Panel) -> None:
    if panel.reference is not None:
        axes.axvline(panel.reference, color="#555555", linewidth=0.8)


_DRAW: Mapping[Kind, Callable[[Axes, Panel, Looks], None]] = {
    "curves": _draw_curves,
    "intervals": _draw_intervals,
    "bars": _draw_bars,
}
