"""The exact solution, by the fastest of three methods for the arguments.

Arguments are already checked and broadcast: float32 or float64, values and prior of one shape, q
and temperature numbers or tensors of the batch shape. Only NaN, +inf and rows without an available
action are checked here, where the maxima are computed anyway.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch._C import _are_functorch_transforms_active
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from mviq.tsallis import kernels, tensors
from mviq.tsallis.checks import Scalar, check_available, check_maximum, check_same_actions


class Solved(NamedTuple):
    """A policy, its normaliser ψ relative to max z, and the maximum of the values."""

    policy: Tensor
    psi: Tensor
    maximum: Tensor


def is_transformed() -> bool:
    """Return whether torch.compile, torch.func or forward-mode AD is on; none can trace kernels."""
    return is_compiling() or _are_functorch_transforms_active() or forward_ad._current_level >= 0


def solve(values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None) -> Solved:
    """Return the solution for every row; no gradient flows through it."""
    if not isinstance(q, Tensor) and q == 1 and prior is None:
        return softmax(values, temperature)
    if values.device.type == "cpu":
        return solve_by_rows(values, q, temperature, prior)
    return solve_by_tensors(values, q, temperature, prior)


def softmax(values: Tensor, temperature: Scalar) -> Solved:
    """Solve q = 1, where a few vectorised operations are fastest."""
    maximum = values.amax(-1, keepdim=True)
    check_maximum(maximum, values)
    scale = temperature.unsqueeze(-1) if isinstance(temperature, Tensor) else temperature
    weights = (values - maximum).div_(scale).exp_()
    total = weights.sum(-1, keepdim=True)
    return Solved(weights.div_(total), total.log_().squeeze(-1), maximum.squeeze(-1))


def solve_by_rows(values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None) -> Solved:
    """Solve on the CPU with a compiled loop."""
    actions = values.shape[-1]
    policy = torch.empty_like(values, memory_format=torch.contiguous_format)
    psi, maximum = torch.empty((2, *values.shape[:-1]), dtype=values.dtype)
    rows = as_array(policy, actions)
    weights = rows[:, :0] if prior is None else as_array(prior, actions)
    good = kernels.solve_rows(
        *(as_array(values, actions), as_array(q), as_array(temperature), weights),
        *(rows, as_array(psi), as_array(maximum)),
        *(np.empty(actions, dtype=np.int64), np.empty((3, actions))),
    )
    if not good:
        check_available(values, prior)
    return Solved(policy, psi, maximum)


def evaluate(values: Tensor, q: float, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the policy, its mean value and its entropy for every row, on the CPU."""
    policy, psi, maximum = solve(values, q, temperature, None)
    rows = as_array(values, values.shape[-1]), as_array(policy, values.shape[-1])
    kernels.evaluate_rows(*rows, temperature, as_array(psi), as_array(maximum))
    return policy, maximum, psi


def as_array(x: Scalar, columns: int | None = None) -> kernels.Floats:
    """Return x as an array, flat or (−1, columns), that shares memory with a contiguous tensor."""
    if not isinstance(x, Tensor):
        return np.array([float(x)])
    array = (x.detach() if x.requires_grad else x).contiguous().numpy()
    return array.reshape(-1 if columns is None else (-1, columns))


def solve_by_tensors(
    values: Tensor, q: Scalar, temperature: Scalar, prior: Tensor | None
) -> Solved:
    """Solve with tensor operations alone, on any device."""
    rows = values.detach().reshape(-1, values.shape[-1])

    def one_per_row(x: Scalar) -> Tensor:
        number = torch.as_tensor(x, dtype=rows.dtype, device=rows.device)
        return number.expand(values.shape[:-1]).reshape(1, -1)

    weights = None if prior is None else prior.detach().reshape(rows.shape).t()
    problem = tensors.Rows(rows.t(), one_per_row(q), one_per_row(temperature), weights)
    maximum = problem.available().amax(0)
    check_maximum(maximum + rows.amax(-1), values, prior)
    result, psi = tensors.solve(problem)
    batch = values.shape[:-1]
    return Solved(result.t().reshape(values.shape), psi.reshape(batch), maximum.reshape(batch))


def expectation(policy: Tensor, values: Tensor) -> Tensor:
    """Return ⟨π, values⟩ over the last axis, with 0 · −inf = 0 for actions not available.

    >>> expectation(torch.tensor([1.0, 0.0]), torch.tensor([2.0, -math.inf]))
    tensor(2.)
    """
    if policy.shape[-1:] != values.shape[-1:]:
        check_same_actions("policy", policy, "values", values)
    dtype = torch.promote_types(policy.dtype, values.dtype)
    wide = torch.promote_types(dtype, torch.float32)  # half precision is computed in float32
    available = torch.where(values == -math.inf, 0.0, values)
    return (policy.to(wide) * available.to(wide)).sum(-1).to(dtype)
