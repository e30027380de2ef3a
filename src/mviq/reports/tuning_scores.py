"""Scores of the runs of a search, computed and scaled as in reports."""

import numpy as np

from mviq.reports.scales import Scale, scale_of
from mviq.reports.statistics import area_under_curve
from mviq.runs.records import final_score
from mviq.studies.tuning.search_file import Search
from mviq.studies.tuning.trial_scores import EvaluationCurve, Judge


def judge_of(search: Search) -> Judge:
    """Return the function that scores a run; several environments must all be Atari games."""
    envs, scale = _scale(search)
    if len(envs) > 1 and not scale.has_target:
        raise ValueError(
            "a search over several environments needs scores on one scale, which only Atari games "
            f"have: leave one of {', '.join(envs)}, or search them apart"
        )

    def judge(curve: EvaluationCurve) -> float:
        steps, curves = np.array(curve.steps), np.array([curve.returns])
        average = search.score == "area"
        raw = area_under_curve([curves], steps) if average else final_score(curves)
        place = envs.index(curve.env)
        low, high = scale.low[place], scale.high[place]
        return float((raw.item() - low) / (high - low))

    return judge


def unit_of(search: Search) -> str:
    """Return the name of the score."""
    _, scale = _scale(search)
    return f"{'final' if search.score == 'final' else 'mean'} {scale.unit}"


def _scale(search: Search) -> tuple[list[str], Scale]:
    """Return the environments of a search and their scale."""
    envs = [str(env["env"]) for env in search.study.environments]
    return envs, scale_of(envs, [np.zeros(1)] * len(envs), [(-np.inf, np.inf)] * len(envs))
