"""The sweep of α and τ: which pair is best for MVI(2) on Asterix and on Seaquest."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from mviq.paper.drawing import Data, Drawing, Finding
from mviq.paper.learning import Learning, difference, learning, spoken
from mviq.paper.panels import grid_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics import task_means
from mviq.reports.statistics.checks import Array
from mviq.reports.style import STYLE, settle

Point = tuple[float, float]
"""α and τ."""
CHOSEN: Point = (0.9, 10.0)
SETTINGS = ("greedy raw return, mean over the last tenth of the evaluations and over seeds",)


def make(data: StudyData) -> Drawing:
    """Draw the surface over α and τ in each game, and test which point is the best."""
    found = learning(data)
    points = _points(data)
    alphas, temperatures = (sorted({point[i] for point in points}) for i in (0, 1))
    scores = {point: task_means(found.last(label)) for point, label in points.items()}
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of(found.envs, width=4.2, height=3.4)
        for i, axes in enumerate(panels.values()):
            surface = np.array([[scores[a, t][i] for t in temperatures] for a in alphas])
            _draw(axes, surface, alphas, temperatures)
        settle(figure)
    rows = [
        (env, *point, float(scores[point][i]))
        for i, env in enumerate(found.envs)
        for point in points
    ]
    table = Data(("game", "munchausen_alpha", "temperature", "return"), rows)
    findings = [_best(found, env, points) for env in found.envs]
    return Drawing("sweep", figure, table, (*SETTINGS, *found.notes), findings)


def _points(data: StudyData) -> dict[Point, str]:
    return {
        (float(run.settings["munchausen_alpha"]), float(run.settings["temperature"])): run.label
        for run in data.runs
    }


def _draw(axes: Axes, surface: Array, alphas: list[float], temperatures: list[float]) -> None:
    axes.imshow(surface, origin="lower", aspect="auto", cmap="viridis")
    axes.grid(False)
    axes.set_xticks(range(len(temperatures)), [f"{t:g}" for t in temperatures])
    axes.set_yticks(range(len(alphas)), [f"{a:g}" for a in alphas])
    axes.set(xlabel=r"temperature $\tau$", ylabel=r"$\alpha$")
    middle = (np.nanmin(surface) + np.nanmax(surface)) / 2
    for (row, column), value in np.ndenumerate(surface):
        colour = "black" if value > middle else "white"
        axes.text(column, row, f"{value:.3g}", ha="center", va="center", color=colour, fontsize=8)


def _best(found: Learning, env: str, points: dict[Point, str]) -> Finding:
    """Test that no other point is better than the paper's choice."""
    place = [found.envs.index(env)]
    scores = {point: found.last(label)[:, place] for point, label in points.items()}
    best = max(scores, key=lambda point: float(np.nanmean(scores[point])))
    better = difference(scores[best], scores[CHOSEN])
    measured = f"best at α = {best[0]:g}, τ = {best[1]:g}, better by {spoken(better)}"
    refuted = better.low > 0
    known = not np.isnan(better.low)
    holds = (True if best == CHOSEN else False if refuted else None) if known else None
    return Finding("α = 0.9, τ = 10 is the best", env, measured, holds)
