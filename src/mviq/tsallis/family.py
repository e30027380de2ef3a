"""The MVI(q) family: one update with seven parameters, shared by tabular and deep learning.

    Q_{k+1}(s,a) = r + munchausen_alpha · m(s,a) + γ E[ ⟨π,Q_k⟩(s') + c τ S_q(π(·|s')) ]

with π the Tsallis policy of Q_k at temperature τ. A named algorithm fixes some parameters.
"""

import math
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import NamedTuple, get_args

import torch
from torch import Tensor

from mviq.choices import Form, PolicyMethod
from mviq.tsallis.checks import check_positive, check_temperature
from mviq.tsallis.deformed import log_q, log_q_physics
from mviq.tsallis.exact import evaluate, expectation, is_transformed
from mviq.tsallis.information import entropy_unchecked
from mviq.tsallis.policy import policy, solution
from mviq.tsallis.taylor import taylor_log_policy, taylor_policy

NAIVE_FLOOR = 1e-8  # lower bound of probabilities, so that the naive logarithm is finite


class Evaluation(NamedTuple):
    """A policy with its mean action value ⟨π,Q⟩ and its entropy S_q(π), per state."""

    policy: Tensor
    soft_maximum: Tensor
    entropy: Tensor


@dataclass(frozen=True)
class Family:
    """The parameters of one algorithm of the family.

    >>> import torch
    >>> mvi = Family(q=2.0, temperature=1.0)
    >>> q_values = torch.tensor([1.0, 0.5, -0.2])
    >>> at = mvi.evaluate(q_values)
    >>> mvi.munchausen(q_values, at)  # 0.9 (Q − 0.875)
    tensor([ 0.1125, -0.3375, -0.9675])
    >>> mvi.bootstrap(at)
    tensor(1.2500)
    """

    q: float = 2.0
    """Entropic index ≥ 1: 1 softmax, 2 sparsemax, ∞ greedy."""
    temperature: float = 0.03
    """τ > 0, in units of the action values: larger is softer; Table 1 of the paper."""
    munchausen_alpha: float = 0.9
    """α ≥ 0, the weight of the Munchausen term, below 1 to learn; Tables 1 and 2 of the paper."""
    form: Form = "gap"
    """m: ``gap`` Q − ⟨π,Q⟩; ``log`` τ ln_q π, extended linearly off the support (exact policy:
    Q − τψ); ``truncated_log`` τ ln_q π; ``naive_log`` ablation with the physics ln_q."""
    clip: tuple[float, float] | None = None
    """Bounds of m; M-DQN as published uses (−1, 0), others (−1, 1) or (−1000, 0)."""
    entropy_weight: float = 1.0
    """c: 1 in the paper; 1/q makes the evaluation the conjugate of the greedy step."""
    policy_method: PolicyMethod = "exact"
    """``exact``, or ``taylor`` for the paper's approximation."""

    def __post_init__(self) -> None:
        for name in ("q", "temperature", "munchausen_alpha", "entropy_weight"):
            number = getattr(self, name)
            _check(name, number, _is_number(number), "a number")
            object.__setattr__(self, name, float(number))  # q=2 and q=2.0 are one algorithm
        check_positive("q", self.q, infinity=True)
        check_positive("temperature", self.temperature, infinity=False)
        check_temperature(self.temperature, torch.float64)
        _check("q", self.q, self.q >= 1, "at least 1, as learning needs")
        alpha = self.munchausen_alpha
        _check("munchausen_alpha", alpha, 0 <= alpha < math.inf, "a finite number ≥ 0")
        _check("form", self.form, self.form in get_args(Form), f"one of {get_args(Form)}")
        methods = get_args(PolicyMethod)
        _check(
            "policy_method", self.policy_method, self.policy_method in methods, f"one of {methods}"
        )
        _check("clip", self.clip, self.clip is None or _is_interval(self.clip), _CLIP)
        _check("entropy_weight", self.entropy_weight, 0 <= self.entropy_weight < math.inf, "≥ 0")
        finite_above_one = 1 < self.q < math.inf
        if self.policy_method == "taylor":
            _check("q", self.q, finite_above_one, "finite and > 1 for the Taylor policy")
        if self.form == "naive_log" and alpha > 0:
            _check("q", self.q, self.q < math.inf, "finite for the form naive_log")

    def policy(self, q_values: Tensor) -> Tensor:
        """Return the policy of the action values."""
        method = policy if self.policy_method == "exact" else taylor_policy
        return method(q_values, self.q, self.temperature)

    def evaluate(self, q_values: Tensor) -> Evaluation:
        """Return the policy with its mean action value and its entropy."""
        seen = (q_values.requires_grad and torch.is_grad_enabled()) or is_transformed()
        plain = q_values.device.type == "cpu" and q_values.dtype in (torch.float32, torch.float64)
        if plain and not seen and self.policy_method == "exact":
            return Evaluation(*evaluate(q_values, self.q, self.temperature))
        return self._evaluate_by_tensors(q_values)

    def _evaluate_by_tensors(self, q_values: Tensor) -> Evaluation:
        """Evaluate on any device, differentiably."""
        if self.policy_method == "taylor":
            chosen = self.policy(q_values)
            value, disorder = expectation(chosen, q_values), entropy_unchecked(chosen, self.q)
            return Evaluation(chosen, value, disorder)
        chosen, psi, maximum = solution(q_values, self.q, self.temperature)
        below = expectation(chosen, q_values - maximum.unsqueeze(-1))
        # S_q(π) = ψ − ⟨π, z⟩ for the exact policy, which costs a tenth of Σ π ln_q π.
        parts = chosen, maximum + below, (psi - below / self.temperature).clamp(min=0.0)
        return Evaluation(*(part.to(q_values.dtype) for part in parts))

    def bootstrap(self, at: Evaluation) -> Tensor:
        """Return ⟨π,Q⟩ + c τ S_q(π), the value of the next state."""
        return at.soft_maximum + self.entropy_weight * self.temperature * at.entropy

    def munchausen(self, q_values: Tensor, at: Evaluation) -> Tensor:
        """Return α·m for every action, with m clipped to ``clip`` if it is set."""
        if self.munchausen_alpha == 0:
            return torch.zeros_like(q_values)
        term = self.term(self.form, q_values, at)
        if self.clip is not None:
            term = term.clamp(*self.clip)
        return self.munchausen_alpha * term

    def term(self, form: Form, q_values: Tensor, at: Evaluation) -> Tensor:
        """Return m in one of its forms for every action."""
        gap = q_values - at.soft_maximum.unsqueeze(-1)
        return gap if form == "gap" else self._log_term(form, q_values, gap, at)

    def _log_term(self, form: Form, q_values: Tensor, gap: Tensor, at: Evaluation) -> Tensor:
        if form == "naive_log":
            return self.temperature * log_q_physics(at.policy.clamp(min=NAIVE_FLOOR), self.q)
        if self.policy_method == "taylor" and form == "log":
            return self.temperature * taylor_log_policy(q_values, self.q, self.temperature)
        if self.policy_method == "taylor":
            return self.temperature * log_q(at.policy, self.q)
        log_policy = gap - self.temperature * at.entropy.unsqueeze(-1)  # τψ = ⟨π,Q⟩ + τS_q(π)
        if form == "truncated_log" and self.q > 1:
            return log_policy.clamp(min=-self.temperature / (self.q - 1))  # τ ln_q 0
        return log_policy


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    return not isinstance(value, Integral) or abs(int(value)) < 2**63


