"""The mathematics: q-logarithm, q-exponential, Tsallis entropy and divergence, Tsallis policies.

Pure functions of tensors. ``q`` is the entropic index throughout: 1 softmax, 2 sparsemax, ∞ greedy.
"""

from mviq.tsallis.deformed import exp_q, exp_q_physics, log_q, log_q_physics, mirror_index
from mviq.tsallis.exact import expectation
from mviq.tsallis.family import FAMILY, Evaluation, Family, named
from mviq.tsallis.information import divergence, entropy, munchausen_residual
from mviq.tsallis.modules import FenchelYoungLoss, TsallisPolicy, fenchel_young_loss
from mviq.tsallis.policy import (
    normalizer,
    policy,
    policy_and_normalizer,
    soft_maximum,
    soft_value,
    support,
)
from mviq.tsallis.taylor import taylor_policy

__all__ = [
    "FAMILY",
    "Evaluation",
    "Family",
    "FenchelYoungLoss",
    "TsallisPolicy",
    "divergence",
    "entropy",
    "exp_q",
    "exp_q_physics",
    "expectation",
    "fenchel_young_loss",
    "log_q",
    "log_q_physics",
    "mirror_index",
    "munchausen_residual",
    "named",
    "normalizer",
    "policy",
    "policy_and_normalizer",
    "soft_maximum",
    "soft_value",
    "support",
    "taylor_policy",
]
