"""Pictures: how a run converged, how runs compare, and the policy drawn on the map."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from mviq.tabular.grid import Grid
from mviq.tabular.mdp import MDP
from mviq.tabular.solver import Solution

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000")
_SMALLEST = 1e-16  # on a logarithmic axis: what is below is rounding
_TILES = {"#": "#6b6b6b", "H": "#9fb6c9", "C": "#c9a79f"}


class Panel(NamedTuple):
    """One measure of the history: its title, field, and whether its axis is logarithmic."""

    title: str
    field: str
    logarithmic: bool


PANELS = (
    Panel(r"Bellman residual $\|TQ-Q\|_\infty$", "bellman_residual", True),
    Panel(r"distance to the optimum $\|Q-Q^*\|_\infty$", "distance_to_optimum", True),
    Panel("value from the start", "policy_value", False),
    Panel("action gap", "action_gap", False),
    Panel(r"entropy $S_q(\pi)$", "entropy", False),
    Panel("support size", "support_size", False),
    Panel(r"divergence $D_q(\pi_{k+1}\|\pi_k)$", "divergence", True),
    Panel(r"residual $R_q(\pi_{k+1},\pi_k)$", "munchausen_residual", True),
)


def convergence_figure(
    runs: Mapping[str, Solution], title: str, optimum: float | None = None
) -> Figure:
    """Draw the history of one run, or of several in one picture, a panel per measure."""
    shown = [panel for panel in PANELS if any(_series(run, panel)[0].size for run in runs.values())]
    columns = min(4, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(3.4 * columns, 2.7 * rows + 0.9), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, shown, strict=False):
        _draw_panel(axis, panel, runs, optimum)
    for axis in axes[len(shown) :]:
        axis.set_axis_off()
    for axis in axes[max(len(shown) - columns, 0) : len(shown)]:
        axis.set_xlabel("iteration")
    figure.suptitle(title)
    handles, labels = axes[0].get_legend_handles_labels()
    columns = min(len(labels), 6)
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def _draw_panel(
    axis: Axes, panel: Panel, runs: Mapping[str, Solution], optimum: float | None
) -> None:
    for colour, (label, run) in zip(_cycle(len(runs)), runs.items(), strict=True):
        iterations, measured = _series(run, panel)
        axis.plot(
            iterations, measured, color=colour, label=f"{label}: {run.status.value}", lw=1.4,
            marker="o" if iterations.size == 1 else None, markersize=4,
        )  # fmt: skip
        if panel.field == "policy_value":
            again, greedy = _series(run, panel._replace(field="greedy_value"))
            axis.plot(again, greedy, color=colour, lw=1.2, ls=":")
    axis.set_title(panel.title, fontsize=10)
    axis.grid(alpha=0.25)
    if panel.field == "policy_value":
        axis.set_title("value from the start (dotted: greedy)", fontsize=10)
        if optimum is not None:
            axis.axhline(optimum, color="black", lw=0.8, ls="--")
            axis.annotate(
                "optimal", (1, optimum), xycoords=("axes fraction", "data"),
                ha="right", va="bottom", fontsize=8,
            )  # fmt: skip
    if panel.logarithmic and any(np.isfinite(line.get_ydata()).any() for line in axis.lines):
        axis.set_yscale("log")


def _series(run: Solution, panel: Panel) -> tuple[np.ndarray, np.ndarray]:
    """Return iterations and measurements; the line has a gap where one cannot be drawn."""
    iterations = np.array([record.iteration for record in run.history])
    measured = np.array([getattr(record, panel.field) for record in run.history], dtype=float)
    computed = ~np.isnan(measured)
    if panel.logarithmic:
        measured[measured < _SMALLEST] = np.nan
    measured[np.isinf(measured)] = np.nan
    return iterations[computed], measured[computed]


def _cycle(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]


def policy_figure(mdp: MDP, runs: Mapping[str, Solution], title: str) -> Figure:
    """Draw the policies on the map: an arrow is as long as its action is probable."""
    if mdp.grid is None:
        raise ValueError(f"{mdp.name} has no map to draw on")
    rows, columns = mdp.grid.shape
    across = min(math.ceil(math.sqrt(len(runs))), max(1, 36 // columns))
    down = math.ceil(len(runs) / across)
    tile = min(0.75, 11 / (columns * across))
    size = (max(columns * tile * across + 1.6, 5), rows * tile * down + 0.6 * down + 0.7)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    scale = _value_scale(mdp, list(runs.values()))
    for axis, (label, run) in zip(axes, runs.items(), strict=False):
        _draw_map(axis, mdp.grid, mdp, run, scale)
        axis.set_title(f"{label}: {run.status.value}", fontsize=10)
    for axis in axes[len(runs) :]:
        axis.set_axis_off()
    figure.colorbar(scale, ax=list(axes), label="value of the state", shrink=0.8)
    figure.suptitle(title)
    return figure


def _value_scale(mdp: MDP, runs: Sequence[Solution]) -> ScalarMappable:
    values = np.concatenate([run.values[mdp.acting] for run in runs])
    values = values[np.isfinite(values)]
    low, high = (values.min(), values.max()) if values.size else (0.0, 1.0)
    pale = ListedColormap(colormaps["YlGn"](np.linspace(0.02, 0.62, 256)))  # arrows show on it
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
        length = 0.42 * np.sqrt(run.policy[chosen, action])  # so that small ones can be seen
        axis.quiver(
            column, row, right * length, down * length, angles="xy", scale_units="xy", scale=1,
            width=0.055, units="xy", headwidth=3.2, headlength=3.5, headaxislength=3.2,
            color="#202020", minlength=0,
        )  # fmt: skip
