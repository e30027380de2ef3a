"""The exact Tsallis policy and what follows from it: normaliser, support, soft maximum and value.

For z = values/temperature the policy solves

    π = argmax_p ⟨p, z⟩ + (1/q) S_q(p)      ⇔      π = exp_q(z − ψ_q(z)),   Σπ = 1,

and with a prior μ the explicit Tsallis-KL step

    π = argmax_p ⟨p, z⟩ − (1/q) D_q(p‖μ)    ⇔      π = μ exp_q(z − ψ),      Σπ = 1.

Every function takes values of any leading batch shape with the actions on the last axis; −inf
marks an action that is not available. q and temperature are numbers, or tensors that broadcast
over the batch: ``q=torch.tensor([1.0, 2.0, math.inf]).unsqueeze(-1)`` on values of shape (4, n)
gives all three policies of all four rows, shape (3, 4, n), in one call. All are differentiable in
values, temperature, prior and q, in reverse and forward mode, and work under ``torch.compile``,
``torch.export`` and ``torch.func``.
"""

import torch
from torch import Tensor

from mviq.tsallis.checks import (
    Scalar,
    check_distribution,
    check_last_axis,
    check_positive,
    check_same_actions,
    check_temperature,
    common_shape,
    wide_dtype,
)
from mviq.tsallis.derivative import solution_of_values
from mviq.tsallis.exact import Solved, expectation, is_transformed, solve
from mviq.tsallis.operator import by_operator


def policy(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return the exact Tsallis policy π = argmax_p ⟨p, z⟩ + (1/q) S_q(p) = exp_q(z − ψ).

    z = values/temperature. The entropy has weight 1/q: for weight 1, multiply the temperature by q.
    With a prior μ it is argmax_p ⟨p, z⟩ − (1/q) D_q(p‖μ) = μ exp_q(z − ψ).
    q = 1 is softmax, q = 2 sparsemax, q = ∞ uniform over the maximisers.

    >>> policy(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([0.7500, 0.2500, 0.0000])
    >>> policy(torch.tensor([2.0, 1.9, 0.0, -1.0]), q=3)
    tensor([0.6000, 0.4000, 0.0000, 0.0000])
    """
    return solution(values, q, temperature, prior).policy.to(values.dtype)


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

    Without a prior, for q > 1, action i is supported iff Σ_j ((q−1)(z_j − z_i))_+^(1/(q−1)) < 1.

    >>> support(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor([ True,  True, False])
    """
    with torch.no_grad():
        return solution(values, q, temperature, prior).policy > 0  # before rounding to half


def soft_maximum(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return M_q(values) = ⟨π, values⟩, the mean of the values under their own policy.

    >>> soft_maximum(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor(0.8750)
    """
    chosen = solution(values, q, temperature, prior).policy
    return expectation(chosen, values).to(values.dtype)


def soft_value(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Tensor:
    """Return τ ψ_q(values/τ), which without a prior is ⟨π, values − τ ln_q π⟩.

    >>> soft_value(torch.tensor([1.0, 0.5, -0.2]), q=2)
    tensor(1.2500)
    """
    _, psi, maximum = solution(values, q, temperature, prior)
    return (maximum + temperature * psi).to(values.dtype)


def policy_and_normalizer(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return the policy and its normaliser ψ, computed together.

    >>> policy_and_normalizer(torch.tensor([1.0, 0.5, -0.2]), q=2)
    (tensor([0.7500, 0.2500, 0.0000]), tensor(1.2500))
    """
    result, psi, maximum = solution(values, q, temperature, prior)
    return result.to(values.dtype), (psi + maximum / temperature).to(values.dtype)


def solution(
    values: Tensor, q: Scalar, temperature: Scalar = 1.0, prior: Tensor | None = None
) -> Solved:
    """Return the policy, ψ − max z and the maximum of the values, in float32 or float64."""
    check_last_axis("values", values)
    if prior is not None:
        check_last_axis("prior", prior)
        check_same_actions("prior", prior, "values", values)
    tensors = [x for x in (values, q, temperature, prior) if isinstance(x, Tensor)]
    recorded = torch.is_grad_enabled() and any(x.requires_grad for x in tensors)
    if is_transformed() or (recorded and len(tensors) > 1):
        return by_operator(*_broadcast(values, q, temperature, prior))
    q = check_positive("q", q, infinity=True)
    temperature = check_positive("temperature", temperature, infinity=False)
    check_temperature(temperature, wide_dtype(values))
    if prior is not None:
        check_distribution("prior", prior)
        prior = prior.to(wide_dtype(values))
    arguments = _broadcast(values, q, temperature, prior)
    return solution_of_values(*arguments) if recorded else solve(*arguments)


def _broadcast(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> tuple[Tensor, Scalar, Scalar, Tensor | None]:
    """Widen half precision and give every tensor argument the common batch shape."""
    dtype = wide_dtype(values)
    values = values.to(dtype)
    batches = {"values": values.shape[:-1]}
    if isinstance(q, Tensor):
        batches["q"] = q.shape
    if isinstance(temperature, Tensor):
        batches["temperature"] = temperature.shape
    if prior is not None:
        batches["prior"] = prior.shape[:-1]
    if len(batches) == 1:
        return values, q, temperature, prior
    batch = common_shape(**batches)
    rows = (*batch, values.shape[-1])
    return (
        values.expand(rows),
        q.to(dtype).expand(batch) if isinstance(q, Tensor) else q,
        temperature.to(dtype).expand(batch) if isinstance(temperature, Tensor) else temperature,
        None if prior is None else prior.expand(rows),
    )
