"""Networks as functions: from observations to the outcomes of every action."""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from gymnasium import spaces
from sb3_contrib.qrdqn.policies import QuantileNetwork
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
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
    return lambda observations: call(observations).view(-1, _outcomes(network), actions)


def _outcomes(network: BasePolicy) -> int:
    return int(getattr(network, "n_quantiles", 1))


def _short_cut(network: BasePolicy) -> Network:
    features = network.features_extractor
    head = network.q_net if isinstance(network, QNetwork) else network.quantile_net
    divide = network.normalize_images and is_image_space(network.observation_space)

    def forward(observations: Tensor) -> Tensor:
        x = observations.float()
        result: Tensor = head(features(x / 255.0 if divide else x))  # type: ignore[operator]
        return result

    return forward


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
