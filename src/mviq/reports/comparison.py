"""What is compared: learning curves on one grid per environment, final scores, and their scale.

Environments have their own budgets, so each has its own grid of steps, which all labels share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import numpy as np

from mviq.arrays import Floats
from mviq.reports.reading import SCORES, Run, StudyData
from mviq.reports.scales import Scale, scale_of
from mviq.reports.selection import baseline_of, complete, left_out, restricted, some, wishes
from mviq.reports.statistics import Aligned, RunCurve, align, area_under_curve, comparable
from mviq.reports.statistics.score_checks import check_at_least, check_choice
from mviq.runs.records import ScoreKind, final_score

Which: TypeAlias = Literal["ended", "finished", "all"]
FEW_RUNS = 5  # docs/statistics.md: fewer are for a look, not for a comparison


def area(curves: Floats, steps: Floats) -> Floats:
    """Return the time average of each curve ``(runs, points)``; of one point it is that point."""
    return curves[:, 0] if steps.size == 1 else area_under_curve(curves[:, None], steps)[:, 0]


@dataclass(frozen=True)
class ReportChoices:
    """What a reader can choose; ``check`` says what is wrong before any work starts."""

    metric: str = "eval"
    """The score: ``eval`` or ``train``."""
    last: int | None = None
    """How many points at the end make the final score; None: a tenth of them, at least one."""
    baseline: str | None = None
    """The label that others are compared with; None: what the study says, or DQN, or the first."""
    which: Which = "ended"
    """The runs that count: those that ``finished`` or diverged, which then keep their last score;
    without the diverged ones; or ``all``, also the others, as far as they came."""
    seed: int = 0
    """Of the bootstrap."""
    only: Sequence[str] = ()
    """Labels and environments to report, by name or pattern; none: all."""
    without: Sequence[str] = ()
    """Those to leave out."""

    def check(self) -> None:
        """Refuse values that are none."""
        check_choice("metric", self.metric, list(SCORES))
        check_choice("which", self.which, get_args(Which))
        check_at_least("seed", self.seed, 0)
        if self.last is not None:
            check_at_least("last", self.last, 1)


@dataclass(frozen=True)
class Environment:
    """The learning curves of every label that has some in one environment, on one grid."""

    env: str
    steps: Floats
    curves: Mapping[str, Floats]
    """``(runs, points)`` by label: a row for every planned seed, NaN where its run is missing."""
    seeds: Mapping[str, tuple[int, ...]]
    notes: tuple[str, ...]
    """What was cut to get there."""
    blanks: int
    """How many points were recorded without a finite value."""
    cut_off: tuple[str, ...]
    """The finished runs whose record ends before they did: a damaged file."""
    longest: float
    """The last step of any run; ``steps`` ends where the shortest does."""

    def final(self, label: str, choices: ReportChoices) -> Floats:
        """Return the final score of each run."""
        if choices.last is not None and choices.last > self.steps.size:
            points = f"the {self.steps.size} points of {self.env}"
            raise ValueError(f"last must be at most {points}, got {choices.last}")
        return final_score(self.curves[label], choices.last)


@dataclass(frozen=True)
class Comparison:
    """A study with the choices of the reader, ready for tables and figures."""

    study: StudyData
    choices: ReportChoices
    environments: tuple[Environment, ...]
    """Those in which something was measured."""
    labels: tuple[str, ...]
    """Those that have a score somewhere, in the order of the study."""
    ranked: tuple[str, ...]
    shared: tuple[Environment, ...]
    """The labels and environments that are averaged: each of these labels has a score in each."""
    scale: Scale
    baseline: str | None
    left_out: tuple[str, ...]
    """What is not averaged, and why."""
    notes: tuple[str, ...]
    """What was cut."""

    @property
    def over(self) -> str:
        """What averages are over, as a caption says it."""
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
        return area(env.curves[label], env.steps)

    def stacked(self, label: str, columns: Sequence[Floats]) -> Floats:
        """Return what a label has in each shared environment, ``(seeds, environments, …)``."""
        seeds = [env.seeds[label] for env in self.shared]
        rows = sorted(set().union(*seeds))
        stack = np.full((len(rows), len(columns), *columns[0].shape[1:]), np.nan)
        for j, (own, column) in enumerate(zip(seeds, columns, strict=True)):
            stack[[rows.index(seed) for seed in own], j] = column
        return stack


def compare(study: StudyData, choices: ReportChoices) -> Comparison:
    """Read the scores of a study and put them side by side."""
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
            *wishes(choices.only, choices.without),
            *(note for e in environments for note in e.notes),
        ),
    )


def counts(run: Run, which: Which = "ended") -> bool:
    """Return whether a run is among those that count."""
    ended = ("finished", "diverged") if which == "ended" else ("finished",)
    return which == "all" or run.status in ended


def gather(study: StudyData, metric: str, which: Which) -> tuple[Environment, ...]:
    """Return the learning curves of any metric in every environment that has some."""
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
    grid = np.unique(np.concatenate([r.steps for own in records.values() for r in own]))
    aligned = {label: align(own, grid=grid) for label, own in records.items()}
    alive = {label: a for label, a in aligned.items() if not np.isnan(a.curves[..., -1]).all()}
    if not alive:
        return None
    together = comparable(alive)
    notes = [f"{label}: {note}" for label, own in together.items() for note in own.notes]
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
            if run.status == "finished" and curve.steps.size and curve.end < run.steps
        ),
        longest=float(grid[-1]),
    )


def _planned(aligned: Aligned, seeds: Sequence[int]) -> Floats:
    """Return curves with a row for every planned seed."""
    curves = np.full((len(seeds), aligned.steps.size), np.nan)
    for row, seed in enumerate(seeds):
        if seed in aligned.seeds:
            curves[row] = aligned.curves[aligned.seeds.index(seed), 0]
    return curves


def thinned(environment: Environment, points: int) -> Environment:
    """Return an environment with at most so many points, evenly taken, the last one among them."""
    size = environment.steps.size
    if size <= points:
        return environment
    kept = np.unique(np.linspace(0, size - 1, points).round().astype(int))
    curves = {label: own[:, kept] for label, own in environment.curves.items()}
    return replace(environment, steps=environment.steps[kept], curves=curves)
