"""The paper's computable approximation of the Tsallis policy, by a first-order Taylor expansion."""

import math

import torch
from torch import Tensor

from mviq.tsallis.checks import (
    Scalar,
    check_available,
    check_last_axis,
    check_positive,
    check_temperature,
    require,
    wide_dtype,
)
from mviq.tsallis.information import over_actions


def taylor_policy(values: Tensor, q: Scalar, temperature: Scalar = 1.0) -> Tensor:
    """Return the approximate policy π̂ ∝ exp_q(z − ψ̂) of the paper's Algorithm 1, q > 1.

    With z = values/temperature sorted in descending order, the support has the size

        K = max{ i : 1 + i z_(i) > Σ_{j≤i} z_(j) + i (1 − 1/(q−1)) },

    and ψ̂ = (Σ_{j≤K} z_(j) − 1)/K + 1. It is exact at q = 2 only; for q ≥ 3, K = 1, and the
    only actions left are those close to the best. ``policy`` is exact at every q.

    >>> taylor_policy(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([0.7500, 0.2500, 0.0000])
    """
    z, psi, index, available = _parts(values, q, temperature)
    return _logarithm(z, psi, index, available).softmax(-1).to(values.dtype)


def taylor_log_policy(values: Tensor, q: Scalar, temperature: Scalar = 1.0) -> Tensor:
    """Return ln_q π̂ on the support of the Taylor policy, and its extension off the support.

    With Z = Σ exp_q(z − ψ̂), which is 1 for the exact policy and for q = 2 only,

        ln_q π̂ = Z^(1−q) (z − ψ̂) + (Z^(1−q) − 1)/(q−1)

    on the support. The right-hand side is linear in z and is taken for every action, as z − ψ is
    for the exact policy.

    >>> taylor_log_policy(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([-0.2500, -0.7500, -1.4500])
    """
    z, psi, index, available = _parts(values, q, temperature)
    shrink = (1 - index) * _logarithm(z, psi, index, available).logsumexp(-1, keepdim=True)
    extended = shrink.exp() * (z - psi) + shrink.expm1() / (index - 1)
    return torch.where(available, extended, -math.inf).to(values.dtype)


def _parts(values: Tensor, q: Scalar, temperature: Scalar) -> tuple[Tensor, Tensor, Scalar, Tensor]:
    """Return z − max z, ψ̂ relative to max z, q and which actions are available."""
    check_last_axis("values", values)
    q = check_positive("q", q, infinity=False)
    given = torch.as_tensor(q)
    require(given > 1, given, "q must be > 1 for the Taylor policy")
    temperature = check_positive("temperature", temperature, infinity=False)
    check_temperature(temperature, wide_dtype(values))
    wide = values.to(wide_dtype(values))
    maximum = wide.detach().amax(-1, keepdim=True)
    check_available(values)
    index = over_actions(q)
    available = wide > -math.inf
    z = torch.where(available, wide - maximum, 0.0) / over_actions(temperature)
    return z, _taylor_normalizer(torch.where(available, z, -math.inf), index), index, available


def _logarithm(z: Tensor, psi: Tensor, index: Scalar, available: Tensor) -> Tensor:
    """Return ln exp_q(z − ψ̂): ∝ exp_q is the softmax of its logarithm, which does not overflow."""
    t = (index - 1) * (z - psi)
    inside = available & (t > -1)
    log = torch.where(inside, t, 0.0).log1p() / (index - 1)
    return torch.where(inside, log, -math.inf)


def _taylor_normalizer(z: Tensor, q: Scalar) -> Tensor:
    """Return ψ̂ for z with maximum 0, keeping the action axis."""
    ordered = z.sort(-1, descending=True).values
    ranks = torch.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    sums = ordered.cumsum(-1)
    inside = 1 + ranks * ordered > sums + ranks * (1 - 1 / (q - 1))
    size = torch.where(inside, ranks, 0.0).amax(-1, keepdim=True)
    total = sums.expand_as(inside).gather(-1, size.long() - 1)
    return (total - 1) / size + 1
