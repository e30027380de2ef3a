"""docs/agents.md says what the code does."""

from pathlib import Path

import pytest

from mviq.runs.presets import PRESETS, defaults
from mviq.runs.tables import METRICS

TEXT = (Path(__file__).parents[2] / "docs" / "agents.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_is_explained(metric):
    assert f"| `{metric}` | {METRICS[metric]} |" in TEXT


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_listed(preset):
    assert f"`{preset}`" in TEXT


@pytest.mark.parametrize("env", ["CartPole-v1", "MinAtar/Breakout-v1", "ALE/Pong-v5"])
def test_the_values_of_the_tables_stand_beside_their_sources(env):
    rows = [line.split("|")[1:3] for line in TEXT.splitlines() if line.startswith("| ")]
    written = {(source.strip(), item) for source, items in rows for item in _split(items)}
    for name in ("batch_size", "buffer_size", "target_every", "learning_starts", "learning_rate"):
        value, source = defaults(env)[name]
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        assert (source, f"{name} {shown}") in written


def _split(items):
    return [item.strip() for item in items.split(",")]
