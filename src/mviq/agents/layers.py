"""Layers with their gradients written out, so that a small network need not pay for autograd.

Activations have one column per observation, which suits matrix products: W x is up to twice as
fast as x Wᵀ where the batch is shorter than the layer. A layer may end with a ReLU.
"""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from mviq.agents import kernels

Array = np.ndarray[Any, Any]


class Layer(Protocol):
    """One layer: a function of its input, the gradients of it, and itself for one observation."""

    rectified: bool
    parameters: list[nn.Parameter]

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, before the ReLU if there is one."""

    def backward(
        self, x: Tensor, slope: Tensor, gradients: list[Tensor], further: bool
    ) -> Tensor | None:
        """Write the gradients of the parameters; return that of the input if it goes further.

        ``slope`` is the gradient with respect to the output.
        """

    def of_one(self, x: Array) -> Array:
        """Return the output, after the ReLU, for one observation on the CPU."""


class Dense:
    """y = W x + b, for columns x; pictures (batch, …) become columns."""

    def __init__(self, module: nn.Linear) -> None:
        self.module, self.rectified = module, False
        self.parameters = list(module.parameters())

    def forward(self, x: Tensor) -> Tensor:
        """Return W x + b."""
        weight, x = self.module.weight, _columns(x)
        if len(self.parameters) == 1:
            return weight.mm(x)
        return torch.addmm(self.module.bias.unsqueeze(1), weight, x)

    def backward(
        self, x: Tensor, slope: Tensor, gradients: list[Tensor], further: bool
    ) -> Tensor | None:
        """Write slope xᵀ and the sums of slope; return Wᵀ slope."""
        torch.mm(slope, _columns(x).t(), out=gradients[0])
        if len(gradients) > 1:
            torch.sum(slope, 1, out=gradients[1])
        if not further:
            return None
        weight = self.module.weight
        return weight.t().mm(slope) if x.dim() == 2 else slope.t().mm(weight).view(x.shape)

    def of_one(self, x: Array) -> Array:
        """Return [W x + b], row by row."""
        weight, bias = _arrays(self.module)
        return kernels.dense(weight, bias, x.reshape(-1), self.rectified)


class Convolution:
    """A convolution of pictures (batch, channels, height, width)."""

    def __init__(self, module: nn.Conv2d) -> None:
        self.module, self.rectified = module, False
        self.parameters = list(module.parameters())

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution."""
        m = self.module
        return torch.conv2d(x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups)

    def backward(
        self, x: Tensor, slope: Tensor, gradients: list[Tensor], further: bool
    ) -> Tensor | None:
        """Leave the gradients to the function that autograd would call."""
        m, biased = self.module, len(gradients) > 1
        before, *found = torch.ops.aten.convolution_backward(
            slope,
            x,
            m.weight,
            [m.out_channels] if biased else None,
            m.stride,
            m.padding,
            m.dilation,
            False,
            [0, 0],
            m.groups,
            [further, True, biased],
        )
        for gradient, value in zip(gradients, found, strict=False):
            gradient.copy_(value)
        return before  # type: ignore[no-any-return]

    def of_one(self, x: Array) -> Array:
        """Return the convolution of one picture, place by place."""
        weight, bias = _arrays(self.module)
        return kernels.convolution(weight, bias, x, self.module.stride[0], self.rectified)

    @property
    def small(self) -> bool:
        """Whether ``of_one`` is there, and faster than torch."""
        m = self.module
        plain = m.padding == (0, 0) and m.dilation == (1, 1) and m.groups == 1
        return plain and m.stride[0] == m.stride[1] and m.weight.numel() < LARGE


LARGE = 2**13  # weights; a convolution with more of them is work for oneDNN in any case


def as_layer(module: nn.Module) -> Layer | None:
    """Return a module of torch as a layer, or None if its gradient is not written out here."""
    if type(module) is nn.Linear:
        return Dense(module)
    if (
        type(module) is nn.Conv2d
        and module.padding_mode == "zeros"
        and not isinstance(module.padding, str)
    ):
        return Convolution(module)
    return None


def _columns(x: Tensor) -> Tensor:
    """Return activations with one column per observation; pictures have one row each."""
    return x if x.dim() == 2 else x.flatten(1).t()


def _arrays(module: nn.Linear | nn.Conv2d) -> tuple[Array, Array]:
    """Return weight and bias as arrays that share their memory."""
    weight = module.weight.detach().numpy()
    if module.bias is None:
        return weight, np.zeros(len(weight), weight.dtype)
    return weight, module.bias.detach().numpy()
