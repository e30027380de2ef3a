"""What a learning agent says about its policies, and how it says that it has failed."""

import math

from torch import Tensor

from mviq.choices import Form
from mviq.tsallis import Family, munchausen_residual

_GAP_AND_LOG: tuple[Form, Form] = ("gap", "truncated_log")


class DivergenceError(ValueError):
    """Learning has left the numbers: a value is not finite, or larger than any value should be.

    It is a ``ValueError`` since Optuna and the like count those as failed trials.
    """


def policy_diagnostics(family: Family, q_values: Tensor, actions: Tensor) -> dict[str, float]:
    """Return means over replayed states (and actions) of what the policy of ``q_values`` is like.

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
    """Return R_q of the policies after and before a change of the target network's action values.

    At q = ∞ it is not defined, and nothing is returned.
    """
    if family.q == math.inf:
        return {}
    residual = munchausen_residual(family.policy(after), family.policy(before), family.q)
    return {"tsallis/residual": residual.mean().item()}
