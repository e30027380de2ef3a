"""Figures over training steps: learning curves, sample efficiency, and the Tsallis diagnostics."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mviq.arrays import Floats
from mviq.drawing.panels import FigureData, Panel, Series
from mviq.reports.comparison import FEW_RUNS, Comparison, Environment, Which, gather, thinned
from mviq.reports.reading import SCORES
from mviq.reports.statistics import curve_interval, interquartile_mean, mean
from mviq.reports.statistics.estimates import Estimator
from mviq.runs.tables import METRICS

POINTS = 200  # of a curve; more would not be visible
Bounds = tuple[float, float]
RESAMPLES = 1000  # of a band; numbers in tables use five times as many


class Diagnostic(NamedTuple):
    """How a column of progress.csv is shown."""

    title: str
    symbol: str
    least: float = -np.inf
    """The lowest possible value."""
    linear_below: float | None = None


DIAGNOSTICS = {
    "tsallis/entropy": Diagnostic("Tsallis entropy", r"$S_q(\pi)$", least=0.0),
    "tsallis/support_size": Diagnostic("Support size", "actions", least=1.0),
    "tsallis/gap_minus_log": Diagnostic(
        "Gap minus q-logarithm", r"$Q - \langle\pi, Q\rangle - \ln_q\,\pi$"
    ),
    "tsallis/residual": Diagnostic("Residual", "$R_q$", least=0.0, linear_below=1e-3),
    "tsallis/munchausen": Diagnostic("Munchausen term", r"$\alpha\,m$"),
}


def learning_curves(comparison: Comparison) -> FigureData | None:
    """Return the mean score over training steps, with a panel for each environment."""
    if not comparison.environments:
        return None
    title = {"eval": "evaluation return", "train": "training return"}[comparison.choices.metric]
    panels = tuple(
        Panel(
            environment.env,
            "agent steps",
            title,
            _means(
                environment, comparison.choices.seed, comparison.study.returns_of(environment.env)
            ),
        )
        for environment in comparison.environments
    )
    caption = f"The {SCORES[comparison.choices.metric]}: mean over runs. {_spread(panels)}"
    return FigureData("learning-curves", "Learning curves", caption, panels)


def diagnostics(comparison: Comparison) -> list[FigureData]:
    """Return a figure for each environment: diagnostics of the policy and the Munchausen term."""
    panels: dict[str, list[Panel]] = {}
    every = comparison.choices.which == "all"
    which: Which = "all" if every else "finished"  # diverged runs would dominate the axis
    for metric, shown in DIAGNOSTICS.items():
        for environment in gather(comparison.study, metric, which):
            panel = Panel(
                shown.title,
                "agent steps",
                METRICS[metric],
                _means(environment, comparison.choices.seed, (shown.least, np.inf)),
                symbol=shown.symbol,
                linear_below=shown.linear_below,
            )
            panels.setdefault(environment.env, []).append(panel)
    names = file_names("diagnostics", list(panels))
    mean_over = f"Mean over {'all' if every else 'finished'} runs."
    return [
        FigureData(names[env], env, f"{mean_over} {_spread(own)}", tuple(own))
        for env, own in panels.items()
    ]


def file_names(begin: str, envs: list[str]) -> dict[str, str]:
    """Return a unique file name for each environment.

    >>> file_names("curves", ["ALE/Pong-v5", "ALE-Pong-v5"])
    {'ALE/Pong-v5': 'curves-ALE-Pong-v5', 'ALE-Pong-v5': 'curves-ALE-Pong-v5-2'}
    """
    names: dict[str, str] = {}
    for env in envs:
        name = f"{begin}-{re.sub(r'[^A-Za-z0-9.]+', '-', env)}"
        same = sum(other == name for other in names.values())
        names[env] = f"{name}-{same + 1}" if same else name
    return names


def _means(environment: Environment, seed: int, bounds: Bounds) -> tuple[Series, ...]:
    few = thinned(environment, POINTS)
    return tuple(
        _series(label, few.steps, mean, curves[:, None], seed, bounds)
        for label, curves in few.curves.items()
    )


def _series(
    label: str, x: Floats, estimator: Estimator, curves: Floats, seed: int, bounds: Bounds
) -> Series:
    band = curve_interval(estimator, curves, seed=seed, resamples=RESAMPLES, bounds=bounds)
    runs = curves[~np.isnan(curves).all(axis=(1, 2)), 0]
    too_few = curves.shape[1] == 1 and 1 < len(runs) < FEW_RUNS  # for a band
    return Series(label, x, band.estimate, band.low, band.high, runs if too_few else None)


def _spread(panels: Sequence[Panel]) -> str:
    """Return the part of the caption that explains bands and thin lines."""
    every = [series for panel in panels for series in panel.series]
    if all(series.runs is None for series in every):
        known = any(np.isfinite(series.low).any() for series in every)
        return "Bands: 95 % intervals at each point." if known else "One run each: no intervals."
    return f"Thin lines: single runs. From {FEW_RUNS} runs on a band shows their 95 % interval."


def sample_efficiency(comparison: Comparison) -> FigureData | None:
    """Return the interquartile mean over all runs and environments, over training steps."""
    if not comparison.shared:
        return None
    x, curves, axis = _on_one_axis(comparison)
    series = tuple(
        _series(label, x, interquartile_mean, own, comparison.choices.seed, comparison.scale.bounds)
        for label, own in curves.items()
    )
    panel = Panel("", axis, f"interquartile mean, {comparison.scale.unit}", series)
    caption = (
        f"The interquartile mean of all runs in {comparison.over} during training: higher "
        f"on the left means faster. {_spread([panel])}"
    )
    return FigureData("sample-efficiency", "Sample efficiency", caption, (panel,))


def _on_one_axis(comparison: Comparison) -> tuple[Floats, Mapping[str, Floats], str]:
    """Return steps (in percent if the environments' grids differ), curves by label, and x title."""
    first, *others = (environment.steps for environment in comparison.shared)
    shared = [thinned(environment, POINTS) for environment in comparison.shared]
    same = all(np.array_equal(steps, first) for steps in others)
    if same:
        x = shared[0].steps
        places = [np.arange(x.size)] * len(shared)
    else:
        start = max(100 * e.steps[0] / e.steps[-1] for e in shared)
        x = np.linspace(start, 100, POINTS // 2)
        places = [
            np.searchsorted(100 * e.steps / e.steps[-1], x * (1 + 1e-12), side="right") - 1
            for e in shared
        ]
    curves = {}
    for label in comparison.ranked:
        own = [e.curves[label][:, at] for e, at in zip(shared, places, strict=True)]
        points_first = np.moveaxis(comparison.stacked(label, own), -1, 0)
        curves[label] = np.moveaxis(comparison.scale.apply(points_first), 0, -1)
    return x, curves, "agent steps" if same else "% of the training steps"
