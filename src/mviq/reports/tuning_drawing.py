"""Figures of a search: the score over each parameter and over two, and their importances."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from mviq.drawing.figures import heat_map, panel_grid
from mviq.drawing.style import BLUE, GREY, ORANGE, in_style
from mviq.studies.plan import format_value
from mviq.studies.tuning.results import GIVEN_UP, SearchOutcome, TrialResult
from mviq.studies.tuning.space import Choices, Parameter

RING = 500  # area in square points, large enough for a number inside
EDGE = 0.03  # margin beside the search range, relative to it


@in_style
def slices(outcome: SearchOutcome, unit: str) -> Figure:
    """Draw the score over each parameter; crosses at the bottom are pruned or diverged trials."""
    space, given_up = outcome.search.space, _given_up(outcome)
    figure, axes = panel_grid(len(space), width=3.4, height=2.8)
    for one, (name, parameter) in zip(axes, space.items(), strict=True):
        _slice(one, name, parameter, outcome)
        one.set_ylabel(unit)
    below = f"; crosses: {len(given_up)} pruned or diverged" if given_up else ""
    figure.suptitle(f"{len(outcome.ranked)} trials, the best in orange{below}")
    return figure


def _given_up(outcome: SearchOutcome) -> list[TrialResult]:
    return [trial for trial in outcome.trials if trial.state in GIVEN_UP]


def _slice(axes: Axes, name: str, parameter: Parameter, outcome: SearchOutcome) -> None:
    best, *others = outcome.ranked
    _prepare(axes, "x", parameter)
    for trials, colour, size in ((others, BLUE, 4), ([best], ORANGE, 7)):
        places = _places(name, parameter, trials)
        axes.plot(places, _scores(trials), "o", color=colour, alpha=0.8, markersize=size)
    rest = _given_up(outcome)
    below = [axes.get_ylim()[0]] * len(rest)
    axes.plot(_places(name, parameter, rest), below, "x", color=GREY, markersize=4)
    axes.set_xlabel(name)


def _places(name: str, parameter: Parameter, trials: Sequence[TrialResult]) -> list[float]:
    """Return the positions of the trials' values on an axis; a choice is at its index."""
    values = [trial.chosen[name] for trial in trials]
    if isinstance(parameter, Choices):
        return [parameter.values.index(value) for value in values]
    return values


def _prepare(axes: Axes, which: Literal["x", "y"], parameter: Parameter) -> None:
    """Set the scale, limits and ticks of an axis to show the whole search range."""
    if isinstance(parameter, Choices):
        count = len(parameter.values)
        labels = [format_value(value) for value in parameter.values]
        axes.set(**{f"{which}ticks": range(count), f"{which}ticklabels": labels})
        axes.set(**{f"{which}lim": (-0.5, count - 0.5)})
        return
    low, high = parameter.low, parameter.high
    if parameter.log:
        axes.set(**{f"{which}scale": "log"})
        axis = axes.xaxis if which == "x" else axes.yaxis
        axis.set_minor_formatter(NullFormatter())
        ratio = (high / low) ** EDGE
        axes.set(**{f"{which}lim": (low / ratio, high * ratio)})
    else:
        wide = EDGE * (high - low)
        axes.set(**{f"{which}lim": (low - wide, high + wide)})


def _scores(trials: Sequence[TrialResult]) -> list[float]:
    return [trial.score for trial in trials if trial.score is not None]


@in_style
def surface(outcome: SearchOutcome, unit: str) -> Figure | None:
    """Draw the score over two parameters: a heat map if both are choices, else a scatter plot."""
    if len(outcome.search.space) != 2:
        return None
    (x_name, x), (y_name, y) = outcome.search.space.items()
    figure, (axes,) = panel_grid(1, width=4.8, height=3.6)
    axes.set(xlabel=x_name, ylabel=y_name)
    if isinstance(x, Choices) and isinstance(y, Choices):
        drawn = _heat_map(axes, outcome, (x_name, x), (y_name, y))
    else:
        drawn = _points(axes, outcome, (x_name, x), (y_name, y))
    best = _places(x_name, x, outcome.ranked[:1]), _places(y_name, y, outcome.ranked[:1])
    ring = axes.scatter(*best, s=RING, facecolors="none", edgecolors=ORANGE, linewidths=2)
    ring.set_clip_on(False)  # draw it whole at the edge
    axes.set_title("the best in orange")
    figure.colorbar(drawn, ax=axes, label=unit)
    return figure


def _heat_map(
    axes: Axes, outcome: SearchOutcome, x: tuple[str, Choices], y: tuple[str, Choices]
) -> Any:
    values = np.full((len(y[1].values), len(x[1].values)), np.nan)
    for trial in outcome.ranked:
        row, column = y[1].values.index(trial.chosen[y[0]]), x[1].values.index(trial.chosen[x[0]])
        values[row, column] = trial.score
    return heat_map(
        axes, values, *([format_value(value) for value in p.values] for p in (x[1], y[1]))
    )


def _points(
    axes: Axes, outcome: SearchOutcome, x: tuple[str, Parameter], y: tuple[str, Parameter]
) -> Any:
    ranked, rest = outcome.ranked, _given_up(outcome)
    _prepare(axes, "x", x[1])
    _prepare(axes, "y", y[1])
    axes.plot(_places(*x, rest), _places(*y, rest), "x", color=GREY, markersize=4)
    places = _places(*x, ranked), _places(*y, ranked)
    return axes.scatter(*places, c=_scores(ranked), cmap="viridis", s=36)


@in_style
def importance_figure(outcome: SearchOutcome) -> Figure | None:
    """Draw the importance of each parameter, if it is known."""
    shares = sorted(outcome.importances.items(), key=lambda pair: pair[1])
    if not shares:
        return None
    figure, (axes,) = panel_grid(1, width=4.8, height=0.35 * len(shares) + 0.9)
    axes.barh([name for name, _ in shares], [share for _, share in shares], color=BLUE)
    axes.set_xlabel("share of importance (PED-ANOVA)")
    return figure
