"""The answer of a study in a few sentences: who is ahead, by how much, and how sure that is."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from mviq.reports.comparison import Comparison
from mviq.reports.numbers import signed, with_interval
from mviq.reports.statistics import interquartile_mean, interval
from mviq.reports.statistics.checks import Array
from mviq.reports.tables import IQM, Number, Summary

FEW_RUNS = 5  # docs/statistics.md: fewer are for a look, not for a comparison
MANY_LABELS = 5


@dataclass(frozen=True)
class Verdict:
    """A headline, what is behind it, and what to be careful about."""

    headline: str
    leader: str | None
    sentences: tuple[str, ...]
    cautions: tuple[str, ...]


def verdict(comparison: Comparison, summary: Summary) -> Verdict:
    """Say what the numbers say, and no more."""
    ranked = [row.label for row in summary.rows if _height(summary, row.label) is not None]
    if not ranked:
        return Verdict(_nothing(comparison), None, (), _cautions(comparison, summary))
    leader = ranked[0]
    own = _own(comparison, summary, leader)
    if len(ranked) == 1:
        return Verdict(f"One label: {leader}", leader, (own,), _cautions(comparison, summary))
    difference = _difference(comparison, leader, ranked[1])
    sentences = (own, _lead(difference, leader, ranked[1]), *_chance(comparison, summary, leader))
    headline = _headline(difference, leader, ranked[1])
    return Verdict(headline, leader, sentences, _cautions(comparison, summary))


def _height(summary: Summary, label: str) -> Number | None:
    (row,) = (row for row in summary.rows if row.label == label)
    number = row.numbers.get(IQM)
    return None if number is None or np.isnan(number.estimate) else number


def _nothing(comparison: Comparison) -> str:
    if not comparison.environments:
        return "No score yet"
    return "No environment in which all labels have a score"


def _own(comparison: Comparison, summary: Summary, label: str) -> str:
    number = _height(summary, label)
    assert number is not None
    unit = comparison.scale.unit
    return f"Interquartile mean {unit} of {label}: {with_interval(number)}."


def _difference(comparison: Comparison, leader: str, second: str) -> Number:
    scores = comparison.scaled("final")

    def estimator(new: Array, old: Array) -> Array:
        return interquartile_mean(new) - interquartile_mean(old)

    found = interval(estimator, scores[leader], scores[second], seed=comparison.choices.seed)
    return Number(float(found.estimate), float(found.low), float(found.high))


def _decided(difference: Number) -> bool | None:
    """Return whether the interval of the difference leaves zero out; None if it is not known."""
    return None if np.isnan(difference.low) else difference.low > 0


def _headline(difference: Number, leader: str, second: str) -> str:
    if difference.estimate == 0:
        return f"{leader} and {second} are level"
    if _decided(difference):
        return f"{leader} scores highest"
    return f"{leader} is ahead, but not clearly"


def _lead(difference: Number, leader: str, second: str) -> str:
    begin = f"That is {with_interval(difference, signed)} against {second}, the next"
    ends = {
        True: "the interval leaves zero out.",
        False: "the interval includes zero: these runs do not decide which is better.",
        None: "with one run there is no telling how sure that is.",
    }
    return f"{begin}; {ends[_decided(difference)]}"


def _chance(comparison: Comparison, summary: Summary, leader: str) -> list[str]:
    found = [row for row in summary.chances if row.algorithm == leader]
    return [
        f"A run of {leader} is better than one of the baseline, {comparison.baseline}, with "
        f"probability {with_interval(Number(row.estimate, row.low, row.high))}."
        for row in found
    ]


def _cautions(comparison: Comparison, summary: Summary) -> tuple[str, ...]:
    found = [*_missing(comparison)]
    fewest = min((row.fewest_runs for row in summary.aggregates), default=0)
    if 0 < fewest < FEW_RUNS:
        runs = "1 run" if fewest == 1 else f"{fewest} runs"
        found.append(
            f"Only {runs} per environment and label: read this as a first look, and a probability "
            "of 0 or 1 as less sure than its interval says."
        )
    if len(comparison.labels) > MANY_LABELS:
        found.append(
            f"The highest of {len(comparison.labels)} labels was also the luckiest: repeat it with "
            "new seeds before relying on its score."
        )
    return tuple(found)


def _missing(comparison: Comparison) -> list[str]:
    runs = comparison.study.runs
    kinds = Counter(run.status for run in runs if run.status != "finished")
    found = []
    if kinds:
        listed = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
        ends = {"all": "They count as far as they came.", "finished": "They are missing here."}
        used = ends[comparison.choices.which]
        found.append(f"{kinds.total()} of {len(runs)} runs are not finished: {listed}. {used}")
    diverged = list(dict.fromkeys(run.label for run in runs if run.status == "diverged"))
    if diverged and comparison.choices.which == "finished":
        found.append(
            f"Runs of {', '.join(diverged)} diverged: scores without them flatter the label."
        )
    return found
