"""Figures 4 and 7: Atari learning curves of MVI(2) and M-VI, and of all algorithms.

Like the paper's Figure 4, ours shows the games with the largest improvements, and says so: games
selected by their result say nothing about the average. Figure 7 shows all games.
"""

import numpy as np

from mviq.paper.evidence import difference, finding_above, more_often
from mviq.paper.experiments import M_VI
from mviq.paper.learning import Learning, curve_panel, learning, reproduction, standard_error
from mviq.paper.reproduction import Finding, Reproduction
from mviq.reports.reading import StudyData
from mviq.reports.statistics import task_means

OURS = "MVI(2)"
SHOWN = 8
_RIBBON = "mean over seeds of the greedy raw return, ribbon one standard error as in the paper"


def selected(data: StudyData) -> Reproduction:
    """Draw the games with the largest improvements over M-VI, and test the claim there."""
    results = learning(data)
    ours, theirs = task_means(results.last(OURS)), task_means(results.last(M_VI))
    gains = (ours - theirs) / np.maximum(np.abs(theirs), 1e-9)  # in units of the baseline's score
    best_first = [i for i in np.argsort(-gains) if not np.isnan(gains[i])]
    if not best_first:
        raise ValueError(f"no game has scores of both {OURS} and {M_VI}")
    order = [results.envs[i] for i in best_first[:SHOWN]]
    panels = [curve_panel(results, env, (OURS, M_VI), standard_error) for env in order]
    chosen = f"all {len(order)} games with scores of both"
    if len(order) < len(best_first):
        chosen = (
            f"the {len(order)} of {len(best_first)} games with the largest improvement: chosen "
            "by the result, so that these tests are optimistic; fig7 has all games"
        )
    findings = [finding for env in order for finding in _comparison(results, env)]
    return reproduction("fig4", panels, (_RIBBON, chosen, *results.notes), findings)


def every(data: StudyData) -> Reproduction:
    """Draw all games and algorithms, and test the claim on all games together."""
    results = learning(data)
    panels = [curve_panel(results, env, results.curves, standard_error) for env in results.envs]
    findings = [_better(results, baseline) for baseline in results.curves if baseline != OURS]
    return reproduction("fig7", panels, (_RIBBON, *results.notes), findings)


def _comparison(results: Learning, env: str) -> list[Finding]:
    higher = difference(results.last(OURS, env), results.last(M_VI, env))
    faster = difference(results.area(OURS, env), results.area(M_VI, env))
    return [
        finding_above(f"ends higher than {M_VI}", env, "by {}", higher),
        finding_above("learns faster", env, "time average higher by {}", faster),
    ]


def _better(results: Learning, baseline: str) -> Finding:
    ours, theirs = results.last(OURS), results.last(baseline)
    known = ~np.isnan(task_means(ours) - task_means(theirs))
    claim = "MVI(2) is better on the whole"
    counted = f"{known.size}" if known.all() else f"{known.sum()} of {known.size}"
    where = f"{counted} games against {baseline}"
    if not known.any():
        return Finding(claim, where, "no game has scores of both", None)
    chance = more_often(ours[:, known], theirs[:, known])
    measured = f"a run of it beats one of {baseline} with probability {{}}"
    return finding_above(claim, where, measured, chance, level=0.5)
