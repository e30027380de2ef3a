"""The exact Tsallis policy and what follows from it: normaliser, support, soft maximum and value.

For z = values/temperature the policy solves

    π = argmax_p ⟨p, z⟩ + (1/q) S_q(p)      ⇔      π = exp_q(z − ψ_q(z)),   Σπ = 1,

and with a prior μ the explicit Tsallis-KL step

    π = argmax_p ⟨p, z⟩ − (1/q) D_q(p‖μ)    ⇔      π = μ exp_q(z − ψ),      Σπ = 1.

Every function takes values of any leading batch shape with the actions on the last axis; −inf
marks an action that is not available. q and temperature are numbers, or tensors that broadcast
over the batch: ``q=torch.tensor([1.0, 2.0, math.inf]).unsqueeze(-1)`` on values of shape (4, n)
gives all three policies of all four rows, shape (3, 4, n), in one call. All are differentiable in
values, temperature, prior and q.
"""

import math
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from mviq.tsallis import kernels
from mviq.tsallis.checks import (
    Scalar,
    check_distribution,
    check_last_axis,
    check_positive,
    check_row_maximum,
    wide_dtype,
)
from mviq.tsallis.deformed import exp_q_unchecked, log_q_slope
from mviq.tsallis.information import over_actions
from mviq.tsallis.solver import Rows, solve


