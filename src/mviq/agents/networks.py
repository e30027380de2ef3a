"""The networks of an agent as functions: action values forward, gradients backward, one step."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor
from torch.optim import Optimizer

LARGE_CONVOLUTION = 2**13  # weights; below, a compiled convolution is faster than PyTorch's


class Network(Protocol):
    """From observations to outcomes (batch, outcomes, actions), and back to the weights."""

    def prepare(self, observations: Any) -> Any:
        """Return a batch of observations as this network, and any other like it, takes them."""

    def forward(self, prepared: Any) -> Tensor:
        """Return the outcomes, and remember what ``backward`` needs."""

    def backward(self, gradient: Tensor) -> float:
        """Set the gradients of the weights from that of the last outcomes; return their norm."""

    def step(self, optimizer: Optimizer, scale: float) -> None:
        """Multiply the gradients by a number and change the weights."""


class AutogradNetwork:
    """Any network of Stable-Baselines3 on any device, its gradients by autograd."""

    def __init__(self, network: BasePolicy, shape: Sequence[int]) -> None:
        self.network, self.shape = network, tuple(shape)
        self.outcomes: Tensor | None = None  # those to go back from
        self.channels_last = any(_is_channels_last(weight) for weight in network.parameters())

    def prepare(self, observations: Any) -> Any:
        if not self.channels_last or not isinstance(observations, Tensor):
            return observations
        return observations.contiguous(memory_format=torch.channels_last)

    def forward(self, prepared: Any) -> Tensor:
        outcomes: Tensor = self.network(prepared).reshape(-1, *self.shape)
        self.outcomes = outcomes if outcomes.requires_grad else None
        return outcomes

    def backward(self, gradient: Tensor) -> float:
        assert self.outcomes is not None
        self.network.zero_grad()
        self.outcomes.backward(gradient)  # type: ignore[no-untyped-call]
        self.outcomes = None
        return float(torch.nn.utils.get_total_norm(self._gradients()))

    def step(self, optimizer: Optimizer, scale: float) -> None:
        if scale != 1:
            torch._foreach_mul_(self._gradients(), scale)
        optimizer.step()

    def _gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.network.parameters() if weight.grad is not None]


def _is_channels_last(weight: Tensor) -> bool:
    last = weight.dim() == 4 and weight.is_contiguous(memory_format=torch.channels_last)
    return last and not weight.is_contiguous()


def channels_last(network: BasePolicy) -> None:
    """Store the weights of large convolutions so that PyTorch's gradients on the CPU are fast.

    Backward through the Nature CNN then takes half of the time, if its input is laid out likewise.
    """
    for weight in network.parameters():
        if weight.dim() == 4 and weight.numel() >= LARGE_CONVOLUTION:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)
