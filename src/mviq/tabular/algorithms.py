"""The tabular algorithms: their improvement step, and how to get one by name.

Every algorithm here is ``Q_{k+1} = r + bonus + γ P value``, where policy, value and bonus are
functions of one state's action values (and, for the explicit ones, of its prior). ``Family``
defines them for the implicit algorithms, ``ExplicitKL`` for the explicit ones.
"""

import math
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, TypeAlias, get_args

from torch import Tensor

from mviq.choices import ALGORITHMS, ANY, PriorMotion
from mviq.tsallis import FAMILY, Family, divergence, expectation, named, policy


class Improvement(NamedTuple):
    """What an algorithm computes from the action values of some states."""

    policy: Tensor
    value: Tensor
    bonus: Tensor | None
    """Added to the reward, per action; None means 0."""


@dataclass(frozen=True)
class ExplicitKL:
    """Regularisation by a Tsallis-KL divergence from a stored prior μ, tabular only.

    π = argmax_p ⟨p, Q⟩ − τ D_q(p‖μ),      value = ⟨π, Q⟩ − τ D_q(π‖μ)
    """

    q: float = 2.0
    """Entropic index ≥ 1, finite: 1 is the KL divergence, 2 the χ² divergence."""
    temperature: float = 0.03
    """τ > 0, the weight of the divergence."""
    prior: PriorMotion = "moving"
    """``moving``: μ is the previous policy; ``fixed``: μ is the initial prior."""

    def __post_init__(self) -> None:
        if not 1 <= self.q < math.inf:
            raise ValueError(f"q must be at least 1 and finite, got {self.q!r}")
        if not 0 < self.temperature < math.inf:
            raise ValueError(f"temperature must be a finite number > 0, got {self.temperature!r}")
        if self.prior not in get_args(PriorMotion):
            raise ValueError(f"prior must be one of {get_args(PriorMotion)}, got {self.prior!r}")

    def policy(self, q_values: Tensor, prior: Tensor) -> Tensor:
        """Return the maximiser: ``tsallis.policy`` weights D_q by 1/q, so its temperature is qτ."""
        return policy(q_values, self.q, self.q * self.temperature, prior)

    def value(self, q_values: Tensor, chosen: Tensor, prior: Tensor) -> Tensor:
        """Return the maximum."""
        penalty = self.temperature * divergence(chosen, prior, self.q)
        return expectation(chosen, q_values) - penalty


Algorithm: TypeAlias = Family | ExplicitKL


def policy_of(algorithm: Algorithm, q_values: Tensor, prior: Tensor | None) -> Tensor:
    """Return the policy of some action values; only explicit algorithms use ``prior``."""
    if isinstance(algorithm, ExplicitKL):
        assert prior is not None
        return algorithm.policy(q_values, prior)
    return algorithm.policy(q_values)


def improve(algorithm: Algorithm, q_values: Tensor, prior: Tensor | None) -> Improvement:
    """Return policy, value and bonus for some states, computed by ``mviq.tsallis``."""
    if isinstance(algorithm, ExplicitKL):
        assert prior is not None
        chosen = algorithm.policy(q_values, prior)
        return Improvement(chosen, algorithm.value(q_values, chosen, prior), None)
    at = algorithm.evaluate(q_values)
    bonus = algorithm.munchausen(q_values, at) if algorithm.munchausen_alpha else None
    return Improvement(at.policy, algorithm.bootstrap(at), bonus)


def algorithm(name: str, **changes: object) -> Algorithm:
    """Return a named algorithm with some parameters changed, except those its name fixes.

    >>> algorithm("tkl-vi", q=3.0, prior="fixed")
    ExplicitKL(q=3.0, temperature=0.03, prior='fixed')
    """
    if name not in ALGORITHMS and name != ANY:
        raise ValueError(f"algorithm must be one of {', '.join([*ALGORITHMS, ANY])}, got {name!r}")
    explicit = {"kl-vi": ExplicitKL(q=1.0), "tkl-vi": ExplicitKL()}
    point: Algorithm = explicit.get(name) or FAMILY.get(name, Family())
    known = {field.name for field in fields(point)}
    for setting in changes:
        if setting not in known:
            raise ValueError(f"{name} has no {setting}, it has {', '.join(sorted(known))}")
    if name in FAMILY:
        return named(name, **changes)
    if name == "kl-vi" and changes.get("q", point.q) != point.q:
        raise ValueError(f"q of {name} must be {point.q!r}, got {changes['q']!r}")
    return replace(point, **changes)  # type: ignore[arg-type]
