"""The conclusion of a study in a few sentences: which label leads, by how much, how certain."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mviq.arrays import Floats
from mviq.messages import counted
from mviq.reports.comparison import FEW_RUNS, Comparison
from mviq.reports.numbers import UNKNOWN, signed, with_interval
from mviq.reports.selection import some
from mviq.reports.statistics import Interval, interquartile_mean, interval
from mviq.reports.summary_tables import IQM, Summary

SEPARABLE = 4  # with fewer runs, equal labels are separated by chance too often
MANY_LABELS = 5


@dataclass(frozen=True)
class Conclusion:
    """A headline, the evidence for it, and cautions."""

    headline: str
    leader: str | None
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def conclude(comparison: Comparison, summary: Summary) -> Conclusion:
    """Return the conclusion that the numbers support."""
    cautions = _cautions(comparison, summary)
    heights = {row.label: row.numbers.get(IQM, UNKNOWN) for row in summary.rows}
    ranked = [label for label, height in heights.items() if not np.isnan(height.estimate)]
    if not ranked:
        somewhere = "No environment in which all labels have a score"
        return Conclusion(
            somewhere if comparison.environments else "No score yet", None, (), cautions
        )
    leader = ranked[0]
    number = with_interval(heights[leader])
    own = f"Interquartile mean {comparison.scale.unit} of {leader}: {number}."
    if len(ranked) == 1:
        return Conclusion(f"One label: {leader}", leader, (own,), cautions)
    second = ranked[1]
    difference = _difference(comparison, leader, second)
    decided, why = _decided(difference, _fewest(summary, leader, second))
    lead = f"Its lead over {second}, the next, is {with_interval(difference, signed)}; {why}"
    above = heights[leader].estimate > heights.get(str(comparison.baseline), UNKNOWN).estimate
    sentences = (own, lead, *_chance(comparison, summary, leader, above))
    headline = f"{leader} scores highest" if decided else f"{leader} is ahead, but not clearly"
    if difference.estimate == 0:
        headline = f"{leader} and {second} are level"
    return Conclusion(headline, leader, sentences, cautions)


def _difference(comparison: Comparison, leader: str, second: str) -> Interval:
    scores = comparison.scaled("final")

    def estimator(new: Floats, old: Floats) -> Floats:
        return interquartile_mean(new) - interquartile_mean(old)

    seed = comparison.choices.seed
    low, high = comparison.scale.bounds
    between = (low - high, high - low)
    return interval(estimator, scores[leader], scores[second], seed=seed, bounds=between)


def _fewest(summary: Summary, *labels: str) -> int:
    return min((r.fewest_runs for r in summary.aggregates if r.algorithm in labels), default=0)


def _decided(difference: Interval, fewest: int) -> tuple[bool, str]:
    """Return whether the interval of a difference decides which label is better, and why."""
    if np.isnan(difference.low):
        return False, "with one run, the uncertainty is unknown."
    if difference.without_width and fewest < SEPARABLE:
        return False, f"the interval has no width, but {fewest} runs are too few to trust that."
    if difference.low > 0:
        return True, "the interval excludes zero."
    return False, "the interval includes zero: these runs do not decide which is better."


def _chance(comparison: Comparison, summary: Summary, leader: str, above: bool) -> list[str]:
    """Compare the runs of the leader and the baseline; ``above``: the leader's IQM is higher."""
    rows = [row for row in summary.chances if row.algorithm == leader]
    sentences = [
        f"A run of {leader} is better than one of the baseline, {comparison.baseline}, with "
        f"probability {with_interval(row)}."
        for row in rows
    ]
    if above and any(row.estimate < 0.5 for row in rows):
        sentences.append(
            "The two point in different directions: the interquartile mean is higher, yet most "
            "runs are worse, so a few environments or runs make the difference."
        )
    return sentences


def _cautions(comparison: Comparison, summary: Summary) -> tuple[str, ...]:
    cautions = [
        *(*comparison.left_out, *_missing(comparison)),
        *(*_unequal(comparison), *_unmeasured(comparison)),
    ]
    fewest = _fewest(summary, *comparison.ranked)
    if 0 < fewest < FEW_RUNS:
        runs = counted(fewest, "run")
        cautions.append(f"Only {runs} per environment and label: read this as a first look.")
        if any(row.without_width for row in summary.chances):
            cautions.append(
                "A probability whose interval has no width is not certain: so few runs can lie "
                "apart by chance."
            )
    if len(comparison.ranked) > MANY_LABELS:
        cautions.append(
            f"The highest of {len(comparison.ranked)} labels was also the luckiest: repeat it with "
            "new seeds before relying on its score."
        )
    return tuple(cautions)


def _missing(comparison: Comparison) -> list[str]:
    runs, which = comparison.study.runs, comparison.choices.which
    diverged = Counter(run.label for run in runs if run.status == "diverged")
    open_ones = Counter(run.status for run in runs if run.status not in ("finished", "diverged"))
    said = []
    if open_ones:
        used = (
            "They are included as far as they got." if which == "all" else "They are missing here."
        )
        number = f"{open_ones.total()} of {len(runs)} runs have not ended"
        said.append(f"{number}: {_listed(open_ones, '{1} {0}')}. {used}")
    if diverged:
        kept = which != "finished"
        used = "They keep their last score." if kept else "Leaving them out flatters the scores."
        blank = sum(r.status == "diverged" and np.isnan(comparison.score(r, "final")) for r in runs)
        if kept and blank:
            used += f" {blank} of them had none yet, and {'is' if blank == 1 else 'are'} missing."
        number = f"{diverged.total()} of {len(runs)} runs diverged"
        said.append(f"{number}: {_listed(diverged, '{1} of {0}')}. {used}")
    return said


def _listed(numbers: Mapping[Any, int], form: str) -> str:
    return ", ".join(form.format(name, number) for name, number in sorted(numbers.items()))


def _unequal(comparison: Comparison) -> list[str]:
    """Return a caution for each environment in which curves are cut to the shortest run."""
    return [
        f"Runs in {e.env} have different lengths: all are compared at step {e.steps[-1]:,.0f}, "
        f"where the shortest ends, not at {e.longest:,.0f}."
        for e in comparison.environments
        if e.steps[-1] < e.longest
    ]


def _unmeasured(comparison: Comparison) -> list[str]:
    finished = [run for run in comparison.study.runs if run.status == "finished"]
    blank = Counter(r.label for r in finished if np.isnan(comparison.score(r, "final")))
    cut_off = [title for environment in comparison.environments for title in environment.cut_off]
    points = sum(environment.blanks for environment in comparison.environments)
    said = []
    if blank:
        listed = ", ".join(f"{number} of {label}" for label, number in blank.items())
        said.append(f"No score from {counted(blank.total(), 'finished run')}: {listed}.")
    if cut_off:
        runs = counted(len(cut_off), "finished run")
        said.append(
            f"Later scores are missing from {runs}: {some(cut_off)}. The files are damaged."
        )
    if points:
        said.append(f"Not finite, and left out: {counted(points, 'point')} of learning curves.")
    return said
