"""Figure 5: percent improvement of MVI(2) over M-VI and over Tsallis-VI, game by game.

The paper's formula divides by the baseline's score, which is meaningless where that is near zero;
the table also has the improvement relative to reference scores, where they exist. A game without
a value is neither drawn nor counted, but listed in the settings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.figures import draw
from mviq.drawing.panels import FigureData, Panel, Series
from mviq.drawing.style import looks
from mviq.env_families import ATARI, family_of, reference_of
from mviq.paper.evidence import finding_above, unitless
from mviq.paper.experiments import M_VI, TSALLIS_VI
from mviq.paper.fig4 import OURS
from mviq.paper.learning import Learning, learning
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, percent_improvement, referenced_improvement

BASELINES = (M_VI, TSALLIS_VI)
LARGE, DOUBLE, EQUAL = 150.0, 50.0, 20.0
"""Percent above which an improvement is large, about double, or counted at all."""
LINEAR = 100.0
"""Percent up to which the axis is linear; it is logarithmic beyond."""
SETTINGS = (
    "100 (MVI(2) − baseline) / |baseline|, means over seeds of the last tenth of the evaluations, "
    "95 % intervals",
    f"large: above {LARGE:g} %; about double: {DOUBLE:g} to {LARGE:g} %; equal: within {EQUAL:g} "
    "%; better and worse: more than that",
)


@dataclass(frozen=True)
class GameImprovements:
    """The improvement over a baseline in the games where it is defined."""

    baseline: str
    games: tuple[str, ...]
    ours: Floats
    theirs: Floats
    percent: Interval
    notes: tuple[str, ...]


def make(data: StudyData) -> Reproduction:
    """Draw the bars, sorted, and count them."""
    results = learning(data)
    over = [_improvement(results, baseline) for baseline in BASELINES]
    columns = ("baseline", "game", "percent improvement", "low", "high", "of the reference range")
    rows = [row for one in over for row in _rows(one)]
    settings = (*SETTINGS, *(note for one in over for note in one.notes), *results.notes)
    findings = [
        _typical(over[0], "better in more than half of the games", 0.0),
        _typical(over[1], "improved by over 100 % in more than half of the games", 100.0),
    ]
    figure = draw(FigureData("fig5", "", "", tuple(map(_panel, over))), looks([OURS]))
    return Reproduction("fig5", figure, Data(columns, rows), settings, findings)


def _panel(over: GameImprovements) -> Panel:
    best_first = np.argsort(-over.percent.estimate)
    columns = (x[best_first] for x in (over.percent.estimate, over.percent.low, over.percent.high))
    series = Series(OURS, tuple(short(over.games[i]) for i in best_first), *columns)
    low = min(over.percent.estimate.min(initial=0), -LINEAR)
    high = max(over.percent.estimate.max(initial=0), LINEAR)
    return Panel(
        f"over {over.baseline}",
        "",
        f"percent improvement, logarithmic beyond ±{LINEAR:g}",
        (series,),
        "bars",
        reference=0.0,
        limits=(2 * low, 2 * high),  # longer intervals are clipped
        linear_below=LINEAR,
    )


def short(name: str) -> str:
    """Return the name of an Atari game without prefix and version, and any other name unchanged.

    >>> short("ALE/Pong-v5"), short("MinAtar/Asterix-v1")
    ('Pong', 'MinAtar/Asterix-v1')
    """
    return ATARI.game(name) if family_of(name) is ATARI else name


def _improvement(results: Learning, baseline: str) -> GameImprovements:
    ours, theirs = results.last(OURS), results.last(baseline)
    every = interval(percent_improvement, ours, theirs, per_task=True)
    known = ~np.isnan(every.estimate)
    percent = Interval(every.estimate[known], every.low[known], every.high[known])
    ours, theirs = ours[:, known], theirs[:, known]
    games = tuple(env for env, is_known in zip(results.envs, known, strict=True) if is_known)
    left_out = [env for env in results.envs if env not in games]
    # Several seeds but no interval: a bootstrap resample has a baseline of zero, and no value.
    enough = np.minimum(*((~np.isnan(own)).sum(axis=0) for own in (ours, theirs))) > 1
    unsure = [games[i] for i in np.flatnonzero(np.isnan(percent.low) & enough)]
    notes = (
        *_named(f"left out over {baseline}, no score or a baseline of zero", left_out),
        *_named(f"no interval over {baseline}, the baseline can be zero", unsure),
    )
    return GameImprovements(baseline, games, ours, theirs, percent, notes)


def _named(what: str, games: Sequence[str]) -> list[str]:
    return [f"{what}: {', '.join(map(short, games))}"] if games else []


def _rows(over: GameImprovements) -> list[tuple[str, str, float, float, float, float]]:
    numbers = over.percent.estimate, over.percent.low, over.percent.high, _referenced(over)
    return [
        (over.baseline, over.games[i], *(float(column[i]) for column in numbers))
        for i in np.argsort(-over.percent.estimate)
    ]


def _referenced(over: GameImprovements) -> Floats:
    """Return the improvement in percent of the range from random to human play, or NaN."""
    references = [one for env in over.games if (one := reference_of(env)) is not None]
    if not references or len(references) < len(over.games):
        return np.full(len(over.games), np.nan)
    low, high = zip(*references, strict=True)
    return referenced_improvement(over.ours, over.theirs, low, high)


def _counts(percent: Floats) -> str:
    large, double, better = (int((percent > edge).sum()) for edge in (LARGE, DOUBLE, EQUAL))
    worse = int((percent < -EQUAL).sum())
    return (
        f"{large} large, {double - large} about double, {better - double} a little better, "
        f"{percent.size - better - worse} equal, {worse} worse"
    )


def _typical(over: GameImprovements, claim: str, level: float) -> Finding:
    """Test that more than half of the games are improved by more than a level, in percent.

    The share of such games jumps at the level, where a bootstrap interval would cover it badly. The
    median over games does not. It is the lower median for an even number of games, because that is
    above the level if and only if more than half of the games are.
    """
    where = f"{len(over.games)} games against {over.baseline}"
    if not over.games:
        return Finding(claim, where, "no game has a number", None)

    def median(new: Floats, old: Floats) -> Floats:
        # The floor: where seeds drawn again have a baseline of zero, the sign still counts.
        percent = percent_improvement(new, old, floor=1e-9)
        return np.asarray(np.quantile(percent, 0.5, axis=-1, method="lower"))

    typical = interval(median, *unitless(over.ours, over.theirs))
    measured = f"{_counts(over.percent.estimate)}; median over games {{}} %"
    return finding_above(claim, where, measured, typical, level)
