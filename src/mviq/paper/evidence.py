"""Decides claims about scores: a claim holds or fails by a 95 % interval, not by an estimate."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from mviq.arrays import Floats
from mviq.paper.reproduction import Finding
from mviq.reports.statistics import Interval, interval, mean, probability_of_improvement, task_means


def difference(new: Floats, old: Floats, level: float = 0.95) -> Interval:
    """Return mean(new) − mean(old) with its interval; both have shape ``(seeds, tasks)``."""
    return interval(lambda x, y: mean(x) - mean(y), new, old, level=level)


def more_often(new: Floats, old: Floats) -> Interval:
    """Return the probability that a run of ``new`` scores above one of ``old``, with its interval.

    If there are too few runs to decide anything, the interval is [0, 1]. This is so for three
    seeds of each in one task, but not in two.

    >>> high, low = np.array([[4.0], [5.0], [6.0]]), np.array([[1.0], [2.0], [3.0]])
    >>> in_words(more_often(high, low)), in_words(more_often(high.repeat(2, 1), low.repeat(2, 1)))
    ('1 [0, 1]', '1 [1, 1]')
    """
    chance = interval(probability_of_improvement, *unitless(new, old), bounds=(0.0, 1.0))
    if np.isnan(chance.low) or not too_few(new, old):
        return chance
    return replace(chance, low=0.0, high=1.0)


def too_few(new: Floats, old: Floats) -> bool:
    """Return whether no outcome of these runs has a two-sided permutation p-value of 5 % or less.

    >>> too_few(np.zeros((3, 1)), np.zeros((3, 1))), too_few(np.zeros((4, 1)), np.zeros((4, 1)))
    (True, False)
    """
    runs = [(~np.isnan(scores)).sum(axis=0).tolist() for scores in (new, old)]
    orders = math.prod(math.comb(m + n, m) for m, n in zip(*runs, strict=True))
    return 2 / orders > 0.05


def unitless(new: Floats, old: Floats) -> tuple[Floats, Floats]:
    """Return the scores of each task divided by their standard deviation there.

    Probabilities and percentages do not change, but how much an interval is widened for few runs
    would otherwise depend on the game with the largest scores.
    """
    both = np.concatenate([new, old])
    spread = np.sqrt(task_means((both - task_means(both)) ** 2))
    unit = np.where(spread > 0, spread, 1.0)
    return new / unit, old / unit


def above(number: Interval, level: float = 0.0) -> bool | None:
    """Return whether a number lies above a level, None if its interval does not decide it.

    >>> above(Interval(2.0, 1.0, 3.0)), above(Interval(2.0, -1.0, 5.0)), above(Interval(-2, -3, -1))
    (True, None, False)
    """
    return True if number.low > level else False if number.high < level else None


def within(number: Interval, tolerance: float) -> bool | None:
    """Return whether a number is zero up to a tolerance, None if its interval does not decide it.

    >>> within(Interval(0.0, -0.1, 0.1), 0.2), within(Interval(1.0, 0.5, 1.5), 0.2)
    (True, False)
    """
    if -tolerance <= number.low and number.high <= tolerance:
        return True
    return False if number.low > tolerance or number.high < -tolerance else None


def all_hold(answers: Iterable[bool | None]) -> bool | None:
    """Return whether all of several tests hold; one that fails decides it, an open one does not.

    >>> all_hold([True, True]), all_hold([True, None]), all_hold([True, None, False])
    (True, None, False)
    """
    found = set(answers)
    return False if False in found else None if None in found else True


def in_words(number: Interval) -> str:
    """Return a number with its interval, or say why there is none.

    >>> in_words(Interval(0.25, 0.125, 0.5))
    '0.25 [0.125, 0.5]'
    """
    if np.isnan(number.estimate):
        return "no score"
    if np.isnan(number.low):
        return f"{number.estimate:.3g} (no interval: fewer than two seeds somewhere)"
    return str(number)


def finding_above(
    claim: str, where: str, measured: str, number: Interval, level: float = 0.0
) -> Finding:
    """Return the finding that a number lies above a level; ``{}`` in the text is the number."""
    return Finding(claim, where, measured.format(in_words(number)), above(number, level))
