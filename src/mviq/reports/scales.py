"""The scale for averages over environments: raw, human-normalised, or the study's range."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mviq.arrays import Floats
from mviq.env_families import reference_of
from mviq.reports.statistics import normalised


@dataclass(frozen=True)
class Scale:
    """A linear scale for each environment."""

    unit: str
    """The name of a score on this scale."""
    explanation: str
    low: Floats
    high: Floats
    has_target: bool
    """Whether 1 is a published target, which the optimality gap needs."""
    bounds: tuple[float, float]
    """The lower and upper bound of any average of scores on this scale."""

    def apply(self, scores: Floats) -> Floats:
        """Return scores ``(…, runs, environments)`` on the scale."""
        return normalised(scores, self.low, self.high)


def scale_of(
    envs: Sequence[str], finals: Sequence[Floats], returns: Sequence[tuple[float, float]]
) -> Scale:
    """Return the scale for environments, given the final scores and the bounds of the returns.

    >>> pole, any_return = (0.0, 500.0), (-np.inf, np.inf)
    >>> scale_of(["CartPole-v1"], [np.array([20.0, 500.0])], [pole]).unit
    'return'
    >>> both = [np.array([20.0, 500.0]), np.array([-90.0])]
    >>> scale_of(["CartPole-v1", "Acrobot-v1"], both, [pole, any_return]).low
    array([ 20. , -90.5])
    >>> scale_of(["ALE/Pong-v5"], [np.array([3.0])], [any_return]).high
    array([14.6])
    """
    possible = np.array(returns).reshape(-1, 2)

    def scale(unit: str, why: str, low: Floats, high: Floats, target: bool = False) -> Scale:
        ends = (possible.T - low) / (high - low) if envs else np.array([[-np.inf], [np.inf]])
        return Scale(unit, why, low, high, target, (float(ends[0].min()), float(ends[1].max())))

    references = [reference for env in envs if (reference := reference_of(env)) is not None]
    if references and len(references) == len(envs):
        explanation = (
            "Scores are human-normalised: 0 is random play, 1 a human tester "
            "(Mnih et al. 2015, Wang et al. 2016; see docs/statistics.md)."
        )
        low, high = np.array(references).T
        return scale("human-normalised score", explanation, low, high, target=True)
    if len(envs) <= 1:
        ones = np.ones(len(envs))
        return scale("return", "Scores are raw returns.", 0 * ones, ones)
    low, high = np.array([_range(scores) for scores in finals]).T
    explanation = (
        "These environments have no published reference scores. To average over them, scores are "
        "scaled within this study: in each environment 0 is the lowest and 1 the highest final "
        "score of any run, so curves usually begin below 0. Another study has another scale."
    )
    return scale("scaled score", explanation, low, high)


def _range(scores: Floats) -> tuple[float, float]:
    known = scores[~np.isnan(scores)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
    return (low, high) if low < high else (low - 0.5, high + 0.5)
