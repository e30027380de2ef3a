"""Losses with their gradients: Huber's, and the quantile Huber loss in O(N log N), both exact.

For predictions θ_i of the quantiles at fractions t_i, usually (i + ½)/N, and targets y_j, κ = 1,

    loss = mean over the batch of Σ_i mean_j |t_i − 1(y_j < θ_i)| H(y_j − θ_i),

which sb3-contrib evaluates pair by pair in O(N²). A summand is, as a function of y_j, one of four
pieces: linear or quadratic, above or below θ_i. With the targets sorted every piece is an
interval, and count, sum and sum of squares of an interval are differences of prefix sums.
"""

from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from mviq.agents import kernels


def quantile_huber_loss(
    predicted: Tensor, target: Tensor, fractions: Tensor | None = None
) -> Tensor:
    """Return the loss of predicted quantiles (batch, N) against target samples (batch, M).

    ``fractions`` (1 or batch, N) are t, None for the midpoints (i + ½)/N. The gradient flows into
    ``predicted`` only: a target is a constant.

    >>> predicted = torch.zeros(1, 2, requires_grad=True)
    >>> quantile_huber_loss(predicted, torch.tensor([[0.5, 3.0]]))
    tensor(1.3125, grad_fn=<_QuantileHuberBackward>)
    """
    if predicted.dim() != 2 or target.dim() != 2 or len(predicted) != len(target):
        raise ValueError(
            "predicted and target must have shape (batch, quantiles) with the same batch, "
            f"got {tuple(predicted.shape)} and {tuple(target.shape)}"
        )
    if fractions is not None and fractions.shape not in ((1, predicted.shape[1]), predicted.shape):
        raise ValueError(
            f"fractions must have the shape of predicted, {tuple(predicted.shape)}, or one row of "
            f"it, got {tuple(fractions.shape)}"
        )
    return cast(Tensor, _QuantileHuber.apply(predicted, target, fractions))  # type: ignore[no-untyped-call]


def huber(predicted: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean Huber loss, κ = 1, and its gradient with respect to ``predicted``."""
    value = torch.nn.functional.smooth_l1_loss(predicted, target)
    return value, (predicted - target).clamp_(-1, 1).div_(target.numel())


def quantile_huber(
    predicted: Tensor, target: Tensor, fractions: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return ``quantile_huber_loss`` and its gradient with respect to ``predicted``."""
    simple = predicted.dtype == target.dtype == torch.float32 and predicted.device.type == "cpu"
    count = predicted.shape[1]
    if fractions is None:
        fractions = (torch.arange(count, device=predicted.device)[None] + 0.5).double() / count
    return (_on_cpu if simple else on_any_device)(predicted, target, fractions.double())


class _QuantileHuber(Function):
    @staticmethod
    def forward(ctx: Any, predicted: Tensor, target: Tensor, fractions: Tensor | None) -> Tensor:
        value, gradient = quantile_huber(predicted, target, fractions)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return grads[0] * gradient, None, None


def _on_cpu(predicted: Tensor, target: Tensor, fractions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient, computed by a compiled kernel."""
    gradient = torch.empty_like(predicted, memory_format=torch.contiguous_format)
    theta, y = (np.ascontiguousarray(x.detach().numpy()) for x in (predicted, target))
    value = kernels.quantile_huber(theta, y, fractions.contiguous().numpy(), gradient.numpy())
    return predicted.new_tensor(value), gradient


def on_any_device(predicted: Tensor, target: Tensor, fractions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient by tensor operations; ``kernels`` are tested against it."""
    theta, y = predicted.detach().double(), target.detach().double().sort(-1).values
    centre = y.mean(-1, keepdim=True)  # keeps the squares, and their cancellation, small
    theta, y = theta - centre, y - centre
    count, total, squares = (_prefix_sums(x) for x in (torch.ones_like(y), y, y.square()))
    cuts = [torch.searchsorted(y, theta - 1), torch.searchsorted(y, theta)]
    cuts += [torch.searchsorted(y, theta + 1, right=True)]
    edges = [torch.zeros_like(cuts[0]), *cuts, torch.full_like(cuts[0], y.shape[-1])]
    n, s1, s2 = (
        [p.gather(-1, b) - p.gather(-1, a) for a, b in pairwise(edges)]
        for p in (count, total, squares)
    )
    below = n[0] * (theta - 0.5) - s1[0] + 0.5 * (s2[1] - 2 * theta * s1[1] + theta**2 * n[1])
    above = s1[3] - n[3] * (theta + 0.5) + 0.5 * (s2[2] - 2 * theta * s1[2] + theta**2 * n[2])
    below_slope = n[0] + theta * n[1] - s1[1]
    above_slope = -n[3] + theta * n[2] - s1[2]
    pairs = y.numel()
    value = (((1 - fractions) * below + fractions * above) / pairs).sum()
    gradient = ((1 - fractions) * below_slope + fractions * above_slope) / pairs
    return value.to(predicted.dtype), gradient.to(predicted.dtype)


def _prefix_sums(x: Tensor) -> Tensor:
    return torch.nn.functional.pad(x.cumsum(-1), (1, 0))
