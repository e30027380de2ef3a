"""Figure 5: percent improvement of MVI(2) over M-VI and over Tsallis-VI, game by game.

The paper's formula divides by the baseline's score, which says nothing where that is near zero;
the table has the safe version beside it, where reference scores exist.
"""

from collections.abc import Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from mviq.paper.drawing import Data, Drawing, Finding
from mviq.paper.experiments import M_VI, TSALLIS_VI
from mviq.paper.fig4 import OURS
from mviq.paper.learning import Learning, above, learning, spoken
from mviq.paper.panels import grid_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics import (
    ATARI,
    atari_game,
    interval,
    percent_improvement,
    referenced_improvement,
)
from mviq.reports.statistics.checks import Array
from mviq.reports.style import BLUE, ORANGE, STYLE, settle

BASELINES = (M_VI, TSALLIS_VI)
EQUAL = 20.0
"""Percent within which two algorithms count as equal."""
SETTINGS = (
    "100 (MVI(2) − baseline) / |baseline|, means over seeds of the last tenth of the evaluations",
    f"better and worse: by more than {EQUAL:g} %; a game whose baseline scores 0 is left out",
)


def make(data: StudyData) -> Drawing:
    """Draw the bars, sorted, and count them."""
    found = learning(data)
    bars = {one: percent_improvement(found.last(OURS), found.last(one)) for one in BASELINES}
    with matplotlib.rc_context(STYLE):
        height = max(2.2, 0.2 * len(found.envs) + 0.8)
        figure, panels = grid_of([f"over {one}" for one in BASELINES], width=4.6, height=height)
        for values, axes in zip(bars.values(), panels.values(), strict=True):
            _draw(axes, found.envs, values)
        settle(figure)
    findings = [_better_than_worse(found), _doubles(found)]
    rows = [row for one in BASELINES for row in _rows(found, one, bars[one])]
    columns = ("baseline", "game", "percent improvement", "percent of the reference range")
    return Drawing("fig5", figure, Data(columns, rows), (*SETTINGS, *found.notes), findings)


def _rows(found: Learning, baseline: str, values: Array) -> list[tuple[str, str, float, float]]:
    safe = _referenced(found, baseline)
    return [
        (baseline, found.envs[i], float(values[i]), float(safe[i])) for i in np.argsort(-values)
    ]


def _referenced(found: Learning, baseline: str) -> Array:
    """Return the improvement in percent of the range from random to human play, or NaN."""
    if not all(env.startswith("ALE/") for env in found.envs):
        return np.full(len(found.envs), np.nan)
    references = [ATARI[atari_game(env)] for env in found.envs]
    low, high = zip(*references, strict=True)
    return referenced_improvement(found.last(OURS), found.last(baseline), low, high)


def _draw(axes: Axes, envs: Sequence[str], values: Array) -> None:
    order = np.argsort(values)  # the best at the top
    shown = np.nan_to_num(values[order])
    axes.barh(range(len(order)), shown, color=np.where(shown < 0, ORANGE, BLUE).tolist())
    axes.set_yticks(range(len(order)), [envs[i].removeprefix("ALE/") for i in order])
    axes.set_xscale("symlog", linthresh=100)
    axes.axvline(0, color="0.3", linewidth=0.8)
    axes.set_xlabel("percent improvement")


def _counts(values: Array) -> str:
    known = values[~np.isnan(values)]
    better, worse = int((known > EQUAL).sum()), int((known < -EQUAL).sum())
    text = f"{better} better, {known.size - better - worse} equal, {worse} worse"
    lost = values.size - known.size
    return text + (f", {lost} without a number" if lost else "")


def _better_than_worse(found: Learning) -> Finding:
    values = percent_improvement(found.last(OURS), found.last(M_VI))

    def balance(new: Array, old: Array) -> Array:
        percent = percent_improvement(new, old)
        return np.asarray((percent > EQUAL).mean(axis=-1) - (percent < -EQUAL).mean(axis=-1))

    surplus = interval(balance, found.last(OURS), found.last(M_VI), bounds=(-1.0, 1.0))
    measured = f"{_counts(values)}; share of better minus share of worse games {spoken(surplus)}"
    where = f"over {M_VI}, {len(found.envs)} games"
    return Finding("better in more games than worse", where, measured, above(surplus))


def _doubles(found: Learning) -> Finding:
    def share(new: Array, old: Array) -> Array:
        return np.asarray((percent_improvement(new, old) > 100).mean(axis=-1))

    doubled = interval(share, found.last(OURS), found.last(TSALLIS_VI), bounds=(0.0, 1.0))
    measured = f"share of games improved by more than 100 %: {spoken(doubled)}"
    where = f"over {TSALLIS_VI}, {len(found.envs)} games"
    return Finding("more than doubles over half of the games", where, measured, above(doubled, 0.5))
