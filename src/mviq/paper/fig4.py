"""Figures 4 and 7: learning curves of MVI(2) against M-VI, and Tsallis-VI, on Atari.

Figure 4 of the paper shows the games with the largest improvements. So does this one, and says so:
games chosen for their result say nothing on the average, which Figure 7 shows with all games.
"""

import matplotlib
import numpy as np

from mviq.paper.drawing import Drawing, Finding
from mviq.paper.experiments import M_VI, TSALLIS_VI
from mviq.paper.learning import (
    Learning,
    Line,
    above,
    data_of,
    difference,
    learning,
    more_often,
    spoken,
    standard_error,
)
from mviq.paper.panels import draw_lines, grid_of
from mviq.reports.reading import StudyData
from mviq.reports.statistics import task_means
from mviq.reports.style import STYLE, settle

OURS = "MVI(2)"
SHOWN = 8
_RIBBON = "mean over seeds of the greedy raw return, ribbon one standard error as in the paper"


def selected(data: StudyData) -> Drawing:
    """Draw the games with the largest improvements over M-VI, and test the claim there."""
    found = learning(data)
    gains = task_means(found.last(OURS)) - task_means(found.last(M_VI))
    best_first = [i for i in np.argsort(-gains / _scale(found)) if not np.isnan(gains[i])]
    if not best_first:
        raise ValueError(f"no game has scores of both {OURS} and {M_VI}")
    order = [found.envs[i] for i in best_first[:SHOWN]]
    lines = [line for env in order for line in _lines(found, env, (OURS, M_VI))]
    chosen = (
        f"the {len(order)} of {len(found.envs)} games with the largest improvement: chosen by the "
        "result, so that these tests are optimistic; fig7 has all games"
    )
    findings = [finding for env in order for finding in _comparison(found, env)]
    return _drawing("fig4", found, lines, (_RIBBON, chosen), findings)


def every(data: StudyData) -> Drawing:
    """Draw all games and all three algorithms, and test the claim on all of them together."""
    found = learning(data)
    labels = (OURS, M_VI, TSALLIS_VI)
    lines = [line for env in found.envs for line in _lines(found, env, labels)]
    findings = [_better(found, baseline) for baseline in (M_VI, TSALLIS_VI)]
    return _drawing("fig7", found, lines, (_RIBBON,), findings)


def _drawing(
    name: str,
    found: Learning,
    lines: list[Line],
    settings: tuple[str, ...],
    findings: list[Finding],
) -> Drawing:
    with matplotlib.rc_context(STYLE):
        figure, panels = grid_of(list(dict.fromkeys(line[0] for line in lines)))
        draw_lines(panels, lines, "return")
        settle(figure)
    return Drawing(name, figure, data_of(lines), (*settings, *found.notes), findings)


def _lines(found: Learning, env: str, labels: tuple[str, ...]) -> list[Line]:
    return [(env, one, found.steps(one), standard_error(found.of(one, env))) for one in labels]


def _scale(found: Learning) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return what a difference in a game is measured by: the size of the baseline's score."""
    return np.maximum(np.abs(task_means(found.last(M_VI))), 1e-9)


def _comparison(found: Learning, env: str) -> list[Finding]:
    place = [found.envs.index(env)]
    higher = difference(found.last(OURS)[:, place], found.last(M_VI)[:, place])
    faster = difference(found.area(OURS)[:, place], found.area(M_VI)[:, place])
    return [
        Finding(f"ends higher than {M_VI}", env, f"by {spoken(higher)}", above(higher)),
        Finding("learns faster", env, f"time average higher by {spoken(faster)}", above(faster)),
    ]


def _better(found: Learning, baseline: str) -> Finding:
    ours, theirs = found.last(OURS), found.last(baseline)
    known = ~np.isnan(task_means(ours) - task_means(theirs))
    claim, where = (
        "MVI(2) is better on the whole",
        f"{known.sum()} of {known.size} games against {baseline}",
    )
    if not known.any():
        return Finding(claim, where, "no game has scores of both", None)
    chance = more_often(ours[:, known], theirs[:, known])
    measured = f"a run of it beats one of {baseline} with probability {spoken(chance)}"
    return Finding(claim, where, measured, above(chance, 0.5))
