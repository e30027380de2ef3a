"""Figure 6: left, the action gap against a naive q-logarithm; right, several q on Acrobot-v1.

A run that diverges keeps its last value; the settings list how many did.
"""

from functools import partial

import numpy as np

from mviq.drawing.panels import Panel, Series
from mviq.paper.evidence import all_hold, difference, finding_above, in_words, within
from mviq.paper.learning import Learning, confidence, curve_panel, learning, reproduction
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, mean

FLAT = 25.0
"""A CartPole agent whose return (at most 500) changes by less than this has not learnt."""
LEARNT = 50.0
"""An Acrobot agent whose return (a range of about 400) gains less than this has not learnt."""
END = "end of learning: the last tenth of the evaluations"
SETTINGS = (
    "mean over seeds of the greedy raw return, ribbon the 95 % interval",
    "a change is that from the first evaluation to the last tenth of them",
)


def left(data: StudyData) -> Reproduction:
    """Draw the two learning curves and test that the naive one is flat, and below the other."""
    results = learning(data)
    gain = _gain(results, "naive")
    # A curve that rises and falls again ends where it began, but is not flat.
    between = interval(mean, results.area("naive") - results.first("naive"))
    lead = difference(results.last("MVI(2)"), results.last("naive"))
    flat = f"its return changes by {in_words(gain)}, on average over time by {in_words(between)}"
    answer = all_hold(within(change, FLAT) for change in (gain, between))
    findings = [
        Finding("the naive curve is flat", "naive", flat, answer),
        finding_above(
            "the action gap does better", "MVI(2)", "it ends higher than naive by {}", lead
        ),
    ]
    settings = (*SETTINGS, f"flat: a change below {FLAT:g}", *results.notes)
    return reproduction("fig6-left", [_curves(data, results)], settings, findings)


def right(data: StudyData) -> Reproduction:
    """Draw the learning curves and the final returns of every q, with their intervals."""
    results = learning(data)
    findings = [
        finding_above("learns", label, "its return changes by {}", _gain(results, label), LEARNT)
        for label in results.curves
    ]
    settings = (*SETTINGS, f"learns: a gain above {LEARNT:g}", *results.notes)
    panels = [_curves(data, results), _ends(data, results)]
    return reproduction("fig6-right", panels, settings, findings)


def _curves(data: StudyData, results: Learning) -> Panel:
    (env,) = results.envs
    spread = partial(confidence, bounds=data.returns_of(env))
    return curve_panel(results, env, results.curves, spread)


def _ends(data: StudyData, results: Learning) -> Panel:
    (env,), series = results.envs, []
    for label in results.curves:
        end = interval(mean, results.last(label), bounds=data.returns_of(env))
        estimate, low, high = (np.array([x]) for x in (end.estimate, end.low, end.high))
        series.append(Series(label, ("",), estimate, low, high))
    return Panel(END, "return", "", tuple(series), "intervals")


def _gain(results: Learning, label: str) -> Interval:
    return interval(mean, results.last(label) - results.first(label))
