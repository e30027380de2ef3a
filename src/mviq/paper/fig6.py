"""Figure 6: left, the action gap against a naive q-logarithm; right, several q on Acrobot-v1.

A run that diverges keeps its last value; how many did stands among the settings.
"""

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
    difference,
    learning,
    spoken,
    within,
)
from mviq.paper.panels import draw_lines, grid_of, looks_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, mean
from mviq.reports.style import STYLE, settle

FLAT = 25.0
"""A CartPole agent whose return changes by less than this, of 500, has not learnt."""
LEARNT = 50.0
"""An Acrobot agent that gains less than this return, of 400, has not learnt."""
END = "end of learning: the last tenth of the evaluations"
SETTINGS = ("mean over seeds of the greedy raw return, ribbon the 95 % interval",)


def left(data: StudyData) -> Drawing:
    """Draw the two learning curves and test that the naive one is flat, and below the other."""
    found = learning(data)
    lines = _lines(found)
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of(found.envs, width=5, height=3.2)
        draw_lines(panels, lines, "return")
        settle(figure)
    findings = [_is_flat(found, "naive"), _is_higher(found, "MVI(2)", "naive")]
    settings = (*SETTINGS, f"flat: a change below {FLAT:g}", *found.notes)
    return Drawing("fig6-left", figure, data_of(lines), settings, findings)


def right(data: StudyData) -> Drawing:
    """Draw the learning curves and the last returns of every q, with their intervals."""
    found = learning(data)
    (env,) = found.envs
    lines = _lines(found)
    ends = {label: interval(mean, found.last(label)) for label in found.curves}
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of([env, END], width=4.2, height=3.2)
        draw_lines({env: panels[env]}, lines, "return")
        _draw_bars(panels[END], ends)
        settle(figure)
    curves = data_of(lines)
    bars = [
        (END, label, None, float(x.estimate), float(x.low), float(x.high))
        for label, x in ends.items()
    ]
    findings = [_learns(found, label, LEARNT) for label in found.curves]
    settings = (*SETTINGS, f"learns: a gain above {LEARNT:g}", *found.notes)
    table = Data(curves.columns, [*curves.rows, *bars])
    return Drawing("fig6-right", figure, table, settings, findings)


def _lines(found: Learning) -> list[Line]:
    (env,) = found.envs
    return [
        (env, label, found.steps(label), confidence(found.of(label, env))) for label in found.curves
    ]


def _draw_bars(axes: Axes, ends: dict[str, Interval]) -> None:
    seen = looks_of(list(ends))
    for i, (label, found) in enumerate(ends.items()):
        axes.vlines(i, found.low, found.high, color="black", linewidth=1.2)
        axes.plot(i, found.estimate, "o", color=seen[label]["color"], markersize=6)
    axes.set_xticks(range(len(ends)), list(ends))
    axes.set_ylabel("return")
    axes.margins(x=0.1)


def _gain(found: Learning, label: str) -> Interval:
    return change(found.last(label), found.first(label))


def _is_flat(found: Learning, label: str) -> Finding:
    gain = _gain(found, label)
    measured = f"its return changes by {spoken(gain)}"
    return Finding("the naive curve is flat", label, measured, within(gain, FLAT))


def _is_higher(found: Learning, label: str, other: str) -> Finding:
    lead = difference(found.last(label), found.last(other))
    measured = f"it ends higher than {other} by {spoken(lead)}"
    return Finding("the action gap does better", label, measured, above(lead))


def _learns(found: Learning, label: str, least: float) -> Finding:
    gain = _gain(found, label)
    return Finding("learns", label, f"its return changes by {spoken(gain)}", above(gain, least))
