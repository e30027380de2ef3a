"""Results as files a program can read: JSON, CSV and plain NumPy arrays."""

import csv
import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from mviq.drawing.style import render
from mviq.storage import appearing, write_durably
from mviq.tabular.diagnostics import Record
from mviq.tabular.solver import Solution


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Write JSON; what is not a number becomes null, infinity the text ``"inf"``."""
    text = json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_durably(path, text.encode())


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def write_history(path: Path, runs: Mapping[str, Solution]) -> None:
    """Write one row per iteration and run; a field that was not computed is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run", *Record._fields])
    for label, run in runs.items():
        for record in run.history:
            writer.writerow([label, *("" if math.isnan(field) else field for field in record)])
    write_durably(path, text.getvalue().encode())


def write_solution(path: Path, run: Solution) -> None:
    """Write Q, V and policy; ``numpy.load(path, allow_pickle=False)`` reads them."""
    arrays: dict[str, Any] = {"q_values": run.q_values, "values": run.values, "policy": run.policy}
    with appearing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **arrays)


def write_figure(path: Path, figure: Figure) -> None:
    """Write a PNG."""
    write_durably(path, render(figure, "png"))
