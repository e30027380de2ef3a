"""Statistics for few runs: estimates, intervals, normalised scores, alignment.

Scores have shape ``(runs, tasks)``, learning curves ``(runs, tasks, points)``, and NaN marks a
missing run. All are pure functions of arrays; the bootstrap takes a seed.
"""

from mviq.reports.statistics.alignment import Aligned, RunCurve, align, comparable
from mviq.reports.statistics.estimates import (
    along_curve,
    area_under_curve,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    percent_improvement,
    performance_profile,
    probability_of_improvement,
    referenced_improvement,
    task_means,
)
from mviq.reports.statistics.intervals import Interval, curve_interval, interval
from mviq.reports.statistics.scores import ATARI, atari_game, human_normalised, normalised
from mviq.reports.statistics.summary import Row, improvements, summarise

__all__ = [
    "ATARI",
    "Aligned",
    "Interval",
    "Row",
    "RunCurve",
    "align",
    "along_curve",
    "area_under_curve",
    "atari_game",
    "comparable",
    "curve_interval",
    "human_normalised",
    "improvements",
    "interquartile_mean",
    "interval",
    "mean",
    "median",
    "normalised",
    "optimality_gap",
    "percent_improvement",
    "performance_profile",
    "probability_of_improvement",
    "referenced_improvement",
    "summarise",
    "task_means",
]
