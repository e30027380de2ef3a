"""The networks of an agent: forward pass, backward pass and optimiser step."""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor, nn
from torch.optim import Optimizer

from mviq.agents.compiled import kept
from mviq.agents.parameters import lay_out_moments

LARGE_CONVOLUTION = 2**13  # weights; below, a compiled convolution is faster than PyTorch's


class Network(Protocol):
    """Maps observations to outcomes (batch, outcomes, actions)."""

    def prepare(self, *batches: Any) -> Sequence[Any]:
        """Preprocess batches of observations for this network and others of its architecture."""

    def predict(self, *prepared: Any) -> Sequence[Tensor]:
        """Return the outcomes of batches that were prepared together, without gradients."""


class AutogradNetwork:
    """Any network of Stable-Baselines3 on any device, with gradients by autograd."""

    def __init__(self, network: BasePolicy, shape: Sequence[int]) -> None:
        self.network, self.shape = network, tuple(shape)
        self.outcomes: Tensor | None = None  # of the last forward pass, for ``backward``

    def prepare(self, *batches: Any) -> Sequence[Any]:
        return batches

    def forward(self, prepared: Any) -> Tensor:
        """Return the outcomes, and keep them for ``backward``."""
        self.outcomes = _with_outcomes(self.network(prepared))
        return self.outcomes

    @torch.no_grad()
    def predict(self, *prepared: Any) -> Sequence[Tensor]:
        return [_masked(_with_outcomes(self.network(x)), x) for x in prepared]

    def backward(self, gradient: Tensor) -> float:
        """Backpropagate the gradient of the last outcomes; return the norm of all gradients."""
        assert self.outcomes is not None
        self.network.zero_grad()
        self.outcomes.backward(gradient)  # type: ignore[no-untyped-call]
        self.outcomes = None
        return float(torch.nn.utils.get_total_norm(self._gradients()))

    def step(self, optimizer: Optimizer, scale: float) -> None:
        """Scale the gradients and make one step of the optimiser."""
        if scale != 1:
            torch._foreach_mul_(self._gradients(), scale)
        optimizer.step()

    def _gradients(self) -> list[Tensor]:
        return [weight.grad for weight in self.network.parameters() if weight.grad is not None]


def _with_outcomes(values: Tensor) -> Tensor:
    """Return a network's output as (batch, outcomes, actions); action values are one outcome."""
    return values if values.dim() == 3 else values.unsqueeze(1)


def has_mask(observations: Any) -> bool:
    """Return whether observations contain an action mask."""
    return isinstance(observations, dict) and "action_mask" in observations


def _masked(outcomes: Tensor, observations: Any) -> Tensor:
    """Return the outcomes, −∞ for actions that the observations' mask excludes."""
    if not has_mask(observations):
        return outcomes
    return outcomes.masked_fill(observations["action_mask"].unsqueeze(1) == 0, -math.inf)


class Prepared(NamedTuple):
    """A slice of the observations that were prepared together."""

    together: Tensor
    begin: int
    end: int


class PlainNetwork(AutogradNetwork):
    """An unmodified network, evaluated module by module.

    Observations are preprocessed once for the online and the target network, and ReLUs are in
    place. The backward pass of a large convolution takes half as long with channels last.
    """

    def __init__(
        self, network: BasePolicy, shape: Sequence[int], modules: Sequence[Any], divisor: float
    ) -> None:
        super().__init__(network, shape)
        self.divisor = divisor
        self.memory: dict[Any, Tensor] = {}
        before = [None, *map(type, modules)]
        self.functions = [
            torch.relu_ if type(module) is nn.ReLU and kind in (nn.Linear, nn.Conv2d) else module
            for module, kind in zip(modules, before, strict=False)
        ]
        self.large = [
            weight
            for weight in network.parameters()
            if weight.dim() == 4 and weight.numel() >= LARGE_CONVOLUTION
        ]
        for weight in self.large:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)

    def prepare(self, *batches: Any) -> Sequence[Prepared]:
        tensors = [torch.as_tensor(batch, device=self.network.device) for batch in batches]
        together = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
        if together.dim() == 4:
            together = together.contiguous(memory_format=torch.channels_last)
        together = self._floats(together, len(batches)).copy_(together).div_(self.divisor)
        ends = accumulate(map(len, tensors))
        return [Prepared(together, end - len(x), end) for x, end in zip(tensors, ends, strict=True)]

    def _floats(self, like: Tensor, batches: int) -> Tensor:
        """Return a reusable buffer, since allocating large tensors is slow.

        The number of batches is part of the key, so that the observations of an update are not
        overwritten when action values are computed meanwhile.
        """
        key = batches, like.shape
        return kept(self.memory, key, lambda *_: torch.empty_like(like, dtype=torch.float32))

    def forward(self, prepared: Prepared) -> Tensor:
        self.outcomes = self._forward(prepared.together[prepared.begin : prepared.end])
        return self.outcomes

    @torch.no_grad()
    def predict(self, *prepared: Prepared) -> Sequence[Tensor]:
        begin, end = min(x.begin for x in prepared), max(x.end for x in prepared)
        outcomes = self._forward(prepared[0].together[begin:end])
        return [outcomes[x.begin - begin : x.end - begin] for x in prepared]

    def _forward(self, x: Tensor) -> Tensor:
        for function in self.functions:
            x = function(x)
        return x.reshape(len(x), -1, self.shape[1])

    def step(self, optimizer: Optimizer, scale: float) -> None:
        for weight in self.large:
            moments = optimizer.state.get(weight, {}).values()
            if any(m.shape == weight.shape and m.stride() != weight.stride() for m in moments):
                lay_out_moments(optimizer)  # a fused optimiser ignores strides
        super().step(optimizer, scale)
