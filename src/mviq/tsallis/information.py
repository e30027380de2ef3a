"""Tsallis entropy and the Tsallis Kullback-Leibler divergence."""

import math

import torch
from torch import Tensor

from mviq.tsallis.checks import (
    Scalar,
    check_distribution,
    check_positive,
    check_same_actions,
    wide_dtype,
)
from mviq.tsallis.deformed import log_q, log_q_physics, xlog_q


def entropy(policy: Tensor, q: Scalar) -> Tensor:
    """Return S_q(π) = −⟨π, ln_q π⟩ = (1 − Σπ^q)/(q−1), summed over the last axis.

    It lies between 0 (one certain action) and S_q(uniform) = −ln_q(1/n). ``q`` broadcasts over
    the batch. At q = 1 it is Shannon's entropy, at q = ∞ it is 0.

    >>> entropy(torch.tensor([0.5, 0.5]), q=2)
    tensor(0.5000)
    """
    check_distribution("policy", policy)
    return entropy_unchecked(policy, check_positive("q", q, infinity=True))


def entropy_unchecked(policy: Tensor, q: Scalar) -> Tensor:
    """Return S_q(π) without checking that π is a policy."""
    wide = policy.to(wide_dtype(policy))
    return (0.0 - xlog_q(wide, over_actions(q)).sum(-1)).to(policy.dtype)  # and never −0


def divergence(policy: Tensor, prior: Tensor, q: Scalar) -> Tensor:
    """Return D_q(π‖μ) = ⟨π, ln_q(π/μ)⟩ = (Σ π^q μ^(1−q) − 1)/(q−1), summed over the last axis.

    It is ≥ 0, and 0 only where π = μ. Where μ is 0, π must be 0 as well, or D_q is infinite.
    ``q`` broadcasts over the batch. At q = 1 it is the KL divergence, at q = 2 the χ² divergence.

    >>> divergence(torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5]), q=2)
    tensor(1.)
    """
    check_distribution("policy", policy)
    check_distribution("prior", prior)
    check_same_actions("prior", prior, "policy", policy)
    index = over_actions(check_positive("q", q, infinity=True))
    dtype = torch.promote_types(policy.dtype, prior.dtype)
    policy, prior = (x.to(wide_dtype(x)) for x in (policy, prior))
    possible = prior > 0
    weight = torch.where(possible, prior, 1.0)
    # π ln_q x = μ x ln_q x at the ratio x = π/μ: the first form does not overflow where x is large,
    # the second has a derivative at 0. At q = ∞ both are ∞ where x > 1, so D_∞ is 0 only for π = μ.
    ratio = policy / torch.where(policy > 0, weight, weight.detach())  # whose slope is 0 · ∞ at 0
    large = ratio > 1
    above = policy * log_q(torch.where(large, ratio, 1.0), index)
    summand = torch.where(large, above, weight * xlog_q(torch.where(large, 1.0, ratio), index))
    impossible = torch.where(policy > 0, math.inf, 0.0).to(summand.dtype)
    return torch.where(possible, summand, impossible).sum(-1).to(dtype)


def munchausen_residual(policy: Tensor, previous: Tensor, q: Scalar, floor: float = 1e-3) -> Tensor:
    """Return R_q(π, π_k) = ⟨π, (1 − π^(q−1))(π_k^(1−q) − 1)⟩/(q−1): what Munchausen leaves out.

    It is the difference between the implicit regularisation of MVI(q) and an explicit Tsallis KL
    penalty, and 0 at q = 1. ``previous`` is clamped to ``floor``, because R_q grows without bound
    as a previous probability vanishes: only its order in q is meaningful, not its magnitude.

    >>> munchausen_residual(torch.tensor([0.5, 0.5]), torch.tensor([0.5, 0.5]), q=2)
    tensor(0.5000)
    """
    check_distribution("policy", policy)
    check_distribution("previous", previous)
    check_same_actions("previous", previous, "policy", policy)
    q = check_positive("q", q, infinity=False)
    if not 0 < floor <= 1:
        raise ValueError(f"floor must be in (0, 1], got {floor!r}")
    dtype = torch.promote_types(policy.dtype, previous.dtype)
    policy, previous = (x.to(wide_dtype(x)) for x in (policy, previous))
    index = over_actions(q)
    # (1 − π^(q−1)) = −(q−1) ln_q π and (π_k^(1−q) − 1)/(q−1) is the negative physics logarithm.
    floored = log_q_physics(previous.clamp(min=floor), index)
    floored = torch.where(policy > 0, floored, 0.0)  # it may be infinite
    return ((q - 1) * (xlog_q(policy, index) * floored).sum(-1)).to(dtype)


def over_actions(x: Scalar) -> Scalar:
    """Add an action axis to a tensor that broadcasts over the batch."""
    return x.unsqueeze(-1) if isinstance(x, Tensor) else x
