"""Figure 3: MVI(q) on CartPole-v1; the action gap minus ln_q π, and the residual R_q.

The paper's claims: the difference settles, around −0.5; the residual grows with q, jumps from 4 to
5 and is negligible at 2. The numerical criteria are ours and printed with the figure.
"""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.panels import Maths, Panel, value_range
from mviq.paper.evidence import above, difference, finding_above, in_words, within
from mviq.paper.learning import Learning, confidence, curve_panel, learning, reproduction
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import Interval, interval, mean

GAP, RESIDUAL = "tsallis/gap_minus_log", "tsallis/residual"
TITLES = {GAP: r"$Q-\mathcal{M}_qQ-\ln_q\pi$", RESIDUAL: "$R_q$"}
SETTLED, CONSTANT, NEAR = 0.05, -0.5, 0.1
NEGLIGIBLE = 0.1
SETTINGS = (
    "mean over the replayed states of the last update before a row, finished seeds' mean and 95 % "
    "interval: a run that diverged has no meaningful value",
    f"settled: it moves by less than {SETTLED:g} from the third to the last quarter of learning; "
    f"around {CONSTANT:g}: within {NEAR:g} of it in the last quarter",
    "R_q between successive target networks, π_k floored at 1e-3, averaged over time: its size "
    "depends on the floor, so that only its order counts",
    "a jump: more from q = 4 to 5 than from 3 to 4; negligible: less than a tenth of that of q = 5",
)


def make(data: StudyData) -> Reproduction:
    """Draw both panels and test both claims."""
    results = {metric: learning(data, metric, "finished") for metric in TITLES}
    residual = results[RESIDUAL]
    findings = [*_settles(results[GAP]), *_grows(residual), _jumps(residual), _negligible(residual)]
    notes = dict.fromkeys(note for one in results.values() for note in one.notes)
    panels = [_panel(results[metric]) for metric in TITLES]
    return reproduction("fig3", panels, (*SETTINGS, *notes), findings)


def _panel(results: Learning) -> Panel:
    (env,) = results.envs
    bounds = (0.0 if results.metric == RESIDUAL else -np.inf, np.inf)
    panel = curve_panel(results, env, results.curves, partial(confidence, bounds=bounds))
    panel = replace(panel, title=Maths(TITLES[results.metric]), y_title="")
    if results.metric != RESIDUAL:
        return panel
    return replace(panel, linear_below=1e-3, limits=(0.0, value_range(panel)[1]))


def _settles(results: Learning) -> list[Finding]:
    findings = []
    for label in results.curves:
        third, last = _quarter(results, label, 2), _quarter(results, label, 3)
        moved, end = interval(mean, last - third), interval(mean, last)
        away = Interval(*(x - CONSTANT for x in (end.estimate, end.low, end.high)))
        said = f"moves by {in_words(moved)}"
        findings.append(Finding("the difference settles", label, said, within(moved, SETTLED)))
        claim, said = f"the difference is around {CONSTANT:g}", f"at the end {in_words(end)}"
        findings.append(Finding(claim, label, said, within(away, NEAR)))
    return findings


def _quarter(results: Learning, label: str, number: int) -> Floats:
    """Return each seed's mean over a quarter of its steps, shape (seeds, 1)."""
    curves, steps = results.of(label, results.envs[0]), results.curves[label].steps
    last = steps[-1] * np.array([number, number + 1]) / 4
    inside = (steps > last[0]) & (steps <= last[1])
    mean: Floats = curves[:, inside].mean(axis=1, keepdims=True)
    return mean


def _grows(results: Learning) -> list[Finding]:
    findings = []
    for small, large in pairwise(results.curves):
        more = difference(results.area(large), results.area(small))
        findings.append(finding_above("R_q grows with q", f"{small} to {large}", "by {}", more))
    return findings


def _jumps(results: Learning) -> Finding:
    """Compare the last increase with the one before."""
    areas = [results.area(f"q={q}") for q in (3, 4, 5)]
    jump = interval(lambda x, y, z: (mean(z) - mean(y)) - (mean(y) - mean(x)), *areas)
    return finding_above("R_q jumps", "q=4 to q=5", "more than from 3 to 4 by {}", jump)


def _negligible(results: Learning) -> Finding:
    """Compare the residual at q = 2 with a tenth of that at q = 5, without dividing by it."""
    least, largest = results.area("q=2"), results.area("q=5")
    below = interval(lambda x, y: NEGLIGIBLE * mean(y) - mean(x), least, largest)
    measured = f"on average {in_words(interval(mean, least))}, at q = 5 {mean(largest):.3g}"
    return Finding("R_q is negligible", "q=2", measured, above(below))
