"""The derivative of the exact policy, by the implicit function theorem.

With ratio ρ = π/μ, slope w = μ ρ^(2−q) on the support and 0 off it, and share w/Σw,

    dψ = Σ share (dz − ∂_q ln_q ρ dq) + Σ ρ dμ/Σw
    dπ = w (dz − ∂_q ln_q ρ dq − dψ) + ρ dμ.

At q = ∞ the policy is piecewise constant and ψ = max z.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function

from mviq.tsallis import kernels
from mviq.tsallis.checks import Scalar
from mviq.tsallis.deformed import exp_q_unchecked, log_q_slope
from mviq.tsallis.exact import Solution, as_array, solve


def differentiable_solution(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> Solution:
    """Return the solution of checked and broadcast arguments as a part of the autograd graph."""
    outputs = _ExactPolicy.apply(values, q, temperature, prior)  # type: ignore[no-untyped-call]
    return Solution(*cast(tuple[Tensor, Tensor, Tensor], outputs))


class _ExactPolicy(Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
    ) -> Solution:
        solution = solve(values, q, temperature, prior)
        ctx.mark_non_differentiable(solution.maximum)
        ctx.set_materialize_grads(False)
        ctx.numbers = q, temperature
        indices = (x if isinstance(x, Tensor) else None for x in ctx.numbers)
        ctx.save_for_backward(values, *indices, prior, *solution)
        return solution

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        values, q, temperature, prior, policy, psi, maximum = ctx.saved_tensors
        grad_policy, grad_psi, _ = grads
        q, temperature = (
            number if tensor is None else tensor.unsqueeze(-1)
            for number, tensor in zip(ctx.numbers, (q, temperature), strict=True)
        )
        needs_values, needs_q, needs_temperature, needs_prior = ctx.needs_input_grad
        if not torch.is_grad_enabled() and policy.device.type == "cpu" and prior is None:
            ratio = policy
            grad_z = _pull_back_by_rows(grad_policy, grad_psi, policy, q)
            grad_prior = None
        else:
            # Written in the outputs, so that autograd can differentiate it again.
            gaps = (values - maximum.unsqueeze(-1)) / temperature
            ratio = policy if prior is None else _ratio(policy, prior, gaps - psi.unsqueeze(-1), q)
            grad_z, grad_prior = pull_back(grad_policy, grad_psi, ratio, prior, q)
        return (
            grad_z / temperature if needs_values else None,
            _grad_q(grad_z, ratio, q) if needs_q else None,
            _grad_temperature(grad_z, values, maximum, temperature) if needs_temperature else None,
            grad_prior if needs_prior else None,
        )


def _pull_back_by_rows(
    grad_policy: Tensor | None, grad_psi: Tensor | None, policy: Tensor, q: Scalar
) -> Tensor:
    rows = policy.reshape(-1, policy.shape[-1])
    grad_z = torch.empty_like(rows)
    none = rows[:0]
    kernels.pull_back_rows(
        (none if grad_policy is None else grad_policy.reshape(rows.shape).contiguous()).numpy(),
        (none if grad_psi is None else grad_psi).flatten().numpy(),
        rows.numpy(),
        as_array(q),
        grad_z.numpy(),
    )
    return grad_z.view(policy.shape)


def pull_back(
    grad_policy: Tensor | None,
    grad_psi: Tensor | None,
    ratio: Tensor,
    prior: Tensor | None,
    q: Scalar,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients with respect to z and to the prior."""
    q, greedy = _without_infinity(q, ratio)
    grad = torch.zeros_like(ratio) if grad_policy is None else grad_policy.masked_fill(greedy, 0.0)
    outer = ratio.new_zeros(()) if grad_psi is None else grad_psi.unsqueeze(-1)
    inside = ratio > 0 if prior is None else (ratio > 0) & (prior > 0)
    base = torch.where(inside, ratio, 1.0)
    weight = inside.to(ratio.dtype) if prior is None else inside * prior
    # One slope may exceed the others by more than the precision. The result does not change with
    # a shift of the gradient or a scale of the shares: put the zero of both at the steepest.
    steepest = torch.where(inside, (2 - q) * base.log(), -math.inf).argmax(-1, keepdim=True)
    grad = grad - grad.gather(-1, steepest).detach()
    relative = weight * (base / base.gather(-1, steepest).detach()).pow(2 - q)
    share = relative / relative.sum(-1, keepdim=True)
    slope = weight * base.pow(2 - q).clamp(max=torch.finfo(base.dtype).max)
    pulled = slope * grad
    grad_z = pulled - share * (pulled.sum(-1, keepdim=True) - outer)
    if prior is None:
        return grad_z, None
    mean = (share * grad).sum(-1, keepdim=True)
    return grad_z, ratio * (grad - mean + outer / slope.sum(-1, keepdim=True))


def _without_infinity(q: Scalar, like: Tensor) -> tuple[Scalar, Tensor]:
    """Return q with 2 for ∞, which gives ψ its derivative, and where the policy has none."""
    greedy = torch.as_tensor(q, device=like.device) == math.inf
    if isinstance(q, Tensor):
        return q.masked_fill(greedy, 2.0), greedy
    return (2.0 if q == math.inf else q), greedy


def _ratio(policy: Tensor, prior: Tensor, log: Tensor, q: Scalar) -> Tensor:
    """Return π/μ, and where both are 0 what it would be for the first grain of prior."""
    possible = prior > 0
    available = log > -math.inf
    limit = exp_q_unchecked(torch.where(available, log, 0.0), q)
    limit = torch.where(available, limit, 0.0)
    return torch.where(possible, policy / torch.where(possible, prior, 1.0), limit)


def _grad_q(grad_z: Tensor, ratio: Tensor, q: Tensor) -> Tensor:
    inside = ratio > 0
    slope = torch.where(inside, log_q_slope(torch.where(inside, ratio, 1.0), q), 0.0)
    return -(grad_z * slope).sum(-1)


def _grad_temperature(
    grad_z: Tensor, values: Tensor, maximum: Tensor, temperature: Tensor
) -> Tensor:
    gaps = (values - maximum.unsqueeze(-1)) / temperature
    available = torch.where(gaps > -math.inf, gaps, 0.0)
    return -(grad_z * available / temperature).sum(-1)
