"""Figure 6: left, the action gap against a naive q-logarithm; right, several q on Acrobot-v1."""

import matplotlib
from matplotlib.axes import Axes

from mviq.paper.drawing import Data, Drawing, Finding
from mviq.paper.learning import (
    Learning,
    Line,
    above,
    change,
    confidence,
    data_of,
    learning,
    spoken,
)
from mviq.paper.panels import draw_lines, grid_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, mean
from mviq.reports.style import STYLE, looks, settle

FLAT = 25.0
"""A CartPole agent that gains less than this return, of 500, has not learnt."""
SETTINGS = ("mean over seeds of the greedy raw return, ribbon the 95 % interval",)


def left(data: StudyData) -> Drawing:
    """Draw the two learning curves and test that one rises and the other does not."""
    found = learning(data)
    lines = _lines(found)
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of(found.envs, width=5, height=3.2)
        draw_lines(panels, lines, "return")
        settle(figure)
    findings = [_is_flat(found, "naive"), _learns(found, "MVI(2)", FLAT)]
    settings = (*SETTINGS, f"flat: a gain below {FLAT:g}", *found.notes)
    return Drawing("fig6-left", figure, data_of(lines), settings, findings)


def right(data: StudyData) -> Drawing:
    """Draw the learning curves and the last returns of every q, with their intervals."""
    found = learning(data)
    (env,) = found.envs
    lines = _lines(found)
    ends = {label: interval(mean, found.last(label)) for label in found.curves}
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of([env, "last tenth"], width=4.2, height=3.2)
        draw_lines({env: panels[env]}, lines, "return")
        _draw_bars(panels["last tenth"], ends)
        settle(figure)
    curves = data_of(lines)
    bars = [
        ("last tenth", label, None, float(x.estimate), float(x.low), float(x.high))
        for label, x in ends.items()
    ]
    findings = [_learns(found, label, 0.0) for label in found.curves]
    return Drawing(
        "fig6-right", figure, Data(curves.columns, [*curves.rows, *bars]),
        (*SETTINGS, *found.notes), findings,
    )  # fmt: skip


def _lines(found: Learning) -> list[Line]:
    (env,) = found.envs
    return [
        (env, label, found.steps(label), confidence(found.of(label, env))) for label in found.curves
    ]


def _draw_bars(axes: Axes, ends: dict[str, Interval]) -> None:
    seen = looks(list(ends))
    for i, (label, found) in enumerate(ends.items()):
        axes.plot(i, found.estimate, "o", color=seen[label].colour)
        axes.vlines(i, found.low, found.high, color="black", linewidth=1.2)
    axes.set_xticks(range(len(ends)), list(ends))
    axes.margins(x=0.1)


def _gain(found: Learning, label: str) -> Interval:
    return change(found.last(label), found.first(label))


def _is_flat(found: Learning, label: str) -> Finding:
    gain = _gain(found, label)
    rises = above(gain, FLAT)
    measured = f"its return changes by {spoken(gain)}"
    return Finding("the naive curve is flat", label, measured, None if rises is None else not rises)


def _learns(found: Learning, label: str, least: float) -> Finding:
    gain = _gain(found, label)
    return Finding("learns", label, f"its return changes by {spoken(gain)}", above(gain, least))
