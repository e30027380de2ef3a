"""Figures: the convergence of runs, and their policies on the map."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mviq.drawing.figures import draw, literal, panel_grid
from mviq.drawing.panels import FigureData, Maths, Panel, Series
from mviq.drawing.style import in_style, looks
from mviq.tabular.mdp import MDP, Grid
from mviq.tabular.solver import Solution

_SMALLEST = 1e-16  # smaller numbers are rounding errors, not drawn on logarithmic axes
_TILES = {"#": "#6b6b6b", "H": "#9fb6c9", "C": "#c9a79f"}


class Measure(NamedTuple):
    """One measure of the history: its title, field, and whether its axis is logarithmic."""

    title: str
    field: str
    logarithmic: bool


MEASURES = (
    Measure(r"Bellman residual $\|TQ-Q\|_\infty$", "bellman_residual", True),
    Measure("value from the start", "policy_value", False),
    Measure("action gap", "action_gap", False),
    Measure(r"entropy $S_q(\pi)$", "entropy", False),
    Measure("support size", "support_size", False),
    Measure(r"divergence $D_q(\pi_{k+1}\|\pi_k)$", "divergence", True),
    Measure(r"residual $R_q(\pi_{k+1},\pi_k)$", "munchausen_residual", True),
)


def convergence_figure(
    runs: Mapping[str, Solution], title: str, optimum: float | None = None
) -> Figure:
    """Draw the history of one or several runs, one panel per measure."""
    named = {f"{label}: {run.status.value}": run for label, run in runs.items()}
    panels = [_panel(measure, named, optimum) for measure in MEASURES]
    if optimum is not None:
        panels.insert(1, _lost_value(named, optimum))
    shown = tuple(panel for panel in panels if any(len(series.x) for series in panel.series))
    return draw(FigureData("convergence", title, "", shown), looks(list(named)), title)


def _panel(measure: Measure, runs: Mapping[str, Solution], optimum: float | None) -> Panel:
    series = [_series(label, run, measure) for label, run in runs.items()]
    title, linear_below = measure.title, 0.0 if measure.logarithmic else None
    if measure.field != "policy_value":
        panel = Maths(title), "iteration", "", tuple(series)
        return Panel(*panel, linear_below=linear_below)
    greedy = measure._replace(field="greedy_value")
    series += [_series(label, run, greedy, dotted=True) for label, run in runs.items()]
    title += " (dotted: greedy)" if optimum is None else " (dotted: greedy; grey: optimal)"
    return Panel(title, "iteration", "", tuple(series), reference=optimum)


def _lost_value(runs: Mapping[str, Solution], optimum: float) -> Panel:
    """Return the panel of the value that the greedy policy loses against the optimal one.

    Unlike the distance to Q*, it is comparable between algorithms: the Munchausen term and the
    entropy shift the action values that an algorithm converges to.
    """
    greedy = Measure("", "greedy_value", False)
    series = [_series(label, run, greedy) for label, run in runs.items()]
    lost = tuple(replace(one, y=np.maximum(optimum - one.y, 0.0)) for one in series)
    least = max(abs(optimum), 1.0) * 1e-6
    title = "value lost by acting greedily (0: optimal)"
    return Panel(title, "iteration", "", lost, linear_below=least)


def _series(label: str, run: Solution, measure: Measure, dotted: bool = False) -> Series:
    """Return one measure of a run, NaN (a gap in the line) where it cannot be drawn."""
    iterations = np.array([record.iteration for record in run.history], dtype=float)
    measured = np.array([getattr(record, measure.field) for record in run.history], dtype=float)
    computed = ~np.isnan(measured)
    if measure.logarithmic:
        measured[measured < _SMALLEST] = np.nan
    measured[np.isinf(measured)] = np.nan
    x, y = iterations[computed], measured[computed]
    unknown = np.full_like(y, np.nan)
    return Series(label, x, y, unknown, unknown, dotted=dotted)


@in_style
def policy_figure(mdp: MDP, runs: Mapping[str, Solution], title: str) -> Figure:
    """Draw the policies on the map: the longer an arrow, the more probable its action."""
    if mdp.grid is None:
        raise ValueError(f"{mdp.name} has no map to draw on")
    rows, columns = mdp.grid.shape
    across = min(math.ceil(math.sqrt(len(runs))), max(1, 36 // columns))
    down = math.ceil(len(runs) / across)
    tile = min(0.75, 11 / (columns * across))
    size = (max(columns * tile * across + 1.6, 5), rows * tile * down + 0.6 * down + 0.7)
    figure, axes = panel_grid(len(runs), size[0] / across, size[1] / down, across)
    scale = _value_scale(mdp, list(runs.values()))
    for axis, (label, run) in zip(axes, runs.items(), strict=True):
        _draw_map(axis, mdp.grid, mdp, run, scale)
        axis.set_title(literal(f"{label}: {run.status.value}"))
    figure.colorbar(scale, ax=axes, label="value of the state", shrink=0.8)
    figure.suptitle(literal(title))
    return figure


def _value_scale(mdp: MDP, runs: Sequence[Solution]) -> ScalarMappable:
    values = np.concatenate([run.values[mdp.acting] for run in runs])
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    pale = ListedColormap(colormaps["YlGn"](np.linspace(0.02, 0.62, 256)))  # arrows stay visible
    return ScalarMappable(Normalize(low, high if high > low else low + 1), cmap=pale)


def _draw_map(axis: Axes, grid: Grid, mdp: MDP, run: Solution, scale: ScalarMappable) -> None:
    rows, columns = grid.shape
    letter_size = 8 if columns <= 12 else 5
    for state, letter in enumerate(grid.letters):
        row, column = divmod(state, columns)
        colour = _TILES.get(letter) or _tile_colour(mdp, run, state, scale)
        axis.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fc=colour, ec="white", lw=1.5))
        if letter in "SGHC":
            place = (column - 0.44, row - 0.42)
            axis.text(*place, letter, fontsize=letter_size, color="#555555", ha="left", va="top")
    _draw_arrows(axis, grid, mdp, run)
    axis.set(xlim=(-0.5, columns - 0.5), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
    axis.set_aspect("equal")
    axis.grid(False)
    axis.spines[:].set_visible(False)


def _tile_colour(mdp: MDP, run: Solution, state: int, scale: ScalarMappable) -> object:
    if mdp.terminal[state] or not math.isfinite(run.values[state]):
        return "#f2d98d" if mdp.terminal[state] else "#eeeeee"
    return scale.to_rgba(np.array([run.values[state]]))[0]


def _draw_arrows(axis: Axes, grid: Grid, mdp: MDP, run: Solution) -> None:
    letters, columns = grid.letters, grid.shape[1]
    acting = [state for state in mdp.acting if letters[state] not in "#HC"]
    for action, (down, right) in enumerate(grid.moves):
        chosen = [state for state in acting if run.policy[state, action] > 0.01]
        row, column = np.divmod(np.array(chosen, dtype=int), columns)
        length = 0.42 * np.sqrt(run.policy[chosen, action])  # so that small ones are visible
        axis.quiver(
            column, row, right * length, down * length, angles="xy", scale_units="xy", scale=1,
            width=0.055, units="xy", headwidth=3.2, headlength=3.5, headaxislength=3.2,
            color="#202020", minlength=0,
        )  # fmt: skip
