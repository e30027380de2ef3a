"""Layers with their gradients written out, so that a small network need not pay for autograd.

Activations have one column per observation, which suits matrix products: W x is up to twice as
fast as x Wᵀ where the batch is shorter than the layer. A layer may end with a ReLU.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from mviq.agents import kernels

Array = np.ndarray[Any, Any]


class Layer(Protocol):
    """One layer: a function of its input, and its gradients."""

    rectified: bool
    parameters: list[nn.Parameter]

    def prepare(self, x: Tensor) -> Tensor:
        """Return observations as the layer wants them if it comes first, still one per row.

        No weights enter, so that the online and the target network can share them.
        """

    def forward(self, x: Tensor) -> Tensor:
        """Return the output, before the ReLU if there is one."""

    def backward(
        self, x: Tensor, slope: Tensor, gradients: list[Tensor], further: bool
    ) -> Tensor | None:
        """Write the gradients of the parameters; return that of the input if it goes further.

        ``slope`` is the gradient with respect to the output.
        """


@runtime_checkable
class Compiled(Protocol):
    """A layer that has a compiled form for one observation on the CPU."""

    def of_one(self, x: Array) -> Array:
        """Return the output, after the ReLU."""


class Dense:
    """y = W x + b, for columns x; pictures (batch, …) become columns."""

    def __init__(self, module: nn.Linear) -> None:
        self.module, self.rectified = module, False
        self.parameters = list(module.parameters())

    def prepare(self, x: Tensor) -> Tensor:
        """Return one row of numbers per observation."""
        return x.flatten(1).float()

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
        """Return the output, after the ReLU."""
        weight, bias = _arrays(self.parameters)
        return kernels.dense(weight, bias, x.reshape(-1), self.rectified)


class Convolution:
    """A convolution of pictures (batch, channels, height, width)."""

    def __init__(self, module: nn.Conv2d) -> None:
        self.module, self.rectified = module, False
        self.parameters = list(module.parameters())

    def prepare(self, x: Tensor) -> Tensor:
        """Return the pictures."""
        return x.float()

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


class PatchConvolution(Convolution):
    """The only convolution of a small network, as products with the patches its filters see.

    oneDNN takes two to three times as long for it, to choose and to rearrange.
    """

    def prepare(self, x: Tensor) -> Tensor:
        """Return the patches (batch, weights of a filter, places)."""
        (height, width), (stride, _) = self.module.kernel_size, self.module.stride
        return torch.from_numpy(kernels.patches(x.contiguous().numpy(), height, width, stride))

    def forward(self, x: Tensor) -> Tensor:
        """Return W x + b for the patches x of every picture."""
        weight, bias = self.module.weight.flatten(1).expand(len(x), -1, -1), self.module.bias
        return weight.bmm(x) if bias is None else torch.baddbmm(bias.unsqueeze(1), weight, x)

    def backward(
        self, x: Tensor, slope: Tensor, gradients: list[Tensor], further: bool
    ) -> Tensor | None:
        """Write Σ slope xᵀ and the sums of slope; before the first layer nobody asks further."""
        torch.sum(slope.bmm(x.mT), 0, out=gradients[0].flatten(1))
        if len(gradients) > 1:
            torch.sum(slope, (0, 2), out=gradients[1])
        return None

    def of_one(self, x: Array) -> Array:
        """Return the output, after the ReLU, place by place."""
        weight, bias = _arrays(self.parameters)
        return kernels.convolution(weight, bias, x, self.module.stride[0], self.rectified)


LARGE = 2**13  # weights; a convolution with more of them is work for oneDNN in any case


def as_layer(module: nn.Module) -> Layer | None:
    """Return a module of torch as a layer, or None if its gradient is not written out here."""
    if type(module) is nn.Linear:
        return Dense(module)
    if type(module) is nn.Conv2d and module.padding_mode == "zeros":
        return None if isinstance(module.padding, str) else Convolution(module)
    return None


def by_patches(layers: list[Layer]) -> list[Layer]:
    """Return the layers of a network on the CPU, the small convolution if there is one by patches.

    It must be the only one, without padding, dilation and groups, its stride that of a square.
    """
    first, *rest = layers
    if not isinstance(first, Convolution) or any(isinstance(x, Convolution) for x in rest):
        return layers
    m = first.module
    plain = m.padding == (0, 0) and m.dilation == (1, 1) and m.groups == 1
    if not plain or m.stride[0] != m.stride[1] or m.weight.numel() >= LARGE:
        return layers
    patched = PatchConvolution(m)
    patched.rectified = first.rectified
    return [patched, *rest]


def _columns(x: Tensor) -> Tensor:
    """Return activations with one column per observation; pictures have one row each."""
    return x if x.dim() == 2 else x.flatten(1).t()


def _arrays(parameters: list[nn.Parameter]) -> tuple[Array, Array]:
    """Return weight and bias as arrays that share their memory."""
    weight, *bias = (parameter.detach().numpy() for parameter in parameters)
    return weight, bias[0] if bias else np.zeros(len(weight), weight.dtype)
