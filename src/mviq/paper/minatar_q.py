"""The effect of q alone: MVI(q) on MinAtar at equal α and τ, and each q at its better τ."""

from dataclasses import replace
from functools import partial

import numpy as np

from mviq.drawing.panels import Panel
from mviq.paper.evidence import difference, finding_above
from mviq.paper.learning import Learning, confidence, curve_panel, learning, reproduction
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import mean

SETTINGS = ("mean over seeds of the greedy raw return, ribbon the 95 % interval",)


def make(data: StudyData) -> Reproduction:
    """Draw every game at every temperature, and test each q against q = 1."""
    results = learning(data)
    by_q: dict[str, list[str]] = {}
    by_temperature: dict[str, list[str]] = {}
    for label in results.curves:
        q, _, temperature = label.partition(", ")
        by_q.setdefault(q, []).append(label)
        by_temperature.setdefault(temperature, []).append(label)
    cases = [(env, t, labels) for env in results.envs for t, labels in by_temperature.items()]
    panels = [_panel(results, data.returns_of(case[0]), *case) for case in cases]
    findings = [
        _better(results, env, label, labels[0], "at the same τ")
        for env, _, labels in cases
        for label in labels[1:]
    ]
    if len(by_temperature) > 1:
        for env in results.envs:
            first, *others = (_best(results, env, labels) for labels in by_q.values())
            findings += [_better(results, env, x, first, "each at its better τ") for x in others]
    return reproduction("minatar-q", panels, (*SETTINGS, *results.notes), findings)


def _panel(
    results: Learning, bounds: tuple[float, float], env: str, temperature: str, labels: list[str]
) -> Panel:
    """Return the curves of one game at one temperature, labelled by q alone."""
    panel = curve_panel(results, env, labels, partial(confidence, bounds=bounds))
    series = [replace(one, label=one.label.partition(", ")[0]) for one in panel.series]
    return replace(panel, title=f"{env}, {temperature}", series=tuple(series))


def _best(results: Learning, env: str, labels: list[str]) -> str:
    """Return the label with the highest mean final score."""
    means = [np.nan_to_num(mean(results.last(label, env)), nan=-np.inf) for label in labels]
    return labels[int(np.argmax(means))]


def _better(results: Learning, env: str, label: str, baseline: str, where: str) -> Finding:
    lead = difference(results.last(label, env), results.last(baseline, env))
    claim = f"better than {baseline.partition(', ')[0]}, {where}"
    return finding_above(claim, f"{env}, {label}", "ends higher by {}", lead)
