"""The data of a comparison: learning curves on one grid per environment, scores and their scale.

Environments can differ in training steps, so each has its own grid, which all labels share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from mviq.arrays import Floats
from mviq.reports.reading import SCORES, Run, StudyData
from mviq.reports.scales import Scale, scale_of
from mviq.reports.selection import baseline_of, complete, filter_notes, left_out, restricted, some
from mviq.reports.statistics import Aligned, RunCurve, align, area_under_curve, comparable
from mviq.reports.statistics.score_checks import check_at_least, check_choice
from mviq.runs.records import ScoreKind, final_score

Which: TypeAlias = Literal["ended", "finished", "all"]
FEW_RUNS = 5  # docs/statistics.md: fewer are only a first look


@dataclass(frozen=True)
class ReportChoices:
    """The options of a report; call ``check`` before any work starts."""

    metric: str = "eval"
    """The score: ``eval`` or ``train``."""
    last: int | None = None
    """Number of last points averaged into the final score; None: a tenth of them, at least one."""
    baseline: str | None = None
    """The label to compare with; None: the study's baseline, else DQN, else the first label."""
    which: Which = "ended"
    """The runs to include: ``ended``, finished or diverged (a diverged run keeps its last score);
    ``finished`` only; or ``all``, with unfinished runs as far as they got."""
    seed: int = 0
    """Seed of the bootstrap."""
    only: Sequence[str] = ()
    """Labels and environments to report, by name or pattern; empty: all."""
    without: Sequence[str] = ()
    """Labels and environments to leave out."""

    def check(self) -> None:
        """Raise ``ValueError`` if an option is invalid."""
        check_choice("metric", self.metric, list(SCORES))
        check_choice("which", self.which, get_args(Which))
        check_at_least("seed", self.seed, 0)
        if self.last is not None:
            check_at_least("last", self.last, 1)


@dataclass(frozen=True)
class Environment:
    """The learning curves in one environment, on one grid, of every label that has any."""

    env: str
    steps: Floats
    curves: Mapping[str, Floats]
    """``(runs, points)`` by label: a row for every planned seed, NaN where its run is missing."""
    seeds: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...]
    """What was cut or left out to align the curves."""
    blanks: int
    """Number of recorded points without a finite value."""
    cut_off: tuple[str, ...]
    """Finished runs whose curve ends before the run did, because a file is damaged."""
    longest: float
    """The last step of the longest run; ``steps`` ends with the shortest run."""

    def final(self, label: str, choices: ReportChoices) -> Floats:
        """Return the final score of each run."""
        if choices.last is not None and choices.last > self.steps.size:
            points = f"the {self.steps.size} points of {self.env}"
            raise ValueError(f"last must be at most {points}, got {choices.last}")
        return final_score(self.curves[label], choices.last)


@dataclass(frozen=True)
class Comparison:
    """A study with the options of a report, ready for tables and figures."""

    study: StudyData
    choices: ReportChoices
    environments: tuple[Environment, ...]
    """The environments with at least one learning curve."""
    labels: tuple[str, ...]
    """The labels with a score in any environment, in the order of the study."""
    ranked: tuple[str, ...]
    shared: tuple[Environment, ...]
    """The ``ranked`` labels and ``shared`` environments are averaged: every pair has a score."""
    scale: Scale
    baseline: str | None
    left_out: tuple[str, ...]
    """What is not averaged, and why."""
    notes: tuple[str, ...]
    """What was cut or left out on request."""

    @property
    def over(self) -> str:
        """The environments that averages are over, as text for captions."""
        every = len(self.shared) == len(self.study.envs)
        return "all environments" if every else some([e.env for e in self.shared])

    def scaled(self, measure: ScoreKind) -> dict[str, Floats]:
        """Return scores ``(runs, shared environments)`` by ranked label, on one scale."""
        if not self.shared:
            return {}
        raw = {x: [self._raw(env, x, measure) for env in self.shared] for x in self.ranked}
        return {label: self.scale.apply(self.stacked(label, own)) for label, own in raw.items()}

    def score(self, run: Run, measure: ScoreKind) -> float:
        """Return the raw score of one run, NaN if it has none."""
        for env in self.environments:
            if env.env == run.env and run.label in env.curves:
                place = env.seeds[run.label].index(run.seed)
                return float(self._raw(env, run.label, measure)[place])
        return np.nan

    def _raw(self, env: Environment, label: str, measure: ScoreKind) -> Floats:
        if measure == "final":
            return env.final(label, self.choices)
        return area_under_curve(env.curves[label][:, None], env.steps)[:, 0]

    def stacked(self, label: str, columns: Sequence[Floats]) -> Floats:
        """Stack a label's arrays, one per shared environment, into ``(seeds, environments, …)``."""
        seeds = [env.seeds[label] for env in self.shared]
        rows = sorted(set().union(*seeds))
        stack = np.full((len(rows), len(columns), *columns[0].shape[1:]), np.nan)
        for j, (own, column) in enumerate(zip(seeds, columns, strict=True)):
            stack[[rows.index(seed) for seed in own], j] = column
        return stack


