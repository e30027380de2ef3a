"""The policy as a layer, and the loss that trains it: sparse attention and sparse classifiers."""

import math
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.compiler import is_compiling

from mviq.tsallis.checks import (
    Scalar,
    check_distribution,
    check_floating,
    check_last_axis,
    check_positive,
    require,
    wide_dtype,
)
from mviq.tsallis.deformed import potential, refuse_nested_forward_mode
from mviq.tsallis.information import entropy_unchecked, over_actions
from mviq.tsallis.policy import policy, solution

Reduction = Literal["none", "mean", "sum"]


class TsallisPolicy(nn.Module):
    """The Tsallis policy along one axis, a replacement for ``nn.Softmax``.

    With ``learnable`` the logarithms of q and of the temperature are parameters.

    >>> TsallisPolicy(q=2.0)(torch.tensor([1.0, 0.5, -0.2]))
    tensor([0.7500, 0.2500, 0.0000])
    """

    def __init__(
        self, dim: int = -1, q: float = 1.5, temperature: float = 1.0, learnable: bool = False
    ) -> None:
        super().__init__()
        self.dim, self.learnable = dim, learnable
        self._q = float(check_positive("q", q, infinity=not learnable))
        self._temperature = float(check_positive("temperature", temperature, infinity=False))
        if learnable:
            self.log_q = nn.Parameter(torch.tensor(math.log(q)))
            self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))

    @property
    def q(self) -> Scalar:
        """The entropic index: a number, or a tensor that gradients flow through."""
        return self.log_q.exp() if self.learnable else self._q

    @property
    def temperature(self) -> Scalar:
        """The temperature: a number, or a tensor that gradients flow through."""
        return self.log_temperature.exp() if self.learnable else self._temperature

    def forward(self, values: Tensor) -> Tensor:
        """Return the policy of the values along ``dim``."""
        check_floating("values", values)
        last = values.movedim(self.dim, -1)
        return policy(last, self.q, self.temperature).movedim(-1, self.dim)

    def extra_repr(self) -> str:
        """Return what ``print`` shows."""
        q, temperature = (torch.as_tensor(x).item() for x in (self.q, self.temperature))
        numbers = f"q={q:g}, temperature={temperature:g}"
        return f"dim={self.dim}, {numbers}, learnable={self.learnable}"


class FenchelYoungLoss(nn.Module):
    """``fenchel_young_loss`` as a module, a replacement for ``nn.CrossEntropyLoss``.

    >>> FenchelYoungLoss(q=2.0)(torch.tensor([[0.5, 0.0]]), torch.tensor([0]))
    tensor(0.0625)
    """

    def __init__(self, q: float = 1.5, reduction: Reduction = "mean") -> None:
        super().__init__()
        self.q = float(check_positive("q", q, infinity=True))
        self.reduction: Reduction = _checked(reduction)

    def forward(self, values: Tensor, target: Tensor) -> Tensor:
        """Return the loss of ``values``, with classes on the last axis, for ``target``."""
        return fenchel_young_loss(values, target, self.q, self.reduction)

    def extra_repr(self) -> str:
        """Return what ``print`` shows."""
        return f"q={self.q:g}, reduction={self.reduction!r}"


def fenchel_young_loss(
    values: Tensor, target: Tensor, q: Scalar, reduction: Reduction = "mean"
) -> Tensor:
    """Return L(z, y) = Ω*(z) + Ω(y) − ⟨z, y⟩ with Ω = −S_q/q, the loss whose gradient is π − y.

    ``values`` z have the classes on their last axis; ``target`` y holds indices of classes, or
    distributions over them. L ≥ 0, and 0 only where the policy of z is y. At q = 1 it is the
    cross-entropy (minus the entropy of y), at q = 2 the sparsemax loss, at q = ∞ the perceptron's.
    For q > 1 it has a margin: it is 0 where the right class leads all others by 1/(q−1) or more.

    >>> fenchel_young_loss(torch.tensor([[1.5, 0.5, 0.0]]), torch.tensor([0]), q=2)
    tensor(0.)
    >>> fenchel_young_loss(torch.tensor([[0.5, 0.0]]), torch.tensor([[0.5, 0.5]]), q=2)
    tensor(0.0625)
    """
    _checked(reduction)
    check_last_axis("values", values)
    aim = _distributions(values, target)
    chosen, _, maximum = solution(values, q)
    scores = values.to(aim.dtype) - maximum.unsqueeze(-1)
    # torch.compile does not support autograd functions with a jvp.
    function = _Difference if is_compiling() else _DifferenceBothWays
    linear = cast(Tensor, function.apply(scores, aim, chosen))  # type: ignore[no-untyped-call]
    loss = linear - potential(chosen, over_actions(q)).sum(-1) - entropy_unchecked(aim, q) / q
    loss = (loss + loss.detach().neg().clamp(min=0.0)).to(values.dtype)  # at least 0, same gradient
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _checked(reduction: Reduction) -> Reduction:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"reduction must be none, mean or sum, got {reduction!r}")
    return reduction


def _distributions(values: Tensor, target: Tensor) -> Tensor:
    """Return the target as distributions, in the dtype of the computation."""
    dtype, classes = wide_dtype(values), values.shape[-1]
    expected = values.shape if target.is_floating_point() else values.shape[:-1]
    if target.shape != expected:
        raise ValueError(
            f"target must be class indices of shape {tuple(values.shape[:-1])} or distributions of "
            f"shape {tuple(values.shape)}, got {target.dtype} of shape {tuple(target.shape)}"
        )
    if target.is_floating_point():
        check_distribution("target", target)
        return target.to(dtype)
    good = (target >= 0) & (target < classes)
    require(good, target, f"target must have class indices in [0, {classes})")
    return (target.unsqueeze(-1) == torch.arange(classes, device=target.device)).to(dtype)


class _Difference(Function):
    """⟨π − y, z⟩ with the gradient π − y, as if π did not depend on z.

    The derivative of π cancels against that of the entropy, since π maximises ⟨π, z⟩ + S_q(π)/q.
    It does not cancel in second derivatives, which include it: the gradient is a function of π.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, target: Tensor, chosen: Tensor) -> Tensor:
        return _inner(chosen - target, scores)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        scores, target, chosen = ctx.saved_tensors
        grad = grads[0].unsqueeze(-1)
        grad_target = -grad * scores if ctx.needs_input_grad[1] else None
        return grad * (chosen - target), grad_target, None


class _DifferenceBothWays(_Difference):
    @staticmethod
    def jvp(ctx: Any, scores: Tensor | None, target: Tensor | None, chosen: object) -> Tensor:
        refuse_nested_forward_mode()
        at, aim, policy = ctx.saved_tensors
        push = torch.zeros_like(at[..., 0]) if scores is None else ((policy - aim) * scores).sum(-1)
        return push if target is None else push - _inner(target, at)


def _inner(weights: Tensor, scores: Tensor) -> Tensor:
    """Return ⟨weights, scores⟩ with 0 · −∞ = 0, for classes that are not available."""
    return (weights * torch.where(weights == 0, 0.0, scores)).sum(-1)
