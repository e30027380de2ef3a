"""Load the data of a report from a study, a directory of runs or a single run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mviq.arrays import Floats
from mviq.env_families import family_of
from mviq.reports.labels import labels_of
from mviq.reports.statistics import RunCurve
from mviq.runs.directory import RunDirectory, find_run
from mviq.runs.records import (
    StoredStatus,
    evaluation_curve,
    progress_curve,
    read_ending,
    read_settings,
    read_system,
    seconds_of,
)
from mviq.runs.tables import METRICS
from mviq.studies.study_directory import PlannedRun, StudyDirectory

_TRAINING_RETURN = "rollout/ep_rew_mean"
SCORES = {
    "eval": "mean raw return of the greedy policy in an evaluation",
    "train": METRICS[_TRAINING_RETURN],
}
"""The scores by metric; a curve can also be a column of progress.csv."""


@dataclass(frozen=True)
class Run:
    """One run, started or only planned, and how it ended."""

    name: str
    label: str
    env: str
    seed: int
    status: StoredStatus
    steps: int
    """The last step that was recorded."""
    reason: str
    """Why it has no result, or why it diverged; empty for a finished run."""
    settings: Mapping[str, Any]
    """From its config.yaml; those of the plan if it has not started."""
    system: Mapping[str, Any]
    directory: RunDirectory

    @property
    def title(self) -> str:
        """The name of the run in messages."""
        return f"{self.label}, {self.env}, seed {self.seed}"

    @property
    def seconds(self) -> float | None:
        """The training time in seconds, over all sessions; None if it was not recorded."""
        return seconds_of(self.directory)

    def curve(self, metric: str) -> RunCurve:
        """Return the curve of a score, ``eval`` or ``train``, or of a column of progress.csv."""
        if metric == "eval":
            steps, values = evaluation_curve(self.directory)
            return RunCurve(self.env, self.seed, self._due(steps), values)
        column = _TRAINING_RETURN if metric == "train" else metric
        if column not in METRICS:
            known = ", ".join([*SCORES, *METRICS])
            raise ValueError(f"metric must be one of {known}, got {metric!r}")
        steps, values = progress_curve(self.directory, column)
        return RunCurve(self.env, self.seed, self._due(steps), values)

    def _due(self, steps: Floats) -> Floats:
        """Return the steps at which records were due: they are made at the end of a rollout.

        Otherwise runs with other rollouts would have no step in common.
        """
        names = ("train_every", "n_envs", "eval_every", "log_every", "total_steps")
        if not all(name in self.settings for name in names):
            return steps
        each, envs, *periods, total = (int(self.settings[name]) for name in names)
        end = min(self.steps, total) if self.status == "finished" else total
        due = np.minimum(steps, total)
        for period in periods:
            late = steps % period if period else np.inf
            due = np.where((late < each * envs) & (steps < end), steps - late, due)
        return due if (np.diff(due) > 0).all() else steps

    def whole_curve(self, metric: str) -> RunCurve:
        """Return the curve; that of a diverged run keeps its last value until ``total_steps``.

        A diverged agent does not recover, and leaving it out would be survivorship bias.
        """
        curve = self.curve(metric)
        if self.status != "diverged" or curve.steps.size == 0:
            return curve
        end, known = float(self.settings["total_steps"]), curve.values[~np.isnan(curve.values)]
        if curve.end >= end or not known.size:
            return curve
        steps, values = np.append(curve.steps, end), np.append(curve.values, known[-1])
        return RunCurve(self.env, self.seed, steps, values)


@dataclass(frozen=True)
class StudyData:
    """The runs of a study in the order of its plan."""

    name: str
    description: str
    baseline: str | None
    runs: tuple[Run, ...]
    returns: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Bounds of the return by environment, where the study gives them."""

    labels = property(lambda self: tuple(dict.fromkeys(run.label for run in self.runs)))
    envs = property(lambda self: tuple(dict.fromkeys(run.env for run in self.runs)))
    seeds = property(lambda self: tuple(sorted({run.seed for run in self.runs})))

    def returns_of(self, env: str) -> tuple[float, float]:
        """Return the bounds of the return in an environment; a wrapper may change its returns."""
        wrapped = any(run.settings.get("wrappers") for run in self.runs if run.env == env)
        return self.returns.get(env, (-np.inf, np.inf) if wrapped else family_of(env).returns)

    def select(self, label: str, env: str) -> tuple[Run, ...]:
        """Return the runs of one label in one environment."""
        return tuple(run for run in self.runs if (run.label, run.env) == (label, env))


def load_study(path: Path) -> StudyData:
    """Load a study directory, a directory of runs, or a single run."""
    if StudyDirectory(path).plan_file.is_file():
        return _load_planned(StudyDirectory(path))
    inside = sorted([*path.glob("*/config.yaml"), *path.glob("runs/*/config.yaml")])
    if inside:
        whole = path.resolve()
        name = whole.parent.name if whole.name == "runs" else whole.name
        return _load_plain(name, [RunDirectory(file.parent) for file in inside])
    single = find_run(path)
    if not single.path.exists():
        raise ValueError(f"there is no study or run {path}")
    if not single.config_file.is_file():
        raise ValueError(f"{path} is no study and no run: it has no plan.json, config.yaml or runs")
    return _load_plain(single.path.name, [single])


def _load_planned(study: StudyDirectory) -> StudyData:
    plan = study.plan()
    if not plan.runs:
        raise ValueError(f"{study.plan_file} plans no runs")
    runs = tuple(_planned_run(study, planned) for planned in plan.runs)
    return StudyData(plan.name, plan.description, plan.baseline, runs, plan.returns)


def _planned_run(study: StudyDirectory, planned: PlannedRun) -> Run:
    directory, failure = study.run(planned.run), study.failure(planned.run)
    reason = None
    if failure is not None:
        attempts = f" ({failure.attempts} attempts)" if failure.attempts > 1 else ""
        reason = failure.reason + attempts
    begun = directory.config_file.is_file()
    settings = read_settings(directory) if begun else planned.settings
    where, ending = (planned.label, planned.env, planned.seed), read_ending(directory, reason)
    return Run(planned.run, *where, *ending, settings, read_system(directory), directory)


def _as_text(name: str) -> str:
    """Return a directory name as valid Unicode: undecodable bytes become question marks."""
    return name.encode(errors="replace").decode()


def _load_plain(name: str, directories: Sequence[RunDirectory]) -> StudyData:
    settings = [read_settings(directory) for directory in directories]
    runs = [
        Run(
            *(_as_text(directory.path.name), label, own["env"], own["seed"]),
            *read_ending(directory),
            *(own, read_system(directory), directory),
        )
        for label, own, directory in zip(labels_of(settings), settings, directories, strict=True)
    ]
    _check_distinct(runs)
    name = _as_text(name)
    return StudyData(name, "", None, tuple(sorted(runs, key=lambda r: (r.label, r.env, r.seed))))


def _check_distinct(runs: Sequence[Run]) -> None:
    seen: dict[str, Run] = {}
    for run in runs:
        twin = seen.setdefault(run.title, run)
        if twin is not run:
            both = f"{twin.directory.path} and {run.directory.path}"
            raise ValueError(f"{both} are both {run.title}: leave one of them out")
