"""The sweep of α and τ: which pair is best for MVI(2) on Asterix and on Seaquest.

The paper's point is the best if it is above every other one. The intervals of the differences are
corrected for that many comparisons (Bonferroni).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from mviq.arrays import Floats
from mviq.drawing.figures import heat_map, panel_grid
from mviq.drawing.style import ORANGE, in_style
from mviq.paper.evidence import above, all_hold, difference, in_words, too_few
from mviq.paper.learning import learning
from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import mean, task_means

Point = tuple[float, float]
"""α and τ."""
CHOSEN: Point = (0.9, 10.0)
SETTINGS = (
    "greedy raw return, mean over the last tenth of the evaluations and over seeds; the paper's "
    "choice is framed",
    "the interval is for the comparison with all other points at once",
)


def make(data: StudyData) -> Reproduction:
    """Draw the surface over α and τ in each game, and test which point is the best."""
    results = learning(data)
    labels = labels_of_points(data)
    scores = {point: results.last(label) for point, label in labels.items()}
    means = {point: task_means(own) for point, own in scores.items()}
    rows = [
        (env, *point, float(own[i]))
        for i, env in enumerate(results.envs)
        for point, own in means.items()
    ]
    table = Data(("game", "munchausen_alpha", "temperature", "return"), rows)
    findings = [
        _best(env, {point: own[:, [i]] for point, own in scores.items()})
        for i, env in enumerate(results.envs)
    ]
    figure = draw(results.envs, means)
    averages = {point: task_means(results.area(label)) for point, label in labels.items()}
    settings = (*SETTINGS, *map(_in_words, picked(averages)), *results.notes)
    return Reproduction("sweep", figure, table, settings, findings)


def labels_of_points(data: StudyData) -> dict[Point, str]:
    """Return the label of each point of the sweep."""
    return {
        (float(run.settings["munchausen_alpha"]), float(run.settings["temperature"])): run.label
        for run in data.runs
    }


def picked(averages: Mapping[Point, Floats]) -> list[Point]:
    """Return the point with the highest mean over games, of those with α > 0 and with α = 0.

    The scores are time averages, which vary less than final scores, divided by the highest of any
    point in the same game, since returns of different games are not comparable.

    >>> picked({(0.9, 1.0): np.array([4.0, 9.0]), (0.0, 1.0): np.array([2.0, 10.0])})
    [(0.9, 1.0), (0.0, 1.0)]
    """
    highest = np.nanmax(list(averages.values()), axis=0)
    highest = np.where(highest > 0, highest, 1.0)
    scaled = {point: float((own / highest).mean()) for point, own in averages.items()}
    known = [point for point, score in scaled.items() if not np.isnan(score)]
    among = ([point for point in known if (point[0] > 0) is kind] for kind in (True, False))
    return [max(points, key=lambda point: scaled[point]) for points in among if points]


def _in_words(point: Point) -> str:
    family = "Tsallis-VI" if point[0] == 0 else "MVI(2)"
    return f"highest time average over all games for {family}: α = {point[0]:g}, τ = {point[1]:g}"


@in_style
def draw(envs: Sequence[str], means: Mapping[Point, Floats]) -> Figure:
    """Draw the surface of each game."""
    figure, panels = panel_grid(len(envs), width=4.2, height=3.4)
    for i, (env, axes) in enumerate(zip(envs, panels, strict=True)):
        drawn = _surface(axes, {point: float(own[i]) for point, own in means.items()})
        figure.colorbar(drawn, ax=axes, label="return")
        axes.set_title(env)
    return figure


def _surface(axes: Axes, means: Mapping[Point, float]) -> AxesImage:
    """Draw the surface of one game, with a frame around the paper's choice."""
    alphas, temperatures = (sorted({point[i] for point in means}) for i in (0, 1))
    surface = np.array([[means[a, t] for t in temperatures] for a in alphas])
    drawn = heat_map(axes, surface, [f"{t:g}" for t in temperatures], [f"{a:g}" for a in alphas])
    axes.set(xlabel=r"temperature $\tau$", ylabel=r"$\alpha$")
    corner = temperatures.index(CHOSEN[1]) - 0.5, alphas.index(CHOSEN[0]) - 0.5
    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=ORANGE, linewidth=2.5))
    return drawn


def _best(env: str, scores: dict[Point, Floats]) -> Finding:
    """Test that the paper's choice is above all other points that have a score.

    The point named is the best of those that decide it.
    """
    others = {
        point: float(mean(own))
        for point, own in scores.items()
        if point != CHOSEN and not np.isnan(own).all()
    }
    claim = "α = 0.9, τ = 10 is the best"
    if not others:
        return Finding(claim, env, "no other point has a score", None)
    level = 1 - 0.05 / len(others)
    leads = {point: difference(scores[CHOSEN], scores[point], level) for point in others}
    answers = {
        point: None if too_few(scores[CHOSEN], scores[point]) else above(lead)
        for point, lead in leads.items()
    }
    holds = all_hold(answers.values())
    rival = max((point for point in others if answers[point] is holds), key=others.__getitem__)
    name = "the best other" if others[rival] == max(others.values()) else "another point"
    place = f"{name}, α = {rival[0]:g}, τ = {rival[1]:g}"
    seeds = ", too few seeds to decide" if too_few(scores[CHOSEN], scores[rival]) else ""
    return Finding(claim, env, f"against {place}: {in_words(leads[rival])}{seeds}", holds)
