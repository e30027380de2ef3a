"""Results of the runs of a study: curves on one grid and scores, and figures of them."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.figures import draw
from mviq.drawing.panels import FigureData, Panel, Series, rows_of
from mviq.paper.looks import looks_of
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.reports.comparison import Which, counts
from mviq.reports.reading import Run, StudyData
from mviq.reports.statistics import (
    Aligned,
    Interval,
    align,
    area_under_curve,
    curve_interval,
    mean,
    task_means,
)
from mviq.runs.records import final_score


@dataclass(frozen=True)
class Learning:
    """One metric of all runs of a study, ``(seeds, environments, points)`` for each label."""

    metric: str
    envs: tuple[str, ...]
    curves: Mapping[str, Aligned]
    notes: tuple[str, ...]

    def of(self, label: str, env: str) -> Floats:
        """Return the curves ``(seeds, points)`` of a label in an environment."""
        return np.asarray(self.curves[label].curves[:, self.envs.index(env)])

    def first(self, label: str) -> Floats:
        """Return the scores of the first measurement ``(seeds, environments)``."""
        return np.asarray(self.curves[label].curves[..., 0])

    def last(self, label: str, env: str | None = None) -> Floats:
        """Return the final scores ``(seeds, environments)``, as in reports, or those of one."""
        return self._select(final_score(self.curves[label].curves), env)

    def area(self, label: str, env: str | None = None) -> Floats:
        """Return the scores averaged over time, which reward learning early."""
        aligned = self.curves[label]
        return self._select(area_under_curve(aligned.curves, aligned.steps), env)

    def _select(self, scores: Floats, env: str | None) -> Floats:
        return scores if env is None else scores[:, [self.envs.index(env)]]


def learning(data: StudyData, metric: str = "eval", which: Which = "ended") -> Learning:
    """Read a metric of a study; missing and unfinished runs are listed in the notes.

    A label whose runs all diverged before the first measurement is kept, with NaN.
    """
    read = [(run, run.whole_curve(metric)) for run in data.runs if counts(run, which)]
    records = {
        label: [record for run, record in read if run.label == label] for label in data.labels
    }
    known = {
        label: align(own, tasks=data.envs, seeds=data.seeds)
        for label, own in records.items()
        if any(record.steps.size for record in own)
    }
    if not known:
        raise ValueError(f"no run has got far enough to say anything of {metric}")
    other = next(iter(known.values()))
    too_early = ("no run has got far enough to be drawn",)
    unknown = replace(other, curves=np.full_like(other.curves, np.nan), notes=too_early)
    curves = {label: known.get(label, unknown) for label in data.labels}
    notes = [f"{label}: {note}" for label, own in curves.items() for note in own.notes]
    used = [run for run, record in read if record.steps.size]
    return Learning(metric, data.envs, curves, (*_troubles(data, used), *notes))


def _troubles(data: StudyData, used: Collection[Run]) -> list[str]:
    """Return, for each label, how many of its runs did not finish, with one reason."""
    total = Counter(run.label for run in data.runs)
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for run in data.runs:
        if run.status != "finished":
            fate = "keep their last value" if run in used else "are left out"
            groups.setdefault((run.label, run.status, fate), []).append(run)
    return [
        f"{label}: {len(runs)} of {total[label]} runs {status} and {fate}, such as "
        f"{runs[0].env}, seed {runs[0].seed}: {runs[0].reason}"
        for (label, status, fate), runs in groups.items()
    ]


def standard_error(curves: Floats) -> Interval:
    """Return the mean of curves ``(seeds, points)``, one standard error below and above."""
    means = task_means(curves)
    count = (~np.isnan(curves)).sum(axis=0)
    enough = np.where(count > 1, count, np.nan)
    squares = np.nansum((curves - means) ** 2, axis=0)
    error = np.sqrt(squares / (enough - 1) / enough)
    return Interval(means, means - error, means + error)


def confidence(curves: Floats, bounds: tuple[float, float]) -> Interval:
    """Return the mean of curves ``(seeds, points)`` with its 95 % intervals, within bounds."""
    return curve_interval(mean, curves[:, None], bounds=bounds)


def curve_panel(
    results: Learning, env: str, labels: Iterable[str], spread: Callable[[Floats], Interval]
) -> Panel:
    """Return the learning curves of some labels in an environment, with their ribbons."""
    series = []
    for label in labels:
        shown, steps = spread(results.of(label, env)), results.curves[label].steps
        series.append(Series(label, steps, shown.estimate, shown.low, shown.high))
    return Panel(env, "agent steps", "return", tuple(series))


def reproduction(
    name: str, panels: Sequence[Panel], settings: Sequence[str], findings: Sequence[Finding]
) -> Reproduction:
    """Return the reproduction of a figure of curves: drawn panels, and their numbers as a table."""
    data = FigureData(name, "", "", tuple(panels))
    table = Data(("panel", "label", "step", "mean", "low", "high"), rows_of(data))
    return Reproduction(name, draw(data, looks_of(data.labels)), table, settings, findings)
