"""How the runs of a search are judged: as reports judge them, on one scale."""

from collections.abc import Sequence

import numpy as np

from mviq.reports.comparison import final_points
from mviq.reports.scales import scale_of
from mviq.reports.statistics import area_under_curve
from mviq.studies.tuning.curves import Curve, Judge
from mviq.studies.tuning.file import Search


def judge_of(search: Search) -> Judge:
    """Return what gives the score of a run; several environments must be Atari games."""
    envs = [str(env["env"]) for env in search.study.environments]
    scale = scale_of(envs, [np.zeros(1)] * len(envs))
    if len(envs) > 1 and not scale.has_target:
        raise ValueError(
            "a search over several environments needs scores on one scale, which only Atari games "
            f"have: leave one of {', '.join(envs)}, or search them apart"
        )
    raw = _area if search.score == "area" else _final

    def judge(curve: Curve) -> float:
        place = envs.index(curve.env)
        low, high = scale.low[place], scale.high[place]
        return float((raw(curve) - low) / (high - low))

    return judge


def unit_of(search: Search) -> str:
    """Return what a score is called."""
    envs = [str(env["env"]) for env in search.study.environments]
    unit = scale_of(envs, [np.zeros(1)] * len(envs)).unit
    return f"{'final' if search.score == 'final' else 'mean'} {unit}"


def _final(curve: Curve) -> float:
    return _mean(curve.returns[-final_points(len(curve.returns)) :])


def _area(curve: Curve) -> float:
    if len(curve.steps) == 1:
        return curve.returns[0]
    return float(area_under_curve([[curve.returns]], curve.steps).item())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
