"""The tables and files of ``mviq solve``."""

import argparse
import io
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mviq.cli.common import table_console, text_table
from mviq.drawing.panels import csv_bytes
from mviq.drawing.style import render
from mviq.storage import json_bytes
from mviq.tabular import MDP, Algorithm, Diagnostics, Record, Solution
from mviq.tabular.plots import convergence_figure, policy_figure

COLUMNS = (
    *("q", "status", "iterations", "greedy value", "policy value", "residual", "seconds"),
    *("entropy", "support", "action gap", "R_q"),
)
"""The most important first: those that do not fit into the terminal are left out."""
_ARROWS = {(0, -1): "←", (1, 0): "↓", (0, 1): "→", (-1, 0): "↑"}


@dataclass
class Job:
    """One call of the command: the MDP, the algorithms, and the results so far."""

    mdp: MDP
    algorithms: dict[str, Algorithm]
    diagnostics: Diagnostics
    options: argparse.Namespace
    runs: dict[str, Solution] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def optimum(self) -> float | None:
        """The optimal value from the start, if it was computed."""
        best = self.diagnostics.optimum
        return None if best is None else float(self.mdp.start @ best.max(axis=1))

    @property
    def title(self) -> str:
        """The MDP, the algorithm and the discount."""
        return f"{self.mdp.name}, {self.options.algorithm}, γ = {self.mdp.discount:g}"


def show_job(job: Job) -> None:
    """Print the table of results and, for a grid world, the greedy actions."""
    console = table_console(piped=140, markup=False)  # names of MDPs come from files
    console.print(f"{job.mdp!r}, {job.options.algorithm}")
    rows = [_row(job, label, run) for label, run in job.runs.items()]
    table, left_out = _fitting(rows, console)
    console.print(table)
    if left_out:
        console.print(f"in a wider terminal also: {', '.join(left_out)}", style="dim")
    if job.optimum is not None:
        console.print(f"optimal value from the start: {job.optimum:.6g}")
    for label, run in job.runs.items():
        console.print(f"{label}: {run.status.value}, {run.reason}")
    if job.mdp.grid is not None and job.mdp.grid.shape[1] <= 60:
        _show_maps(job, console)
    out = job.options.out
    if out is None:
        console.print("add --out DIR for the convergence plot and files to read", style="dim")
    else:
        names = ", ".join(sorted(path.name for path in out.iterdir()))
        console.print(f"written to {out}: {names}", soft_wrap=True)


def _fitting(rows: list[list[str]], console: Console) -> tuple[Table, list[str]]:
    """Return a table of the first columns that fit into the terminal, and the other columns."""
    unlimited = console.options.update(max_width=1_000)
    for shown in range(len(COLUMNS), 1, -1):
        cells = [row[:shown] for row in rows]
        table = text_table(COLUMNS[:shown], cells, left=["status"], box=SIMPLE_HEAD, pad_edge=False)
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return table, list(COLUMNS[shown:])


def _row(job: Job, label: str, run: Solution) -> list[str]:
    last = run.history[-1]
    values = (last.greedy_value, last.policy_value)
    measures = (last.entropy, last.support_size, last.action_gap, last.munchausen_residual)
    return [
        label.removeprefix("q = "),
        run.status.value,
        str(run.iterations),
        *map(_number, values),
        f"{last.bellman_residual:.2e}",
        f"{job.seconds[label]:.2f}",
        *map(_number, measures),
    ]


def _number(number: float) -> str:
    return "–" if math.isnan(number) else f"{number:.4g}"


def _show_maps(job: Job, console: Console) -> None:
    """Print the greedy actions as arrows, with maps side by side if there is room."""
    grid, maps = job.mdp.grid, []
    assert grid is not None
    for label, run in job.runs.items():
        arrows = np.array([_ARROWS.get(move, "?") for move in grid.moves])[run.greedy]
        tiles = np.where(job.mdp.terminal, list(grid.letters), arrows).reshape(grid.shape)
        maps.append(Text("\n".join([label, *(" ".join(row) for row in tiles)])))
    console.print(Columns(maps, padding=(0, 4)))


def job_files(job: Job) -> dict[str, bytes]:
    """Return the files of ``--out`` by name: JSON, CSV, NumPy arrays and pictures."""
    convergence = convergence_figure(job.runs, job.title, job.optimum)
    contents = {
        "summary.json": json_bytes(_summary(job), indent=2),
        "history.csv": _history(job.runs),
        **{_solution_name(job.algorithms[label]): _arrays(run) for label, run in job.runs.items()},
        "convergence.png": render(convergence, "png"),
    }
    if job.mdp.grid is not None:
        contents["policy.png"] = render(policy_figure(job.mdp, job.runs, job.title), "png")
    return contents


def _history(runs: dict[str, Solution]) -> bytes:
    """Return one row per iteration and run; a field that was not computed is empty."""
    rows = [
        (label, *("" if math.isnan(field) else str(field) for field in record))
        for label, run in runs.items()
        for record in run.history
    ]
    return csv_bytes(("run", *Record._fields), rows)


def _arrays(run: Solution) -> bytes:
    """Return Q, V and policy; ``numpy.load(path, allow_pickle=False)`` reads them."""
    file = io.BytesIO()
    np.savez_compressed(file, q_values=run.q_values, values=run.values, policy=run.policy)
    return file.getvalue()


def _solution_name(point: Algorithm) -> str:
    return f"solution-q{point.q:g}.npz"


def _summary(job: Job) -> dict[str, Any]:
    mdp, options = job.mdp, job.options
    described = {"text": options.problem, "name": mdp.name, "states": mdp.states}
    described |= {"actions": mdp.actions, "discount": mdp.discount}
    settings = {"tolerance": options.tolerance, "max_iterations": options.max_iterations}
    settings |= {"noise": options.noise, "noise_kind": options.noise_kind, "seed": options.seed}
    runs = {
        label: {
            "algorithm": asdict(job.algorithms[label]),
            "status": run.status.value,
            "reason": run.reason,
            "iterations": run.iterations,
            "seconds": job.seconds[label],
            "last": run.history[-1]._asdict(),
            "solution": _solution_name(job.algorithms[label]),
        }
        for label, run in job.runs.items()
    }
    return {
        "problem": described,
        "algorithm": options.algorithm,
        "settings": settings,
        "optimal_value": job.optimum,
        "runs": runs,
    }
