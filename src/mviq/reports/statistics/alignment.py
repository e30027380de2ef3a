"""Align the learning curves of single runs on one grid of steps.

Runs can end at different steps, lack a seed in one task, or record values between grid points. The
result is an array ``(runs, tasks, points)``, and its ``notes`` say what was cut, dropped or
missing, with task and seed, so that a report can print them below the figure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from mviq.arrays import Floats
from mviq.reports.statistics.score_checks import as_increasing, check_at_least, check_choice

Unequal = Literal["cut", "drop", "keep"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class RunCurve:
    """The learning curve of one run: ``values`` at ``steps``, for one task and seed."""

    task: str
    seed: int
    steps: Floats
    values: Floats

    def __post_init__(self) -> None:
        """Raise ``ValueError``, naming the run, if the curve is malformed."""
        where = f"of {self.task}, seed {self.seed}"
        steps, values = np.asarray(self.steps, np.float64), np.asarray(self.values, np.float64)
        if steps.size:
            as_increasing(f"steps {where}", steps)
        if values.shape != steps.shape:
            raise ValueError(
                f"values {where} must be one per step, got shapes {values.shape} and {steps.shape}"
            )
        if np.isinf(values).any():
            raise ValueError(
                f"values {where} must be finite or NaN, got {values[np.isinf(values)][0]}"
            )
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "values", values)

    def at(self, steps: Floats) -> Floats:
        """Return the last value at or before each step; NaN before the first and after the last.

        >>> run = RunCurve("CartPole-v1", 0, [10, 20, 30], [1.0, 2.0, 3.0])
        >>> run.at(np.array([5, 10, 25, 30, 31]))
        array([nan,  1.,  2.,  3., nan])
        """
        places = np.searchsorted(self.steps, steps, side="right") - 1
        inside = (places >= 0) & (steps <= self.end)
        return np.where(inside, self.values[np.maximum(places, 0)], np.nan)

    @property
    def start(self) -> float:
        """The first step that was recorded."""
        return float(self.steps[0])

    @property
    def end(self) -> float:
        """The last step that was recorded."""
        return float(self.steps[-1])


@dataclass(frozen=True)
class Aligned:
    """Learning curves of one algorithm on one grid, with notes on what was left out."""

    tasks: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: Floats
    """The grid, ``(points,)``."""
    curves: Floats
    """``(runs, tasks, points)``: run i has seed ``seeds[i]`` in every task; NaN is missing."""
    notes: tuple[str, ...] = field(default=())
    """What was cut, dropped or missing: one sentence each, empty if nothing was."""


def align(
    records: Iterable[RunCurve],
    *,
    unequal: Unequal = "cut",
    grid: ArrayLike | int | None = None,
    tasks: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> Aligned:
    """Align runs on one grid of steps; between two records, the earlier value is used.

    ``unequal`` is for runs of different lengths: ``cut`` keeps the points that every run has;
    ``drop`` leaves out runs that end before the grid does; ``keep`` fills missing points with NaN,
    so that later points are estimated from the longer runs alone. ``grid`` is an array of steps, a
    number of equally spaced steps, or None for every recorded step. ``tasks`` and ``seeds`` are the
    expected ones: a run that is not in ``records`` is NaN, with a note.

    >>> long = RunCurve("Catch-v0", 0, [10, 20, 30], [1.0, 2.0, 3.0])
    >>> short = RunCurve("Catch-v0", 1, [10, 20], [1.5, 2.5])
    >>> aligned = align([long, short], seeds=[0, 1, 2])
    >>> aligned.steps, aligned.curves[:, 0]
    (array([10., 20.]), array([[1. , 2. ], [1.5, 2.5], [nan, nan]]))
    >>> for note in aligned.notes:
    ...     print(note)
    no run of Catch-v0, seed 2
    cut after step 20, where Catch-v0, seed 1 ends: 1 of 3 points
    """
    check_choice("unequal", unequal, get_args(Unequal))
    runs, order, notes = _by_task_and_seed(records, tasks, seeds)
    steps = _grid(grid, runs.values())
    if unequal == "keep":
        notes += _lacks(steps, runs.values())
    else:
        if unequal == "drop":
            runs, dropped = _drop(steps, runs)
            notes += dropped
        steps, cut = _cut(steps, runs.values())
        notes += cut
    return Aligned(*order, steps, _stack(runs, *order, steps), tuple(notes))


def comparable(algorithms: Mapping[str, Aligned]) -> dict[str, Aligned]:
    """Restrict several algorithms to the tasks and steps that all of them have.

    A task is kept if every algorithm has a run with a score at the last common step.

    >>> one = align([RunCurve("A", 0, [1, 2], [1.0, 1.0]), RunCurve("B", 0, [1, 2], [2.0, 2.0])])
    >>> two = align([RunCurve("B", 0, [1, 2, 3], [5.0, 6.0, 7.0])])
    >>> both = comparable({"one": one, "two": two})
    >>> both["one"].tasks, both["two"].steps, both["one"].notes, both["two"].notes
    (('B',), array([1., 2.]), ('left out A: no runs of two',), ('cut at step 2, where one ends',))
    """
    if not algorithms:
        raise ValueError("algorithms must have at least one entry, got none")
    ends = {name: aligned.steps[-1] for name, aligned in algorithms.items()}
    first = min(ends, key=lambda name: ends[name])
    short = {name: _until(aligned, ends[first], first) for name, aligned in algorithms.items()}
    steps = sorted(set.intersection(*(set(aligned.steps) for aligned in short.values())))
    if not steps:
        raise ValueError("algorithms must share at least one step, got none: align on one grid")
    lacking = {task: _lacking(short, task) for aligned in short.values() for task in aligned.tasks}
    tasks = [task for task, who in lacking.items() if not who]
    if not tasks:
        raise ValueError(f"algorithms must share at least one task, got none of {list(lacking)}")
    return {name: _restrict(aligned, tasks, steps, lacking) for name, aligned in short.items()}


def _by_task_and_seed(
    records: Iterable[RunCurve], tasks: Sequence[str], seeds: Sequence[int]
) -> tuple[dict[tuple[str, int], RunCurve], tuple[tuple[str, ...], tuple[int, ...]], list[str]]:
    """Return the runs by task and seed, all tasks and seeds found or expected, and notes."""
    runs: dict[tuple[str, int], RunCurve] = {}
    for run in records:
        if (run.task, run.seed) in runs:
            raise ValueError(f"records must have each task and seed once, got {_name(run)} twice")
        runs[run.task, run.seed] = run
    empty = [place for place, run in runs.items() if run.steps.size == 0]
    notes = [f"{_name(runs.pop(place))} recorded nothing" for place in empty]
    if not runs:
        raise ValueError("records must have at least one run with a value, got none")
    order = _ordered(tasks, (task for task, _ in runs)), _ordered(seeds, (seed for _, seed in runs))
    missing = [place for place in product(*order) if place not in runs and place not in empty]
    notes += [f"no run of {task}, seed {seed}" for task, seed in missing]
    for run in runs.values():
        if np.isnan(run.values).any():
            notes.append(f"{_name(run)} has {np.isnan(run.values).sum()} records without a value")
    return runs, order, notes


def _grid(grid: ArrayLike | int | None, runs: Iterable[RunCurve]) -> Floats:
    recorded = np.unique(np.concatenate([run.steps for run in runs]))
    if grid is None:
        return recorded
    if isinstance(grid, int):
        check_at_least("grid", grid, 2)
        return np.linspace(recorded[0], recorded[-1], grid)
    return as_increasing("grid", grid)


def _cut(steps: Floats, runs: Collection[RunCurve]) -> tuple[Floats, list[str]]:
    """Return the grid points between the latest start and the earliest end, with notes."""
    last = max(runs, key=lambda run: run.start)
    first = min(runs, key=lambda run: run.end)
    early, late = steps < last.start, steps > first.end
    if (early | late).all():
        raise ValueError(
            f"records must share at least one point: {_name(first)} ends at step {first.end:g}, "
            f"{_name(last)} starts at {last.start:g}; use unequal='drop' or 'keep', or another grid"
        )
    notes = []
    if early.any():
        lost = f"{early.sum()} of {steps.size} points"
        notes.append(f"cut before step {last.start:g}, where {_name(last)} starts: {lost}")
    if late.any():
        lost = f"{late.sum()} of {steps.size} points"
        notes.append(f"cut after step {first.end:g}, where {_name(first)} ends: {lost}")
    return steps[~(early | late)], notes


def _drop(
    steps: Floats, runs: Mapping[tuple[str, int], RunCurve]
) -> tuple[dict[tuple[str, int], RunCurve], list[str]]:
    """Return the runs that reach the end of the grid, and notes on those that do not."""
    kept = {place: run for place, run in runs.items() if run.end >= steps[-1]}
    if not kept:
        longest = max(runs.values(), key=lambda run: run.end)
        raise ValueError(
            f"grid must end where a run ends or before, got {steps[-1]:g}; the longest run, "
            f"{_name(longest)}, ends at step {longest.end:g}"
        )
    short = [run for place, run in runs.items() if place not in kept]
    return kept, [f"dropped {_name(run)}: it ends at step {run.end:g}" for run in short]


def _lacks(steps: Floats, runs: Collection[RunCurve]) -> list[str]:
    """Return notes on the runs that do not span the grid."""
    before = [f"{_name(r)} is missing before step {r.start:g}" for r in runs if r.start > steps[0]]
    after = [f"{_name(r)} is missing after step {r.end:g}" for r in runs if r.end < steps[-1]]
    return before + after


def _stack(
    runs: Mapping[tuple[str, int], RunCurve],
    tasks: Sequence[str],
    seeds: Sequence[int],
    steps: Floats,
) -> Floats:
    curves = np.full((len(seeds), len(tasks), steps.size), np.nan)
    for (i, seed), (j, task) in product(enumerate(seeds), enumerate(tasks)):
        if (task, seed) in runs:
            curves[i, j] = runs[task, seed].at(steps)
    return curves


def _until(aligned: Aligned, end: float, who: str) -> Aligned:
    if aligned.steps[-1] == end:
        return aligned
    inside = aligned.steps <= end
    note = f"cut at step {end:g}, where {who} ends"
    return replace(
        aligned,
        steps=aligned.steps[inside],
        curves=aligned.curves[..., inside],
        notes=(*aligned.notes, note),
    )


def _lacking(algorithms: Mapping[str, Aligned], task: str) -> list[str]:
    """Return the algorithms without a score in a task at their last step."""

    def has(aligned: Aligned) -> bool:
        if task not in aligned.tasks:
            return False
        return not np.isnan(aligned.curves[:, aligned.tasks.index(task), -1]).all()

    return [name for name, aligned in algorithms.items() if not has(aligned)]


def _restrict(
    aligned: Aligned, tasks: Sequence[str], steps: Sequence[float], lacking: Mapping[str, list[str]]
) -> Aligned:
    points = np.isin(aligned.steps, steps)
    columns = [aligned.tasks.index(task) for task in tasks]
    left_out = [task for task in aligned.tasks if task not in tasks]
    notes = [f"left out {task}: no runs of {', '.join(lacking[task])}" for task in left_out]
    return Aligned(
        tuple(tasks),
        aligned.seeds,
        aligned.steps[points],
        aligned.curves[:, columns][..., points],
        (*aligned.notes, *notes),
    )


def _ordered(expected: Sequence[_T], seen: Iterable[_T]) -> tuple[_T, ...]:
    """Return the expected items, then others in order of appearance, without duplicates."""
    return tuple(dict.fromkeys([*expected, *seen]))


def _name(run: RunCurve) -> str:
    return f"{run.task}, seed {run.seed}"
