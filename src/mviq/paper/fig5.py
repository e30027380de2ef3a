"""Figure 5: percent improvement of MVI(2) over M-VI and over Tsallis-VI, game by game.

The paper's formula divides by the baseline's score, which says nothing where that is near zero;
the table has the safe version beside it, where reference scores exist. A game without a number is
neither drawn nor counted, but named.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, SymmetricalLogLocator

from mviq.drawing.figures import panel_grid
from mviq.drawing.style import BLUE, ORANGE, STYLE, in_style
from mviq.paper.experiments import M_VI, TSALLIS_VI
from mviq.paper.fig4 import OURS
from mviq.paper.learning import Learning, above, in_words, learning, unitless
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import (
    Interval,
    atari_reference,
    interval,
    percent_improvement,
    referenced_improvement,
)
from mviq.reports.statistics.checks import Array

BASELINES = (M_VI, TSALLIS_VI)
LARGE, DOUBLE, EQUAL = 150.0, 50.0, 20.0
"""Percent above which an improvement is large, about a doubling, or one at all."""
LINEAR = 100.0
"""Percent up to which the axis is linear; it is logarithmic beyond."""
TICKS = (-1e4, -1e3, -100, -50, 0, 50, 100, 1e3, 1e4, 1e5, 1e6)
SETTINGS = (
    "100 (MVI(2) − baseline) / |baseline|, means over seeds of the last tenth of the evaluations, "
    "95 % intervals",
    f"large: above {LARGE:g} %; about double: {DOUBLE:g} to {LARGE:g} %; equal: within {EQUAL:g} "
    "%; better and worse: more than that",
)


@dataclass(frozen=True)
class Improvement:
    """The improvement over a baseline in the games where it is a number."""

    baseline: str
    games: tuple[str, ...]
    ours: Array
    theirs: Array
    percent: Interval
    notes: tuple[str, ...]

    @property
    def where(self) -> str:
        """Return what was compared."""
        return f"{len(self.games)} games against {self.baseline}"


def make(data: StudyData) -> Reproduction:
    """Draw the bars, sorted, and count them."""
    found = learning(data)
    over = [_improvement(found, baseline) for baseline in BASELINES]
    columns = ("baseline", "game", "percent improvement", "low", "high", "of the reference range")
    rows = [row for one in over for row in _rows(one)]
    settings = (*SETTINGS, *(note for one in over for note in one.notes), *found.notes)
    findings = [_better_than_worse(over[0]), _doubles(over[1])]
    return Reproduction("fig5", draw(over), Data(columns, rows), settings, findings)


@in_style
def draw(over: Sequence[Improvement]) -> Figure:
    """Draw a panel for each baseline, the best game at the top."""
    height = max(2.2, 0.2 * max(len(one.games) for one in over) + 1.2)
    figure, panels = panel_grid(len(over), width=4.6, height=height)
    for one, axes in zip(over, panels, strict=True):
        axes.set_title(f"over {one.baseline}")
        _draw_bars(axes, one)
    percent = f"percent improvement, logarithmic beyond ±{LINEAR:g}"
    figure.supxlabel(percent, fontsize=STYLE["axes.labelsize"])
    return figure


def short(name: str) -> str:
    """Return a name without what all Atari games share; another kind of game stays recognisable.

    >>> short("ALE/Pong-v5"), short("MinAtar/Asterix-v1")
    ('Pong', 'MinAtar/Asterix-v1')
    """
    return name.removeprefix("ALE/").removesuffix("-v5")


def _improvement(found: Learning, baseline: str) -> Improvement:
    ours, theirs = found.last(OURS), found.last(baseline)
    every = interval(percent_improvement, ours, theirs, per_task=True)
    known = ~np.isnan(every.estimate)
    percent = Interval(every.estimate[known], every.low[known], every.high[known])
    ours, theirs = ours[:, known], theirs[:, known]
    games = tuple(env for env, is_known in zip(found.envs, known, strict=True) if is_known)
    left_out = [env for env in found.envs if env not in games]
    # Some resample of several seeds has a baseline of zero, so that the formula has no value.
    enough = np.minimum(*((~np.isnan(own)).sum(axis=0) for own in (ours, theirs))) > 1
    unsure = [games[i] for i in np.flatnonzero(np.isnan(percent.low) & enough)]
    notes = (
        *_named(f"left out over {baseline}, no score or a baseline of zero", left_out),
        *_named(f"no interval over {baseline}, the baseline can be zero", unsure),
    )
    return Improvement(baseline, games, ours, theirs, percent, notes)


def _named(what: str, games: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(map(short, games))}"] if games else []


def _rows(over: Improvement) -> list[tuple[str, str, float, float, float, float]]:
    numbers = over.percent.estimate, over.percent.low, over.percent.high, _referenced(over)
    return [
        (over.baseline, over.games[i], *(float(column[i]) for column in numbers))
        for i in np.argsort(-over.percent.estimate)
    ]


def _referenced(over: Improvement) -> Array:
    """Return the improvement in percent of the range from random to human play, or NaN."""
    references = [one for env in over.games if (one := atari_reference(env)) is not None]
    if not references or len(references) < len(over.games):
        return np.full(len(over.games), np.nan)
    low, high = zip(*references, strict=True)
    return referenced_improvement(over.ours, over.theirs, low, high)


def _draw_bars(axes: Axes, over: Improvement) -> None:
    order = np.argsort(over.percent.estimate)
    shown, places = over.percent.estimate[order], range(len(order))
    axes.set_axisbelow(True)
    axes.barh(places, shown, color=np.where(shown < 0, ORANGE, BLUE).tolist(), alpha=0.75)
    axes.hlines(places, over.percent.low[order], over.percent.high[order], color="0.1", lw=1)
    axes.set_yticks(places, [short(over.games[i]) for i in order])
    axes.grid(False, axis="y")
    axes.set_ylim(-0.7, len(order) - 0.3)
    axes.axvline(0, color="0.3", linewidth=0.8)
    low, high = shown.min(initial=-LINEAR), shown.max(initial=LINEAR)
    _prepare_axis(axes, 2 * low, 2 * high)  # longer intervals are cut by the frame


def _prepare_axis(axes: Axes, low: float, high: float) -> None:
    """Make the axis of percents linear in the middle and logarithmic beyond."""
    axes.set_xscale("symlog", linthresh=LINEAR, linscale=1.2)
    axes.set_xlim(low, high)
    axes.set_xticks([tick for tick in TICKS if low <= tick <= high])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}".replace("-", "−")))
    between = SymmetricalLogLocator(base=10, linthresh=LINEAR, subs=range(2, 10))
    axes.xaxis.set_minor_locator(between)


def _counts(percent: Array) -> str:
    large, double, better = (int((percent > edge).sum()) for edge in (LARGE, DOUBLE, EQUAL))
    worse = int((percent < -EQUAL).sum())
    return (
        f"{large} large, {double - large} about double, {better - double} a little better, "
        f"{percent.size - better - worse} equal, {worse} worse"
    )


def _better_than_worse(over: Improvement) -> Finding:
    claim = "better in more games than worse"

    def balance(percent: Array) -> Array:
        return np.asarray((percent > EQUAL).mean(axis=-1) - (percent < -EQUAL).mean(axis=-1))

    return _share(over, claim, "share of better minus share of worse", balance, (-1.0, 1.0), 0.0)


def _doubles(over: Improvement) -> Finding:
    claim = "improved by over 100 % in more than half of the games"

    def share(percent: Array) -> Array:
        return np.asarray((percent > 100).mean(axis=-1))

    return _share(over, claim, "share above 100 %", share, (0.0, 1.0), 0.5)


def _share(
    over: Improvement,
    claim: str,
    what: str,
    of_percent: Callable[[Array], Array],
    bounds: tuple[float, float],
    level: float,
) -> Finding:
    """Test that a share of the games lies above a level."""
    if not over.games:
        return Finding(claim, over.where, "no game has a number", None)

    def estimator(new: Array, old: Array) -> Array:
        # The floor: where seeds drawn again have a baseline of zero, the sign still counts.
        return of_percent(percent_improvement(new, old, floor=1e-9))

    found = interval(estimator, *unitless(over.ours, over.theirs), bounds=bounds)
    measured = f"{_counts(over.percent.estimate)}; {what} {in_words(found)}"
    return Finding(claim, over.where, measured, above(found, level))
