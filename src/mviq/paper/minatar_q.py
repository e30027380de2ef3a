"""What q itself does: MVI(q) on MinAtar at the same α and τ for every q."""

from dataclasses import replace

from mviq.drawing.panels import Panel
from mviq.paper.learning import (
    Learning,
    above,
    confidence,
    curve_panel,
    difference,
    in_words,
    learning,
    reproduction,
)
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData

SETTINGS = ("mean over seeds of the greedy raw return, ribbon the 95 % interval",)


def make(data: StudyData) -> Reproduction:
    """Draw every game at every temperature, and test each q against q = 1."""
    results = learning(data)
    by_temperature: dict[str, list[str]] = {}
    for label in results.curves:
        by_temperature.setdefault(label.partition(", ")[2], []).append(label)
    cases = [(env, t, labels) for env in results.envs for t, labels in by_temperature.items()]
    panels = [_panel(results, *case) for case in cases]
    findings = [
        _better(results, env, label, labels[0]) for env, _, labels in cases for label in labels[1:]
    ]
    return reproduction("minatar-q", panels, (*SETTINGS, *results.notes), findings)


def _panel(results: Learning, env: str, temperature: str, labels: list[str]) -> Panel:
    """Return the curves of one game at one temperature; a label is then its q."""
    panel = curve_panel(results, env, labels, confidence)
    series = [replace(one, label=one.label.partition(", ")[0]) for one in panel.series]
    return replace(panel, title=f"{env}, {temperature}", series=tuple(series))


def _better(results: Learning, env: str, label: str, baseline: str) -> Finding:
    place = [results.envs.index(env)]
    lead = difference(results.last(label)[:, place], results.last(baseline)[:, place])
    claim = f"better than {baseline.partition(', ')[0]} at the same settings"
    return Finding(claim, f"{env}, {label}", f"ends higher by {in_words(lead)}", above(lead))