_CLIP = "(low, high) with low < high"


def _is_interval(value: object) -> bool:
    if not isinstance(value, tuple | list) or len(value) != 2 or not all(map(_is_number, value)):
        return False
    return bool(value[0] < value[1])


def _check(name: str, value: object, good: bool, allowed: str) -> None:
    if not good:
        raise ValueError(f"{name} must be {allowed}, got {value!r}")


FAMILY = {
    "vi": Family(q=math.inf, munchausen_alpha=0.0),
    "advantage-learning": Family(q=math.inf),
    "soft-vi": Family(q=1.0, munchausen_alpha=0.0),
    "m-vi": Family(q=1.0, form="log", clip=(-1.0, 0.0)),
    "tsallis-vi": Family(munchausen_alpha=0.0),
    "mvi": Family(),
}
"""The named algorithms without a prior: their policy depends on the action values alone."""

FIXED = {
    "vi": {"q", "munchausen_alpha"},
    "advantage-learning": {"q"},
    "soft-vi": {"q", "munchausen_alpha"},
    "m-vi": {"q", "form"},
    "tsallis-vi": {"munchausen_alpha"},
    "mvi": set(),
}
"""The parameters that define each named algorithm; ``named`` refuses to change them."""


def named(name: str, **changes: object) -> Family:
    """Return a named algorithm with some parameters changed, except those its name fixes.

    >>> named("tsallis-vi", q=3.0).munchausen_alpha
    0.0
    """
    if name not in FAMILY:
        raise ValueError(f"algorithm must be one of {', '.join(FAMILY)}, got {name!r}")
    known = {field.name for field in fields(Family)}
    for field, value in changes.items():
        _check(f"a setting of {name}", field, field in known, f"one of {', '.join(sorted(known))}")
        if field in FIXED[name]:
            default = getattr(FAMILY[name], field)
            _check(f"{field} of {name}", value, value == default, repr(default))
    return replace(FAMILY[name], **changes)  # type: ignore[arg-type]
