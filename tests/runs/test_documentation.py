"""docs/runs.md and docs/presets.md say what the code does."""

from itertools import groupby
from pathlib import Path

import pytest

from mviq.runs.presets import COMMON, PRESETS, Defaults
from mviq.runs.tables import METRICS

DOCS = Path(__file__).parents[2] / "docs"
RUNS = (DOCS / "runs.md").read_text(encoding="utf-8")
TEXT = (DOCS / "presets.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_explained(metric):
    assert f"| `{metric}` | {METRICS[metric]} |" in RUNS


@pytest.mark.parametrize("preset", PRESETS)
def test_every_value_of_a_preset_stands_beside_its_source(preset):
    expected = f"**`{preset}`**: {PRESETS[preset].summary}\n\n{whole_table(preset)}"
    assert expected in TEXT, f"docs/presets.md must say:\n{expected}"


def test_what_all_presets_share_stands_beside_its_source():
    expected = f"**All presets**, unless they say otherwise\n\n{table(COMMON)}"
    assert expected in TEXT, f"docs/presets.md must say:\n{expected}"


def whole_table(preset: str) -> str:
    """Return the values of a preset, and then those it has for some algorithms only."""
    rows = [
        f"| {default.source} | for `{algorithm}`: `{name}` {written(default.value)} |\n"
        for algorithm, own in PRESETS[preset].by_algorithm.items()
        for name, default in own.items()
    ]
    return table(PRESETS[preset].values) + "".join(rows)


def table(defaults: Defaults) -> str:
    """Return the values of a preset by their source, for a run as long as it says."""
    total = defaults["total_steps"].value if "total_steps" in defaults else 1
    items = [(name, *default.of(total)) for name, default in defaults.items()]
    rows = ["| source | values |", "|---|---|"]
    for source, group in groupby(sorted(items, key=lambda item: item[2]), lambda item: item[2]):
        values = ", ".join(f"`{name}` {written(value)}" for name, value, _ in group)
        rows.append(f"| {source} | {values} |")
    return "\n".join(rows) + "\n"


def written(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(map(written, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)


if __name__ == "__main__":
    print("**All presets**, unless they say otherwise\n")
    print(table(COMMON))
    for name, preset in PRESETS.items():
        print(f"**`{name}`**: {preset.summary}\n")
        print(whole_table(name))
