"""Networks as functions: from observations to the outcomes of every action."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
from gymnasium import spaces
from sb3_contrib.qrdqn.policies import QuantileNetwork
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn

from mviq.agents.description import register

Network: TypeAlias = Callable[[Any], Tensor]
"""From observations (batch, …) to outcomes (batch, outcomes, actions)."""


def as_function(network: BasePolicy) -> Network:
    """Return the network as a function, for Stable-Baselines3's own networks a short cut.

    Their ``forward`` looks at every bound of the observation space each time it is called, to
    find out whether it sees an image. Here that is asked once.
    """
    assert isinstance(network.action_space, spaces.Discrete)
    actions = int(network.action_space.n)
    call: Network = network
    if type(network) in (QNetwork, QuantileNetwork) and isinstance(
        network.observation_space, spaces.Box
    ):
        call = _short_cut(network)
    outcomes = int(getattr(network, "n_quantiles", 1))
    return lambda observations: call(observations).reshape(-1, outcomes, actions)


def _short_cut(network: BasePolicy) -> Network:
    head: Any = network.q_net if isinstance(network, QNetwork) else network.quantile_net
    layers = [*_layers(network.features_extractor), *_layers(head)]
    divide = network.normalize_images and is_image_space(network.observation_space)

    def forward(observations: Tensor) -> Tensor:
        x = observations.float()
        if divide:  # where bytes have been converted x is ours
            x = x / 255.0 if x is observations else x.div_(255.0)
        for layer in layers:
            x = layer(x)
        return x

    return forward


def _layers(module: Any) -> list[Callable[[Tensor], Tensor]]:
    """Return a module as the functions it applies in turn; a call of a module costs more."""
    if type(module) is FlattenExtractor or type(module) is nn.Flatten:
        return [lambda x: x.flatten(1)]
    if type(module) is NatureCNN:
        return [*_layers(module.cnn), *_layers(module.linear)]
    if type(module) is MinAtarCNN:
        return _layers(module.layers)
    if type(module) is nn.Sequential:
        return [layer for part in module for layer in _layers(part)]
    if type(module) is nn.Linear:
        return [partial(_linear, module.weight, module.bias)]
    if type(module) is nn.Conv2d and module.padding == (0, 0) and module.dilation == (1, 1):
        return [partial(_convolution, module.weight, module.bias, module.stride, module.groups)]
    return [torch.relu] if type(module) is nn.ReLU else [module]


def channels_last(network: BasePolicy) -> None:
    """Lay out the weights of large convolutions so that their gradients are fast.

    Backward through the Nature CNN takes two thirds of the time; a small one gains nothing.
    """
    for weight in network.parameters():
        if weight.dim() == 4 and weight.numel() >= 2**13:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)


def has_modes(network: BasePolicy) -> bool:
    """Return whether it may matter if the network is learning: not with layers known to us."""
    indifferent: set[type] = {nn.Linear, nn.Conv2d, nn.ReLU, nn.Flatten, nn.Sequential}
    indifferent |= {FlattenExtractor, NatureCNN, MinAtarCNN, QNetwork, QuantileNetwork}
    return any(type(module) not in indifferent for module in network.modules())


def _linear(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    large = len(x) >= 16 and weight.numel() >= 2**15
    if bias is None or not large or x.device.type != "cpu":
        return nn.functional.linear(x, weight, bias)
    # W xᵀ in place of x Wᵀ: MKL is up to twice as fast where the batch is shorter than the layer.
    return torch.addmm(bias.unsqueeze(1), weight, x.t()).t()


def _convolution(
    weight: Tensor, bias: Tensor | None, stride: Any, groups: int, x: Tensor
) -> Tensor:
    return torch.conv2d(x, weight, bias, stride, groups=groups)


@register
class MinAtarCNN(BaseFeaturesExtractor):
    """The network of the MinAtar paper: 16 filters of 3×3, then 128 units, both with ReLU.

    For observations (channels, height, width), with ``CnnPolicy`` and ``policy_kwargs``
    ``{"features_extractor_class": MinAtarCNN, "net_arch": []}``.
    """

    def __init__(self, observation_space: spaces.Box, features_dim: int = 128) -> None:
        super().__init__(observation_space, features_dim)
        channels, height, width = observation_space.shape
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 16, kernel_size=3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(16 * (height - 2) * (width - 2), features_dim),
            nn.ReLU(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Return the features of observations in [0, 1]."""
        return torch.as_tensor(self.layers(observations))
