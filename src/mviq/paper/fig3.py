"""Figure 3: MVI(q) on CartPole-v1; the action gap minus ln_q π, and the residual R_q.

The paper's claims: the difference settles, and the residual grows with q. A difference has settled
if it moves by less than ``TOLERANCE`` from the third to the last quarter of learning.
"""

from itertools import pairwise

import matplotlib

from mviq.paper.drawing import Drawing, Finding
from mviq.paper.learning import (
    Learning,
    Line,
    above,
    change,
    confidence,
    data_of,
    learning,
    more_often,
    spoken,
    within,
)
from mviq.paper.panels import draw_lines, grid_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics.checks import Array
from mviq.reports.style import STYLE, settle

GAP, RESIDUAL = "tsallis/gap_minus_log", "tsallis/residual"
TITLES = {GAP: r"$Q-\mathcal{M}_qQ-\ln_q\pi$", RESIDUAL: "$R_q$"}
TOLERANCE = 0.05
SETTINGS = (
    "mean over the replayed states of the last update before a row, seeds' mean and 95 % interval",
    "R_q between successive target networks, π_k floored at 1e-3: its size depends on the floor, "
    "so that only its order counts",
)


def make(data: StudyData) -> Drawing:
    """Draw both panels and test both claims."""
    found = {metric: learning(data, metric) for metric in TITLES}
    lines = [line for metric in TITLES for line in _lines(found[metric], TITLES[metric])]
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of(list(TITLES.values()), width=4.2, height=3.2)
        draw_lines(panels, lines, "")
        panels[TITLES[RESIDUAL]].set_yscale("symlog", linthresh=1e-3)
        settle(figure)
    findings = [*_settles(found[GAP]), *_grows(found[RESIDUAL])]
    notes = dict.fromkeys(note for one in found.values() for note in one.notes)
    return Drawing("fig3", figure, data_of(lines), (*SETTINGS, *notes), findings)


def _lines(found: Learning, title: str) -> list[Line]:
    (env,) = found.envs
    return [
        (title, label, found.steps(label), confidence(found.of(label, env)))
        for label in found.curves
    ]


def _settles(found: Learning) -> list[Finding]:
    findings = []
    for label in found.curves:
        third, last = _quarter(found, label, 2), _quarter(found, label, 3)
        moved = change(last, third)
        measured = f"at the end {last.mean():.2f}, moves by {spoken(moved)} in the last quarter"
        findings.append(
            Finding("the difference settles", label, measured, within(moved, TOLERANCE))
        )
    return findings


def _quarter(found: Learning, label: str, number: int) -> Array:
    """Return each seed's mean over a quarter of its curve, as scores of one task."""
    curves = found.of(label, found.envs[0])
    size = max(1, curves.shape[1] // 4)
    begin = min(number * size, curves.shape[1] - size)
    mean: Array = curves[:, begin : begin + size].mean(axis=1, keepdims=True)
    return mean


def _grows(found: Learning) -> list[Finding]:
    findings = []
    for small, large in pairwise(found.curves):
        larger = more_often(found.area(large), found.area(small))
        measured = f"a run has the larger residual with probability {spoken(larger)}"
        where = f"{small} to {large}"
        findings.append(Finding("R_q grows with q", where, measured, above(larger, 0.5)))
    return findings