def compare(study: StudyData, choices: ReportChoices) -> Comparison:
    """Read the learning curves of a study and select what is compared and averaged."""
    choices.check()
    study = restricted(study, choices.only, choices.without)
    environments = gather(study, choices.metric, choices.which)
    if not environments and any(counts(run, choices.which) for run in study.runs):
        other = "train" if choices.metric == "eval" else "eval"
        raise ValueError(f"no run has {SCORES[choices.metric]}: use --metric {other}")
    labels = tuple(label for label in study.labels if any(label in e.curves for e in environments))
    scored = {e.env: tuple(e.curves) for e in environments}
    ranked, kept = complete(scored, labels)
    shared = tuple(e for e in environments if e.env in kept)
    finals = [np.concatenate([e.final(x, choices) for x in e.curves]) for e in shared]
    outside = left_out(study.labels, study.envs, scored, ranked, kept) if scored else []
    baseline = baseline_of(study, choices.baseline, ranked)
    if baseline is not None and baseline not in ranked:
        outside.append(f"Nothing is compared with the baseline {baseline}: it is not ranked.")
        baseline = None
    return Comparison(
        study=study,
        choices=choices,
        environments=environments,
        labels=labels,
        ranked=ranked,
        shared=shared,
        scale=scale_of(kept, finals, [study.returns_of(env) for env in kept]),
        baseline=baseline,
        left_out=tuple(outside),
        notes=(
            *filter_notes(choices.only, choices.without),
            *(note for e in environments for note in e.notes),
        ),
    )


def counts(run: Run, which: Which = "ended") -> bool:
    """Return whether a run is included, given the option ``which``."""
    ended = ("finished", "diverged") if which == "ended" else ("finished",)
    return which == "all" or run.status in ended


def gather(study: StudyData, metric: str, which: Which) -> tuple[Environment, ...]:
    """Return the learning curves of a metric for every environment that has any."""
    gathered = (_gather_one(study, env, metric, which) for env in study.envs)
    return tuple(environment for environment in gathered if environment is not None)


def _gather_one(study: StudyData, env: str, metric: str, which: Which) -> Environment | None:
    runs = {label: study.select(label, env) for label in study.labels}
    read = [(run, run.whole_curve(metric)) for own in runs.values() for run in own
            if counts(run, which)]  # fmt: skip
    records: dict[str, list[RunCurve]] = {run.label: [] for run, curve in read if curve.steps.size}
    for run, curve in read:
        if run.label in records:
            records[run.label].append(curve)
    if not records:
        return None
    known = [(run.status, curve.steps) for run, curve in read if curve.steps.size]
    whole = [steps for status, steps in known if status != "diverged"]
    grid, notes = _grid(whole or [steps for _, steps in known], env)
    aligned = {label: align(own, grid=grid) for label, own in records.items()}
    alive = _alive(aligned)
    if not alive:
        return None
    together = comparable(alive)
    notes += [f"{label}: {note}" for label, own in together.items() for note in own.notes]
    dead = [label for label in aligned if label not in alive]
    notes += [f"{label}: no finite value at the end of {env}" for label in dead]
    seeds = {label: tuple(run.seed for run in runs[label]) for label in together}
    return Environment(
        env=env,
        steps=next(iter(together.values())).steps,
        curves={label: _planned(own, seeds[label]) for label, own in together.items()},
        seeds=seeds,
        notes=tuple(notes),
        blanks=sum(int(np.isnan(r.values).sum()) for own in records.values() for r in own),
        cut_off=tuple(
            f"{run.title} (step {curve.end:,.0f} of {run.steps:,})"
            for run, curve in read
            if run.status == "finished"
            and curve.steps.size
            and curve.end < min(run.steps, run.settings["total_steps"])
        ),
        longest=float(max(steps[-1] for _, steps in known)),
    )


def _grid(steps: Sequence[Floats], env: str) -> tuple[Floats, list[str]]:
    """Return the steps that all curves have, or all steps if they share none at their common end.

    Between its own points a curve keeps the value before, which would count as a late score.
    """
    every = np.unique(np.concatenate(steps))
    common = np.array(sorted(set.intersection(*map(set, steps))))
    end = min(own[-1] for own in steps)
    if not common.size or common[-1] < end:
        return every, []
    inside = (every <= end).sum()
    lost = f"{env}: only the {common.size} of {inside} steps that all runs have are compared"
    grid = np.concatenate([common, every[every > end]])  # ``align`` cuts the rest, and says so
    return grid, [lost] if common.size < inside else []


def _alive(aligned: Mapping[str, Aligned]) -> dict[str, Aligned]:
    """Return the labels with a score at the last step that they share."""
    alive = dict(aligned)
    while alive:
        end = min(own.steps[-1] for own in alive.values())
        last = {label: own.curves[..., own.steps <= end] for label, own in alive.items()}
        scored = [x for x, own in last.items() if own.size and not np.isnan(own[..., -1]).all()]
        if len(scored) == len(alive):
            break
        alive = {label: alive[label] for label in scored}
    return alive


def _planned(aligned: Aligned, seeds: Sequence[int]) -> Floats:
    """Return curves with a row for every planned seed, NaN if its run is missing."""
    curves = np.full((len(seeds), aligned.steps.size), np.nan)
    for row, seed in enumerate(seeds):
        if seed in aligned.seeds:
            curves[row] = aligned.curves[aligned.seeds.index(seed), 0]
    return curves


def thinned(environment: Environment, points: int) -> Environment:
    """Return an environment with at most ``points`` evenly spaced points, including the last."""
    size = environment.steps.size
    if size <= points:
        return environment
    kept = np.unique(np.linspace(0, size - 1, points).round().astype(int))
    curves = {label: own[:, kept] for label, own in environment.curves.items()}
    return replace(environment, steps=environment.steps[kept], curves=curves)
