"""Two finished runs, compared bit for bit."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import torch

from mviq.runs import Config
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.directory import RunDirectory

# What a Monitor and the logger read from the clock.
CLOCK = ("t", "t_start", "episode_times", "time/fps", "time/time_elapsed")


def assert_same_run(config: Config, one: Path, other: Path) -> None:
    """Everything but the clock is the same: tables, models, replay buffer, generators, …"""
    a, b = (RunDirectory(root / config.name) for root in (one, other))
    assert a.result == b.result
    for table in ("progress", "evaluations"):
        assert getattr(a, table).read_bytes() == getattr(b, table).read_bytes(), table
    if config.callbacks or config.q_schedule:
        assert a.own_metrics.read_bytes() == b.own_metrics.read_bytes()
    assert _steps(a.timing) == _steps(b.timing)
    for model in ("model", "best_model") if config.eval_every else ("model",):
        assert _archive(getattr(a, model)) == _archive(getattr(b, model)), model
    assert_same_checkpoint(a, b)


def assert_same_checkpoint(a: RunDirectory, b: RunDirectory) -> None:
    (step_a, tree_a, arrays_a, rows_a), (step_b, tree_b, arrays_b, rows_b) = map(_newest, (a, b))
    assert step_a == step_b
    assert without_clock(tree_a) == without_clock(tree_b)
    for mine, theirs in ((arrays_a, arrays_b), (rows_a, rows_b)):
        assert mine.keys() == theirs.keys()
        assert mine
        for name in mine:
            assert mine[name].dtype == theirs[name].dtype
            np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)


def same(one: Any, other: Any) -> bool:
    """Return whether two values are the same plain data, in types and to the last bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray | np.generic | torch.Tensor):
        return one.dtype == other.dtype and bool(np.array_equal(one, other))
    return bool(one == other)


def _newest(directory: RunDirectory):
    checkpoints = Checkpoints(directory.checkpoints)
    found = checkpoints.newest(lambda marks: None, lambda text: None)
    assert found is not None
    rows: dict[str, list] = {}
    for segment in found.segments:
        items = safetensors.numpy.load_file(checkpoints.replay / segment.file)
        for name, array in items.items():
            rows.setdefault(f"{segment.ring}.{name}", []).append((segment.start, array))
    joined = {n: np.concatenate([a for _, a in sorted(p, key=first)]) for n, p in rows.items()}
    return found.step, found.tree, found.arrays, joined


def first(pair):
    return pair[0]


def without_clock(tree):
    if isinstance(tree, list):
        return [without_clock(item) for item in tree]
    if isinstance(tree, dict):
        return {key: without_clock(value) for key, value in tree.items() if key not in CLOCK}
    return tree


def _steps(table: Path) -> list[str]:
    return [line.split(",")[0] for line in table.read_text().splitlines()]


def _archive(path: Path) -> dict[str, object]:
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["agent.json"] = json.loads(content["agent.json"])
    return content
