"""From the files of a study, of some runs or of one run to records: all that a report knows.

Nothing here loads torch, makes an environment or changes a file.
"""

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from mviq.reports.labels import labels_of
from mviq.reports.statistics import Record
from mviq.runs.directory import RunDirectory, find_run
from mviq.runs.overrides import read_file
from mviq.runs.tables import METRICS
from mviq.studies.directory import PlannedRun, StudyDirectory

Status: TypeAlias = Literal["finished", "diverged", "failed", "unfinished", "not begun"]
SCORES = {
    "eval": "mean raw return of the greedy policy in an evaluation",
    "train": METRICS["rollout/ep_rew_mean"],
}
"""What a score can be; a record can also be any column of progress.csv."""
_COLUMNS = {"train": "rollout/ep_rew_mean"}
_STEP = "time/total_timesteps"


@dataclass(frozen=True)
class Run:
    """One run, planned or there, and what became of it."""

    name: str
    label: str
    env: str
    seed: int
    status: Status
    steps: int
    """The last step that is written down."""
    reason: str
    """Why it has no result, or why it diverged; empty for a finished run."""
    settings: Mapping[str, Any]
    """Its config.yaml; what the study sets for it if it has not begun."""
    system: Mapping[str, Any]
    directory: RunDirectory

    @property
    def title(self) -> str:
        """Return what people call it."""
        return f"{self.label}, {self.env}, seed {self.seed}"

    def record(self, metric: str) -> Record:
        """Return a score, ``eval`` or ``train``, or a column of progress.csv along the run."""
        if metric == "eval":
            steps, values = _evaluations(self.directory.evaluations)
        else:
            steps, values = _progress(self.directory.progress, _COLUMNS.get(metric, metric))
        return Record(self.env, self.seed, np.array(steps), np.array(values))


@dataclass(frozen=True)
class StudyData:
    """The runs of a study in the order of its plan."""

    name: str
    description: str
    baseline: str | None
    runs: tuple[Run, ...]

    labels = property(lambda self: tuple(dict.fromkeys(run.label for run in self.runs)))
    envs = property(lambda self: tuple(dict.fromkeys(run.env for run in self.runs)))
    seeds = property(lambda self: tuple(sorted({run.seed for run in self.runs})))

    def select(self, label: str, env: str) -> tuple[Run, ...]:
        """Return the runs of one label in one environment."""
        return tuple(run for run in self.runs if (run.label, run.env) == (label, env))


def read_study(path: Path) -> StudyData:
    """Read the directory of a study, one with runs in it, or that of a single run."""
    if StudyDirectory(path).plan_file.is_file():
        return _read_planned(StudyDirectory(path))
    inside = sorted([*path.glob("*/config.yaml"), *path.glob("runs/*/config.yaml")])
    if inside:
        return _read_plain(_name_of(path), [RunDirectory(file.parent) for file in inside])
    single = find_run(path)
    if not single.config_file.is_file():
        raise ValueError(f"{path} is no study and no run: it has no plan.json, config.yaml or runs")
    return _read_plain(single.path.name, [single])


def _name_of(path: Path) -> str:
    """Return the name of a directory with runs: that of the one above if it is called runs."""
    whole = path.resolve()
    return whole.parent.name if whole.name == "runs" else whole.name


def _read_planned(study: StudyDirectory) -> StudyData:
    plan = study.plan()
    if not plan.runs:
        raise ValueError(f"{study.plan_file} plans no runs")
    runs = tuple(_planned_run(study, planned) for planned in plan.runs)
    return StudyData(plan.name, plan.description, plan.baseline, runs)


def _planned_run(study: StudyDirectory, planned: PlannedRun) -> Run:
    directory = study.run(planned.run)
    begun = directory.config_file.is_file()
    status, steps, reason = _ending(directory)
    failure = study.failure(planned.run)
    if failure is not None:
        attempts = f" ({failure.attempts} attempts)" if failure.attempts > 1 else ""
        status, reason = "failed", failure.reason + attempts
    elif not begun:
        status, reason = "not begun", "not begun"
    return Run(
        name=planned.run,
        label=planned.label,
        env=planned.env,
        seed=planned.seed,
        status=status,
        steps=steps,
        reason=reason,
        settings=read_file(directory.config_file) if begun else planned.settings,
        system=_system(directory),
        directory=directory,
    )


