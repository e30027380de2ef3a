"""Figure 6: left, the action gap against a naive q-logarithm; right, several q on Acrobot-v1.

A run that diverges keeps its last value; how many did stands among the settings.
"""

import numpy as np

from mviq.drawing.panels import Panel, Series
from mviq.paper.learning import (
    Learning,
    above,
    change,
    confidence,
    curve_panel,
    difference,
    in_words,
    learning,
    reproduction,
    within,
)
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, mean

FLAT = 25.0
"""A CartPole agent whose return changes by less than this, of 500, has not learnt."""
LEARNT = 50.0
"""An Acrobot agent that gains less than this return, of 400, has not learnt."""
END = "end of learning: the last tenth of the evaluations"
SETTINGS = ("mean over seeds of the greedy raw return, ribbon the 95 % interval",)


def left(data: StudyData) -> Reproduction:
    """Draw the two learning curves and test that the naive one is flat, and below the other."""
    found = learning(data)
    findings = [_is_flat(found, "naive"), _is_higher(found, "MVI(2)", "naive")]
    settings = (*SETTINGS, f"flat: a change below {FLAT:g}", *found.notes)
    return reproduction("fig6-left", [_curves(found)], settings, findings)


def right(data: StudyData) -> Reproduction:
    """Draw the learning curves and the last returns of every q, with their intervals."""
    found = learning(data)
    findings = [_learns(found, label, LEARNT) for label in found.curves]
    settings = (*SETTINGS, f"learns: a gain above {LEARNT:g}", *found.notes)
    return reproduction("fig6-right", [_curves(found), _ends(found)], settings, findings)


def _curves(found: Learning) -> Panel:
    (env,) = found.envs
    return curve_panel(found, env, found.curves, confidence)


def _ends(found: Learning) -> Panel:
    series = []
    for label in found.curves:
        end = interval(mean, found.last(label))
        estimate, low, high = (np.array([x]) for x in (end.estimate, end.low, end.high))
        series.append(Series(label, ("",), estimate, low, high))
    return Panel(END, "return", "", tuple(series), "intervals")


def _gain(found: Learning, label: str) -> Interval:
    return change(found.last(label), found.first(label))


def _is_flat(found: Learning, label: str) -> Finding:
    gain = _gain(found, label)
    measured = f"its return changes by {in_words(gain)}"
    return Finding("the naive curve is flat", label, measured, within(gain, FLAT))


def _is_higher(found: Learning, label: str, other: str) -> Finding:
    lead = difference(found.last(label), found.last(other))
    measured = f"it ends higher than {other} by {in_words(lead)}"
    return Finding("the action gap does better", label, measured, above(lead))


def _learns(found: Learning, label: str, least: float) -> Finding:
    gain = _gain(found, label)
    return Finding("learns", label, f"its return changes by {in_words(gain)}", above(gain, least))