def policy(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return the exact Tsallis policy π = μ exp_q(z − ψ).

    q = 1 is softmax, q = 2 sparsemax, q = ∞ uniform over the maximisers.

    >>> policy(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([0.7500, 0.2500, 0.0000])
    >>> policy(torch.tensor([2.0, 1.9, 0.0, -1.0]), q=3)
    tensor([0.6000, 0.4000, 0.0000, 0.0000])
    """
    return policy_and_normalizer(values, q, temperature, prior)[0]


def normalizer(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return ψ_q(z), the number that makes Σ μ exp_q(z − ψ) one; logsumexp at q = 1.

    >>> normalizer(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor(1.2500)
    """
    return policy_and_normalizer(values, q, temperature, prior)[1]


def support(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return which actions have a positive probability, as booleans.

    Without a prior and for q > 1, action i is in iff Σ_j ((q−1)(z_j − z_i))_+^(1/(q−1)) < 1.

    >>> support(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([ True,  True, False])
    """
    with torch.no_grad():
        return policy(values, q, temperature, prior) > 0


def soft_maximum(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return M_q(values) = ⟨π, values⟩, the mean of the values under their own policy.

    >>> soft_maximum(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor(0.8750)
    """
    return expectation(policy(values, q, temperature, prior), values)


def soft_value(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return τ ψ_q(values/τ), which without a prior is ⟨π, values − τ ln_q π⟩.

    >>> soft_value(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor(1.2500)
    """
    _, psi, maximum = _solve(values, q, temperature, prior)
    return (maximum + temperature * psi).to(values.dtype)


def policy_and_normalizer(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the policy and its normaliser ψ from one solution.

    >>> policy_and_normalizer(torch.tensor([1.0, 0.5, -0.2]), q=2)
    (tensor([0.7500, 0.2500, 0.0000]), tensor(1.2500))
    """
    result, psi, maximum = _solve(values, q, temperature, prior)
    return result.to(values.dtype), (psi + maximum / temperature).to(values.dtype)


def expectation(policy: Tensor, values: Tensor) -> Tensor:
    """Return ⟨π, values⟩ over the last axis, with 0 · −inf = 0 for actions not available.

    >>> expectation(torch.tensor([1.0, 0.0]), torch.tensor([2.0, -math.inf]))
    tensor(2.)
    """
    return (policy * torch.where(values == -math.inf, 0.0, values)).sum(-1)


def _solve(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Check and broadcast the arguments; return the policy, ψ − max z and max values."""
    check_last_axis("values", values)
    check_positive("q", q, infinity=True)
    check_positive("temperature", temperature, infinity=False)
    values, q, temperature, prior = _broadcast(values, q, temperature, prior)
    maximum = values.detach().amax(-1)
    check_row_maximum("values", maximum)
    if prior is not None:
        maximum = torch.where(prior > 0, values.detach(), -math.inf).amax(-1)
        check_row_maximum("values where the prior is positive", maximum)
    arguments = (values, q, temperature, prior)
    if torch.is_grad_enabled() and any(
        isinstance(x, Tensor) and x.requires_grad for x in arguments
    ):
        result, psi = _ExactPolicy.apply(*arguments, maximum)  # type: ignore[no-untyped-call]
    else:
        result, psi = _solve_rows(*arguments, maximum)
    return cast(Tensor, result), cast(Tensor, psi), maximum


def _broadcast(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> tuple[Tensor, Scalar, Scalar, Tensor | None]:
    """Widen half precision and give every tensor argument the common batch shape."""
    dtype = wide_dtype(values)
    values = values.to(dtype)
    batches = [values.shape[:-1]]
    if isinstance(q, Tensor):
        batches.append(q.shape)
    if isinstance(temperature, Tensor):
        batches.append(temperature.shape)
    if prior is not None:
        check_distribution("prior", prior)
        if prior.shape[-1] != values.shape[-1]:
            raise ValueError(
                f"prior must have the {values.shape[-1]} actions of values, got {prior.shape[-1]}"
            )
        batches.append(prior.shape[:-1])
    if len(batches) == 1:
        return values, q, temperature, prior
    try:
        batch = torch.broadcast_shapes(*batches)  # type: ignore[no-untyped-call]
    except RuntimeError:
        shapes = ", ".join(str(tuple(shape)) for shape in batches)
        raise ValueError(f"the batch shapes must broadcast, got {shapes}") from None
    rows = (*batch, values.shape[-1])
    return (
        values.expand(rows),
        q.to(dtype).expand(batch) if isinstance(q, Tensor) else q,
        temperature.to(dtype).expand(batch) if isinstance(temperature, Tensor) else temperature,
        None if prior is None else prior.to(dtype).expand(rows),
    )


def _solve_rows(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None, maximum: Tensor
) -> tuple[Tensor, Tensor]:
    """Dispatch to the method that is fastest for the arguments."""
    if isinstance(q, int | float) and q == 1 and prior is None:
        return _softmax(values, over_actions(temperature), maximum)
    if values.device.type == "cpu":
        return _solve_on_cpu(values, q, temperature, prior)
    return solve_tensors(values, q, temperature, prior)


def _softmax(values: Tensor, temperature: Scalar, maximum: Tensor) -> tuple[Tensor, Tensor]:
    weights = ((values - maximum.unsqueeze(-1)) / temperature).exp()
    total = weights.sum(-1, keepdim=True)
    return weights / total, total.log().squeeze(-1)


def _solve_on_cpu(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> tuple[Tensor, Tensor]:
    with torch.no_grad():
        rows = values.detach().reshape(-1, values.shape[-1]).contiguous()
        result, psi = torch.empty_like(rows), rows.new_empty(len(rows))
        kernels.solve_rows(
            rows.numpy(),
            _array(q),
            _array(temperature),
            (
                rows.new_empty((len(rows), 0))
                if prior is None
                else prior.detach().reshape(rows.shape)
            )
            .contiguous()
            .numpy(),
            result.numpy(),
            psi.numpy(),
        )
    return result.reshape(values.shape), psi.reshape(values.shape[:-1])


def _array(x: Scalar) -> kernels.Floats:
    """Return one number for all rows, or one for each."""
    return x.detach().flatten().double().numpy() if isinstance(x, Tensor) else np.array([float(x)])


def solve_tensors(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Solve with tensor operations alone, on any device."""
    rows = values.detach().reshape(-1, values.shape[-1])

    def one_per_row(x: Scalar) -> Tensor:
        return torch.as_tensor(x).to(rows).expand(values.shape[:-1]).reshape(1, -1)

    weights = None if prior is None else prior.detach().reshape(rows.shape).t()
    problem = Rows(rows.t(), one_per_row(q), one_per_row(temperature), weights)
    result, psi = solve(problem)
    return result.t().reshape(values.shape), psi.reshape(values.shape[:-1])


class _ExactPolicy(Function):
    """The solution with its derivative by the implicit function theorem.

    With ratio ρ = π/μ, slope w = μ ρ^(2−q) on the support and its share w/Σw,

        dψ = Σ share (dz − ∂_q ln_q ρ dq) + Σ ρ dμ/Σw
        dπ = w (dz − ∂_q ln_q ρ dq − dψ) + ρ dμ.

    ``backward`` is written in the outputs, so autograd differentiates it again.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: Tensor,
        q: Scalar,
        temperature: Scalar,
        prior: Tensor | None,
        maximum: Tensor,
    ) -> tuple[Tensor, Tensor]:
        result, psi = _solve_rows(values, q, temperature, prior, maximum)
        ctx.numbers = [None if isinstance(x, Tensor) else x for x in (q, temperature)]
        tensors = [x if isinstance(x, Tensor) else None for x in (q, temperature)]
        ctx.save_for_backward(values, *tensors, prior, maximum, result, psi)
        ctx.set_materialize_grads(False)
        return result, psi

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        values, *indices, prior, maximum, result, psi = ctx.saved_tensors
        q, temperature = (
            number if number is not None else tensor.unsqueeze(-1)
            for number, tensor in zip(ctx.numbers, indices, strict=True)
        )
        gaps = (values - maximum.unsqueeze(-1)) / temperature
        ratio = result if prior is None else _ratio(result, prior, gaps - psi.unsqueeze(-1), q)
        grad_policy, grad_psi = grads
        grad_z, grad_prior = _pullback(grad_policy, grad_psi, ratio, prior, q)
        _, needs_q, needs_temperature, needs_prior, _ = ctx.needs_input_grad
        return (
            grad_z / temperature,
            _grad_q(grad_z, ratio, q) if needs_q else None,
            _grad_temperature(grad_z, gaps, temperature) if needs_temperature else None,
            grad_prior if needs_prior else None,
            None,
        )


def _ratio(result: Tensor, prior: Tensor, log: Tensor, q: Scalar) -> Tensor:
    """Return π/μ, also where both are 0: there it is what a first grain of prior would get."""
    possible = prior > 0
    limit = exp_q_unchecked(torch.where(log == -math.inf, 0.0, log), q)
    limit = torch.where(log == -math.inf, 0.0, limit)
    return torch.where(possible, result / torch.where(possible, prior, 1.0), limit)


def _pullback(
    grad_policy: Tensor | None,
    grad_psi: Tensor | None,
    ratio: Tensor,
    prior: Tensor | None,
    q: Scalar,
) -> tuple[Tensor, Tensor | None]:
    """Return the gradients with respect to z and to the prior."""
    greedy = torch.as_tensor(q == math.inf)
    index = torch.where(greedy, 2.0, q) if isinstance(q, Tensor) else (2.0 if q == math.inf else q)
    grad = torch.zeros_like(ratio) if grad_policy is None else grad_policy
    grad = torch.where(greedy, 0.0, grad) if bool(greedy.any()) else grad
    outer = ratio.new_zeros(()) if grad_psi is None else grad_psi.unsqueeze(-1)
    inside = ratio > 0 if prior is None else (ratio > 0) & (prior > 0)
    base = torch.where(inside, ratio, 1.0)
    slope = _masked_power(base, inside, 2 - index, prior)
    if isinstance(index, Tensor) or index > 2:
        # One slope may exceed the others by more than the precision. Invariance under a shift of
        # the gradient and a scale of the shares puts the zero of both where the slope is largest.
        steepest = torch.where(inside, (2 - index) * base.log(), -math.inf).argmax(-1, keepdim=True)
        grad = grad - grad.gather(-1, steepest).detach()
        scale = base.gather(-1, steepest).detach()
        relative = _masked_power(base / scale, inside, 2 - index, prior)
        slope = slope.clamp(max=torch.finfo(slope.dtype).max)  # 0 · ∞ = 0 at the steepest
    else:
        relative = slope
    share = relative / relative.sum(-1, keepdim=True)
    weighted = slope * grad
    grad_z = weighted - share * (weighted.sum(-1, keepdim=True) - outer)
    if prior is None:
        return grad_z, None
    mean = (share * grad).sum(-1, keepdim=True)
    return grad_z, ratio * (grad - mean + outer / slope.sum(-1, keepdim=True))


def _masked_power(base: Tensor, mask: Tensor, exponent: Scalar, prior: Tensor | None) -> Tensor:
    power = base.pow(exponent) * mask
    return power if prior is None else power * prior


def _grad_q(grad_z: Tensor, ratio: Tensor, q: Tensor) -> Tensor:
    inside = ratio > 0
    slope = torch.where(inside, log_q_slope(torch.where(inside, ratio, 1.0), q), 0.0)
    return -(grad_z * slope).sum(-1)


def _grad_temperature(grad_z: Tensor, gaps: Tensor, temperature: Tensor) -> Tensor:
    available = torch.where(gaps == -math.inf, 0.0, gaps)
    return -(grad_z * available / temperature).sum(-1)
