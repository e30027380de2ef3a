"""The derivative of the exact policy, by the implicit function theorem.

With ratio ρ = π/μ, slope w = μ ρ^(2−q) on the support and 0 off it, and share w/Σw,

    dψ = Σ share (dz − ∂_q ln_q ρ dq) + Σ ρ dμ/Σw
    dπ = w (dz − ∂_q ln_q ρ dq − dψ) + ρ dμ.

At q = ∞ the policy is piecewise constant in z, proportional to μ where z is largest, and ψ = max z.
"""

import math
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from mviq.tsallis import kernels
from mviq.tsallis.checks import Scalar
from mviq.tsallis.deformed import exp_q_unchecked, log_q_slope, refuse_nested_forward_mode
from mviq.tsallis.exact import Solved, as_array, solve


def solution_of_values(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> Solved:
    """Return the solution of checked arguments, recorded in the autograd graph."""
    outputs = _SolutionOfValues.apply(values, q, temperature, prior)  # type: ignore[no-untyped-call]
    return Solved(*cast(tuple[Tensor, Tensor, Tensor], outputs))


class _SolutionOfValues(Function):
    """The fast path of training steps: one q, one temperature, no prior.

    ``forward`` sets up the context itself, which is faster but does not work with ``torch.func``.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, q: float, temperature: float, prior: None) -> Solved:
        solution = solve(values, q, temperature, prior)
        ctx.mark_non_differentiable(solution.maximum)
        ctx.set_materialize_grads(False)
        ctx.numbers = q, temperature
        ctx.save_for_backward(solution.policy)
        return solution

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (policy,), (q, temperature) = ctx.saved_tensors, ctx.numbers
        if policy.device.type == "cpu" and not torch.is_grad_enabled():
            # The kernel writes into its rows: as_array would copy one that is not contiguous.
            grad_values = torch.empty_like(policy, memory_format=torch.contiguous_format)
            actions = policy.shape[-1]
            rows = as_array(policy, actions)
            kernels.pull_back_rows(
                rows[:0] if grads[0] is None else as_array(grads[0], actions),
                rows[:0, 0] if grads[1] is None else as_array(grads[1]),
                rows,
                float(q),
                float(temperature),
                as_array(grad_values, actions),
                np.empty(actions),
            )
        else:  # tensor operations, which autograd can differentiate again
            grad_values = pull_back(grads[0], grads[1], policy, None, q)[0] / temperature
        return grad_values, None, None, None


class SolutionOfAll(Function):
    """The general case; ``backward`` uses the outputs, so autograd can differentiate it again."""

    @staticmethod
    def forward(
        values: Tensor, q: Tensor, temperature: Tensor, prior: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch._C._AutoDispatchBelowAutograd():
            solved: tuple[Tensor, Tensor, Tensor] = torch.ops.mviq.policy(
                values, q, temperature, prior
            )
        return solved

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output[2])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output)
        ctx.save_for_forward(*inputs, *output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        _, q, temperature, prior, *_ = ctx.saved_tensors
        at = _Point.of(*ctx.saved_tensors)
        grad_z, grad_prior = pull_back(grads[0], grads[1], at.ratio, at.prior, at.q)
        grad_scale = grad_z * at.gaps / at.temperature
        return (
            grad_z / at.temperature,
            -(grad_z * at.slope_in_q()).sum(-1).sum_to_size(q.shape)
            if ctx.needs_input_grad[1]
            else None,
            -grad_scale.sum(-1).sum_to_size(temperature.shape) if ctx.needs_input_grad[2] else None,
            grad_prior if grad_prior is None else grad_prior.to(prior.dtype),
        )

    @staticmethod
    def jvp(
        ctx: Any, values: Tensor | None, q: Tensor | None, temperature: Tensor | None, *prior: Any
    ) -> tuple[Tensor, Tensor, None]:
        """Return the Jacobian-vector product; ∂π/∂z is symmetric, so ``pull_back`` computes it."""
        refuse_nested_forward_mode()
        at = _Point.of(*ctx.saved_tensors)
        move = torch.zeros_like(at.ratio) if values is None else values / at.temperature
        if temperature is not None:
            move = move - at.gaps * temperature.to(move).unsqueeze(-1) / at.temperature
        if q is not None:
            move = move - at.slope_in_q() * q.to(move).unsqueeze(-1)
        push = pull_back(move, None, at.ratio, at.prior, at.q)[0]
        share, grain = pull_back(None, torch.ones_like(move[..., 0]), at.ratio, at.prior, at.q)
        push_psi = (share * torch.where(at.ratio > 0, move, 0.0)).sum(-1)
        if grain is not None and prior[0] is not None:
            added = at.ratio * prior[0]
            push = push + added - share * added.sum(-1, keepdim=True)
            push_psi = push_psi + (grain * prior[0]).sum(-1)
        return push, push_psi, None

    @staticmethod
    def vmap(info: Any, in_dims: Any, *inputs: Tensor | None) -> tuple[Any, tuple[int, int, int]]:
        arguments = with_mapped_axis(info.batch_size, in_dims, *inputs)
        return SolutionOfAll.apply(*arguments), (0, 0, 0)  # type: ignore[no-untyped-call]


def with_mapped_axis(size: int, in_dims: Any, *inputs: Tensor | None) -> list[Tensor | None]:
    """Return values, q, temperature and prior with the mapped axis as their first batch axis."""
    values, *others = inputs
    assert values is not None
    dim = in_dims[0]
    values = values.expand(size, *values.shape) if dim is None else values.movedim(dim, 0)
    shapes = values.shape[:-1], values.shape[:-1], values.shape
    moved = (_along(*one) for one in zip(others, in_dims[1:], shapes, strict=True))
    return [values, *moved]


def _along(x: Tensor | None, dim: int | None, shape: torch.Size) -> Tensor | None:
    if x is None or (dim is None and x.dim() == 0):
        return x  # one number for all rows
    if dim is None:
        return x.expand(shape)
    x = x.movedim(dim, 0)
    return x.reshape(-1, *(1,) * (len(shape) - 1)).expand(shape) if x.dim() == 1 else x


class _Point(NamedTuple):
    """The point at which the derivative is taken; q and temperature have an action axis."""

    ratio: Tensor
    gaps: Tensor
    q: Tensor
    temperature: Tensor
    prior: Tensor | None

    @classmethod
    def of(
        cls,
        values: Tensor,
        q: Tensor,
        temperature: Tensor,
        prior: Tensor | None,
        policy: Tensor,
        psi: Tensor,
        maximum: Tensor,
    ) -> "_Point":
        q, temperature = (x.to(values).unsqueeze(-1) for x in (q, temperature))
        available = values > -math.inf
        gaps = torch.where(available, values - maximum.unsqueeze(-1), 0.0) / temperature
        if prior is None:
            return cls(policy, gaps, q, temperature, None)
        prior = prior.to(values)
        log = torch.where(available, gaps - psi.unsqueeze(-1), -math.inf)
        return cls(_ratio(policy, prior, log, q), gaps, q, temperature, prior)

    def slope_in_q(self) -> Tensor:
        """Return ∂_q ln_q ρ on the support and 0 off it."""
        inside = self.ratio > 0
        return torch.where(inside, log_q_slope(torch.where(inside, self.ratio, 1.0), self.q), 0.0)


def pull_back(
    grad_policy: Tensor | None,
    grad_psi: Tensor | None,
    ratio: Tensor,
    prior: Tensor | None,
    q: Scalar,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients with respect to z and to the prior."""
    q, greedy = _without_infinity(q, ratio)
    given = torch.zeros_like(ratio) if grad_policy is None else grad_policy
    outer = ratio.new_zeros(()) if grad_psi is None else grad_psi.unsqueeze(-1)
    inside = ratio > 0 if prior is None else (ratio > 0) & (prior > 0)
    base = torch.where(inside, ratio, 1.0)
    weight = inside.to(ratio.dtype) if prior is None else inside * prior
    # One slope may exceed the others by more than the floating-point precision. Shifting the
    # gradient or scaling the slopes changes nothing: take both relative to the steepest action.
    steepest = torch.where(inside, (2 - q) * base.log(), -math.inf).argmax(-1, keepdim=True)
    given = given - given.gather(-1, steepest).detach()
    grad = given.masked_fill(greedy, 0.0)  # at q = ∞ π does not depend on z, but on the prior
    relative = weight * (base / base.gather(-1, steepest).detach()).pow(2 - q)
    share = relative / relative.sum(-1, keepdim=True)
    slope = weight * base.pow(2 - q).clamp(max=torch.finfo(base.dtype).max)
    supported = torch.where(inside, grad, 0.0)  # off the support a gradient may be infinite
    pulled = slope * supported
    grad_z = pulled - share * (pulled.sum(-1, keepdim=True) - outer)
    if prior is None:
        return grad_z, None
    mean = (share * torch.where(inside, given, 0.0)).sum(-1, keepdim=True)
    of_psi = (outer / slope.sum(-1, keepdim=True)).masked_fill(greedy, 0.0)  # ψ = max z
    return grad_z, ratio * torch.where(ratio > 0, given - mean + of_psi, 0.0)


def _without_infinity(q: Scalar, like: Tensor) -> tuple[Scalar, Tensor]:
    """Return q with ∞ replaced by 2, which gives ψ = max z its derivative, and the mask of ∞."""
    greedy = torch.as_tensor(q, device=like.device) == math.inf
    if isinstance(q, Tensor):
        return q.masked_fill(greedy, 2.0), greedy
    return (2.0 if q == math.inf else q), greedy


def _ratio(policy: Tensor, prior: Tensor, log: Tensor, q: Scalar) -> Tensor:
    """Return π/μ, and where both are 0 its limit exp_q(z − ψ) for a vanishing prior."""
    possible = prior > 0
    available = log > -math.inf
    limit = exp_q_unchecked(torch.where(available, log, 0.0), q)
    limit = torch.where(available, limit, 0.0)
    return torch.where(possible, policy / torch.where(possible, prior, 1.0), limit)