def _read_plain(name: str, directories: Sequence[RunDirectory]) -> StudyData:
    settings = [_checked(read_file(run.config_file), run) for run in directories]
    runs = []
    for label, own, directory in zip(labels_of(settings), settings, directories, strict=True):
        status, steps, reason = _ending(directory)
        runs.append(
            Run(
                name=directory.path.name,
                label=label,
                env=own["env"],
                seed=own["seed"],
                status=status,
                steps=steps,
                reason=reason,
                settings=own,
                system=_system(directory),
                directory=directory,
            )
        )
    _check_distinct(runs)
    return StudyData(name, "", None, tuple(sorted(runs, key=lambda r: (r.label, r.env, r.seed))))


def _check_distinct(runs: Sequence[Run]) -> None:
    seen: dict[str, Run] = {}
    for run in runs:
        twin = seen.setdefault(run.title, run)
        if twin is not run:
            both = f"{twin.directory.path} and {run.directory.path}"
            raise ValueError(f"{both} are both {run.title}: leave one of them out")


def _checked(settings: dict[str, Any], run: RunDirectory) -> dict[str, Any]:
    for name, kind in (("env", str), ("seed", int), ("algorithm", str)):
        if not isinstance(settings.get(name), kind):
            raise ValueError(f"{run.config_file} has no {name}")
    return settings


def _ending(directory: RunDirectory) -> tuple[Status, int, str]:
    """Return what became of a run, the last step that is written down, and why it ended there."""
    result = directory.result
    if result is None:
        steps = [_number(directory.progress, r, _STEP) for r in _rows(directory.progress, [_STEP])]
        return "unfinished", int(steps[-1]) if steps else 0, "interrupted, or still running"
    if result.status not in ("finished", "diverged"):
        raise ValueError(f"{directory.result_file} has the unknown status {result.status!r}")
    diverged = result.status == "diverged"
    return "diverged" if diverged else "finished", result.steps, result.message


def _system(directory: RunDirectory) -> dict[str, Any]:
    file: Path = directory.system_file
    with _named(file):
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file.is_file() else {}


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Name the file that cannot be read."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{file} cannot be read: {error}") from None


def _evaluations(path: Path) -> tuple[list[float], list[float]]:
    """Return the steps of the evaluations and the mean return of each, NaN if one is infinite."""
    returns: dict[float, list[float]] = {}
    for row in _rows(path, ["step", "return"]):
        returns.setdefault(_number(path, row, "step"), []).append(_value(path, row, "return"))
    return list(returns), [sum(found) / len(found) for found in returns.values()]


def _progress(path: Path, column: str) -> tuple[list[float], list[float]]:
    """Return the steps at which a column has a value, and the values; infinite ones are NaN."""
    if column not in METRICS:
        raise ValueError(f"metric must be one of {', '.join([*SCORES, *METRICS])}, got {column!r}")
    rows = _rows(path, [_STEP, column])
    found = {_number(path, row, _STEP): _value(path, row, column) for row in rows}
    return list(found), list(found.values())


def _rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows that have a value in all the columns; a line cut off by a crash is no row."""
    if not path.is_file():
        return
    with _named(path):
        text = path.read_text(encoding="utf-8")
    for row in csv.DictReader(text[: text.rfind("\n") + 1].splitlines()):
        if all(row.get(column) for column in columns):
            yield row


def _value(path: Path, row: Mapping[str, str], column: str) -> float:
    """Return a number that was measured: NaN for an infinite one, which nothing can average."""
    value = _number(path, row, column)
    return value if math.isfinite(value) else math.nan


def _number(path: Path, row: Mapping[str, str], column: str) -> float:
    try:
        return float(row[column])
    except ValueError:
        raise ValueError(f"{path}: {column} must be a number, got {row[column]!r}") from None
