"""Figures that compare labels: aggregates, profiles, improvement over the baseline."""

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.panels import SHARES, FigureData, Panel, Series
from mviq.drawing.style import looks
from mviq.env_families import reference_of
from mviq.reports.comparison import FEW_RUNS, Comparison, Environment
from mviq.reports.statistics import (
    Interval,
    Row,
    interval,
    percent_improvement,
    performance_profile,
    referenced_improvement,
)
from mviq.reports.summary_tables import GAP

THRESHOLDS = 101
FLOOR_SHARE = 0.1  # of the range of scores: least denominator of the safe formula


def aggregates(comparison: Comparison, rows: tuple[Row, ...]) -> FigureData | None:
    """Return the rows of the summary as a figure: a panel for each statistic."""
    if not rows:
        return None
    statistics = list(dict.fromkeys(row.statistic for row in rows))
    panels = tuple(
        Panel(
            statistic.capitalize(),
            "below 1: less is better" if statistic == GAP else comparison.scale.unit,
            "",
            tuple(_point(row) for row in rows if row.statistic == statistic),
            "intervals",
        )
        for statistic in statistics
    )
    caption = f"Final scores over {comparison.over}, with 95 % intervals."
    return FigureData("aggregates", "Final scores", caption, panels)


def improvement_chances(comparison: Comparison, rows: tuple[Row, ...]) -> FigureData | None:
    """Return the probabilities of improvement over the baseline as a figure."""
    if not rows:
        return None
    panel = Panel(
        f"Probability of improvement over {_short(comparison)}",
        "probability",
        "",
        tuple(_point(row) for row in rows),
        "intervals",
        reference=0.5,
        limits=SHARES,
    )
    caption = (
        f"The probability that a run is better than a run of {comparison.baseline} in a random "
        "environment. One half means no difference. It says how often, not by how much."
    )
    title = "Probability of improvement"
    return FigureData("improvement-probability", title, caption, (panel,))


def _short(comparison: Comparison) -> str:
    """Return the short name of the baseline for figures."""
    return looks(comparison.study.labels)[comparison.baseline or ""].name


def _point(row: Row) -> Series:
    ends = np.array([row.low]), np.array([row.high])
    return Series(row.algorithm, (row.statistic,), np.array([row.estimate]), *ends)


def profiles(comparison: Comparison) -> FigureData | None:
    """Return the performance profiles: the share of runs above each score."""
    scores = comparison.scaled("final")
    if not scores:
        return None
    known = np.concatenate([own.ravel() for own in scores.values()])
    known = known[~np.isnan(known)]
    low, high = known.min(), known.max()
    margin = 0.02 * (high - low) or 0.5
    thresholds = np.linspace(low - margin, high + margin, THRESHOLDS)
    series = []
    for label, own in scores.items():
        shares = interval(
            lambda drawn: performance_profile(drawn, thresholds),
            own,
            seed=comparison.choices.seed,
            bounds=(0.0, 1.0),
        )
        few = np.count_nonzero(~np.isnan(own)) < FEW_RUNS
        runs = np.empty((0, THRESHOLDS)) if few else None  # no band: each step is a single run
        series.append(Series(label, thresholds, shares.estimate, shares.low, shares.high, runs))
    panel = Panel("", comparison.scale.unit, "share of runs above", tuple(series), limits=SHARES)
    caption = (
        "The share of runs whose final score is above that on the axis, averaged over "
        "environments. A curve that lies above another everywhere is better throughout; a step "
        f"means that runs fail together. Bands: 95 % intervals, from {FEW_RUNS} runs on."
    )
    return FigureData("profiles", "Performance profiles", caption, (panel,))


def improvements_in_percent(comparison: Comparison) -> FigureData | None:
    """Return the improvement over the baseline in every environment, by two formulas."""
    baseline = comparison.baseline
    environments = [e for e in comparison.environments if baseline in e.curves]
    rivals = {label for e in environments for label in e.curves} - {baseline}
    if baseline is None or not rivals:
        return None
    others = [label for label in comparison.labels if label in rivals]
    plain, safe = (
        tuple(_bars(comparison, environments, label, baseline, safely) for label in others)
        for safely in (False, True)
    )
    axes = "", f"% over {_short(comparison)}"
    panels = (
        Panel("Figure 5's formula", *axes, plain, "bars", reference=0.0),
        Panel("Safe formula", *axes, safe, "bars", reference=0.0),
    )
    caption = (
        f"Improvement of the mean final score over {baseline}. The formula of the paper's "
        "Figure 5 is 100 (A − B)/|B|, which says little where the baseline B is near zero. The "
        "denominator of the safe formula cannot vanish: it is max(human, B) − random in Atari "
        f"games, elsewhere max(|B|, {100 * FLOOR_SHARE:g} % of the range of all scores there). "
        "95 % intervals."
    )
    if lost := _without_interval(plain, safe):
        caption += f" By Figure 5's formula no interval in {lost}: the baseline can be zero there."
    return FigureData("improvement", "Percent improvement", caption, panels)


def _without_interval(plain: tuple[Series, ...], safe: tuple[Series, ...]) -> str:
    """Return the environments in which only the safe formula has an interval."""
    lost = [
        env
        for one, other in zip(plain, safe, strict=True)
        for env, low, known in zip(one.x, one.low, other.low, strict=True)
        if np.isnan(low) and not np.isnan(known)
    ]
    return ", ".join(dict.fromkeys(map(str, lost)))


def _bars(
    comparison: Comparison, environments: list[Environment], label: str, baseline: str, safe: bool
) -> Series:
    present = [e for e in environments if label in e.curves]
    percents = [_percent(comparison, e, label, baseline, safe) for e in present]
    y, low, high = np.array([[x.estimate[0], x.low[0], x.high[0]] for x in percents]).T
    return Series(label, tuple(e.env for e in present), y, low, high)


def _percent(
    comparison: Comparison, environment: Environment, label: str, baseline: str, safe: bool
) -> Interval:
    """Return the improvement in one environment with its interval."""
    final = {name: environment.final(name, comparison.choices) for name in environment.curves}
    reference = reference_of(environment.env)
    scores = np.concatenate(list(final.values()))
    scores = scores[~np.isnan(scores)]
    spread = float(np.ptp(scores)) if scores.size else 0.0

    def estimator(new: Floats, old: Floats) -> Floats:
        if not safe:
            return percent_improvement(new, old)
        if reference is None:
            return percent_improvement(new, old, floor=FLOOR_SHARE * spread)
        return referenced_improvement(new, old, reference.random, reference.human)

    new, old = final[label][:, None], final[baseline][:, None]
    return interval(estimator, new, old, seed=comparison.choices.seed, per_task=True)
