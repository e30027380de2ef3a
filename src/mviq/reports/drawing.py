"""Figures as pictures, for papers and slides: drawn with Matplotlib from their data."""

import math
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

from mviq.reports.panels import FigureData, Kind, Panel, Series, value_range
from mviq.reports.style import STYLE, Look, settle, short_names

Looks = Mapping[str, Look]
_LINE_WIDTH = 1.6
_BAND, _THIN = 0.15, 0.4  # opacity
_LEGEND_ROW, _CHARACTER = 0.18, 0.06  # inches
_BAR, _GROUP = 0.24, 1.5  # inches: a bar or dot, and the most for all bars of an environment


def draw(data: FigureData, looks: Looks) -> Figure:
    """Draw a figure: its panels side by side, one legend below."""
    with matplotlib.rc_context(STYLE):
        columns = min(len(data.panels), 2 if data.kind == "bars" else 3)
        rows = math.ceil(len(data.panels) / columns)
        width, height = _panel_size(data)
        beside = 0 if data.kind == "curves" else _CHARACTER * max(map(len, _places(data, looks)))
        size = max(width * columns + beside, 4.6), height * rows
        figure = Figure(figsize=size, layout="constrained")
        named = data.kind != "curves"  # the places on the axis, the same in all panels
        axes = figure.subplots(rows, columns, squeeze=False, sharey=named).ravel()
        for one, panel in zip(axes, data.panels, strict=False):
            _DRAW[data.kind](one, panel, looks)
            one.set_title(_wrapped(panel.title))
        for one in axes[len(data.panels) :]:
            one.set_axis_off()
        if data.kind != "intervals":  # which have the labels on their axis
            _legend(figure, data, looks)
        return settle(figure)


def _panel_size(data: FigureData) -> tuple[float, float]:
    if data.kind == "curves":
        return (3.6, 2.7) if len(data.panels) > 1 else (6.0, 3.6)
    lines = max(sum(len(series.x) for series in panel.series) for panel in data.panels)
    if data.kind == "intervals":
        return 3.2, max(1.2, _BAR * lines + 0.8)
    labels = max(len(panel.series) for panel in data.panels)
    return 4.0, max(1.2, min(_BAR, _GROUP / labels) * lines + 0.8)


def _places(data: FigureData, looks: Looks) -> list[str]:
    """Return the names on the axis: of labels beside intervals, of environments beside bars."""
    panel = data.panels[0]
    if data.kind == "intervals":
        return [looks[series.label].name for series in panel.series]
    return short_names(panel.places)


def _legend(figure: Figure, data: FigureData, looks: Looks) -> None:
    """Add a legend below the panels, with the height that it needs."""
    labels = list(dict.fromkeys(s.label for panel in data.panels for s in panel.series))
    handles = [_handle(data.kind, looks[label]) for label in labels]
    names = [_literal(looks[label].name) for label in labels]
    longest = max(map(len, names))
    columns = max(1, min(len(names), int(15 * figure.get_figwidth() / (longest + 6))))
    rows = math.ceil(len(names) / columns)
    figure.set_figheight(figure.get_figheight() + _LEGEND_ROW * (rows + 1))
    figure.legend(handles, names, loc="outside lower center", ncols=columns)


def _handle(kind: Kind, look: Look) -> Artist:
    if kind == "bars":
        return Patch(color=look.colour)
    return Line2D([], [], color=look.colour, **_line(look))


def _line(look: Look) -> dict[str, Any]:
    return {"linestyle": (0, look.dashes) if look.dashes else "solid", "linewidth": _LINE_WIDTH}


def _literal(text: str) -> str:
    """Return text that Matplotlib shows as it is: no mathematics, no hidden label."""
    shown = text.replace("$", r"\$")
    return f"\u200b{shown}" if shown.startswith("_") else shown


def _draw_curves(axes: Axes, panel: Panel, looks: Looks) -> None:
    for series in panel.series:
        look, x = looks[series.label], np.asarray(series.x, dtype=float)
        mark = "o" if x.size == 1 else None
        axes.plot(x, series.y, color=look.colour, marker=mark, markersize=4, **_line(look))
    for series in panel.series:
        _draw_spread(axes, series, looks[series.label].colour)
    axes.set(xlabel=panel.x_title, ylabel=panel.symbol or _wrapped(panel.y_title))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if panel.x_title == "agent steps":
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_ylim(*value_range(panel))
    if panel.linear_below is not None:
        axes.set_yscale("symlog", linthresh=panel.linear_below)
        axes.set_ylim(bottom=-0.2 * panel.linear_below)  # a line at zero is seen whole


def _draw_spread(axes: Axes, series: Series, colour: str) -> None:
    """Draw the interval or single runs, behind the lines."""
    x = np.asarray(series.x, dtype=float)
    if series.runs is None:
        axes.fill_between(x, series.low, series.high, color=colour, alpha=_BAND, linewidth=0)
    for run in () if series.runs is None else series.runs:
        mark = "." if x.size == 1 else None
        axes.plot(x, run, color=colour, marker=mark, alpha=_THIN, linewidth=0.7, zorder=1.5)


def _wrapped(text: str) -> str:
    return _literal("\n".join(textwrap.wrap(text, 36, max_lines=3, placeholder=" …")))


def _draw_intervals(axes: Axes, panel: Panel, looks: Looks) -> None:
    for place, series in enumerate(panel.series):
        colour = looks[series.label].colour
        axes.plot([series.low[0], series.high[0]], [place, place], color=colour, linewidth=3)
        axes.plot(series.y, [place], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(panel.series)), [_literal(looks[s.label].name) for s in panel.series])
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
    axes.set_yticks(range(len(names)), [_literal(name) for name in short_names(names)])
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.set(xlabel=_wrapped(panel.y_title), xlim=value_range(panel))
    _reference(axes, panel)


def _whisker(
    axes: Axes, place: float, ends: tuple[float, float], frame: tuple[float, float]
) -> None:
    """Draw an interval; an arrowhead says that it goes on beyond the frame."""
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
