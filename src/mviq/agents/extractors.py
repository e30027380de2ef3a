"""Feature extractors that Stable-Baselines3 does not have."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
)
from torch import Tensor, nn

from mviq.agents.codec import register


@register
class RescaledExtractor(FlattenExtractor):
    """Rescales observations from ±bounds to [−1, 1]; values beyond the bounds are not clipped.

    The bounds are part of the network, as in Dopamine: a saved agent takes raw observations.

    :param bounds: one positive number per element of an observation; None for the largest absolute
        values of the observation space, but at most 1: small values are scaled up and others are
        unchanged, since the bounds of a space are often much larger than the observations
    """

    def __init__(self, observation_space: spaces.Box, bounds: Sequence[float] | None) -> None:
        super().__init__(observation_space)
        if bounds is None:
            bounds = _largest_values(observation_space)
        sizes = torch.tensor(bounds, dtype=torch.float32)
        if sizes.shape != (self.features_dim,) or not ((sizes > 0) & sizes.isfinite()).all():
            raise ValueError(
                f"bounds must be {self.features_dim} positive numbers, one for each number of an "
                f"observation, got {tuple(bounds)!r}"
            )
        self.bounds: Tensor
        self.register_buffer("bounds", sizes, persistent=False)

    def forward(self, observations: Tensor) -> Tensor:
        """Return the rescaled observations, one row each."""
        return super().forward(observations) / self.bounds


@register
class RescaledCombinedExtractor(CombinedExtractor):
    """Features of dictionary observations; vectors are rescaled by the bounds of their space."""

    def __init__(self, observation_space: spaces.Dict) -> None:
        super().__init__(observation_space)
        for name, part in self.extractors.items():
            if isinstance(part, nn.Flatten):
                space: Any = observation_space.spaces[name]
                self.extractors[name] = RescaledExtractor(space, bounds=None)


def _largest_values(space: spaces.Space[Any]) -> list[float]:
    """Return the largest absolute values of a space where they are below 1, elsewhere 1."""
    if not isinstance(space, spaces.Box) or is_image_space(space):  # preprocessed by SB3
        return [1.0] * get_flattened_obs_dim(space)
    sizes = np.maximum(abs(space.low.astype(float)), abs(space.high.astype(float))).ravel()
    return [float(size) for size in np.where(sizes > 0, np.minimum(sizes, 1.0), 1.0)]


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
