"""Diagnostics of the policy for the logger, and the exception for divergence."""

import math

from torch import Tensor

from mviq.choices import Form
from mviq.tsallis import Family, munchausen_residual

_GAP_AND_LOG: tuple[Form, Form] = ("gap", "truncated_log")


class DivergenceError(ValueError):
    """Learning has diverged: a number is NaN or infinite, or a value exceeds ``value_limit``.

    It is a ``ValueError``, which tuning scripts such as rl-baselines3-zoo's catch to end a trial.
    """


def policy_diagnostics(family: Family, q_values: Tensor, actions: Tensor) -> dict[str, float]:
    """Return statistics of the policy of ``q_values``, as means over a batch of states and actions.

    ``gap_minus_log`` is Q − ⟨π,Q⟩ − ln_q π, the left part of the paper's Figure 3.
    """
    at = family.evaluate(q_values)
    gap, log_policy = (family.term(form, q_values, at) for form in _GAP_AND_LOG)
    difference = gap - log_policy / family.temperature
    return {
        "tsallis/entropy": at.entropy.mean().item(),
        "tsallis/support_size": (at.policy > 0).sum(-1).float().mean().item(),
        "tsallis/munchausen": family.munchausen(q_values, at).gather(1, actions).mean().item(),
        "tsallis/gap_minus_log": difference.gather(1, actions).mean().item(),
    }


def target_residual(family: Family, before: Tensor, after: Tensor) -> dict[str, float]:
    """Return the residual R_q of the policies after and before an update of the target network.

    It is not defined at q = ∞, where the result is empty.
    """
    if family.q == math.inf:
        return {}
    residual = munchausen_residual(family.policy(after), family.policy(before), family.q)
    return {"tsallis/residual": residual.mean().item()}
