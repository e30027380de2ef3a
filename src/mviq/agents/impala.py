"""The network of BTR for Atari: IMPALA's, wider, with max pooling and spectral normalisation."""

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn
from torch.nn.functional import normalize

from mviq.agents.codec import register

_CHANNELS = 16, 32, 32  # Espeholt et al. (2018)
_POOLED = 6  # pixels a side, Clark et al. (2024)
_FIRST_ITERATIONS = 15  # as in PyTorch's spectral_norm


class SpectralConv2d(nn.Conv2d):
    """A convolution whose weights, as a matrix, are divided by their largest singular value.

    This value is estimated by power iteration, one step per forward pass in training mode (Miyato
    et al. 2018). PyTorch's ``spectral_norm`` is not used, since Stable-Baselines3 copies only
    parameters and buffers called ``running_…`` to the target network.
    """

    running_left: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__(channels, channels, kernel_size=3, padding=1)
        self.register_buffer("running_left", normalize(torch.randn(channels), dim=0))
        for _ in range(_FIRST_ITERATIONS):
            self._iterate()

    @torch.no_grad()
    def _iterate(self) -> None:
        matrix = self.weight.flatten(1)
        right = normalize(self.running_left @ matrix, dim=0)
        self.running_left.copy_(normalize(matrix @ right, dim=0))

    def forward(self, x: Tensor) -> Tensor:
        """Return the convolution of x with the normalised weights."""
        if self.training:
            self._iterate()
        left, matrix = self.running_left.clone(), self.weight.flatten(1)
        with torch.no_grad():
            right = normalize(left @ matrix, dim=0)
        weight = self.weight / (left @ matrix @ right).clamp(min=1e-12)  # weights may be 0
        return nn.functional.conv2d(x, weight, self.bias, padding=1)


class _Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        parts = (nn.ReLU(), SpectralConv2d(channels), nn.ReLU(), SpectralConv2d(channels))
        self.layers = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(x, self.layers(x))


def _block(before: int, after: int) -> list[nn.Module]:
    halved = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
    convolution = nn.Conv2d(before, after, kernel_size=3, padding=1)
    return [convolution, halved, _Residual(after), _Residual(after)]


@register
class ImpalaCNN(BaseFeaturesExtractor):
    """Three residual blocks with spectral normalisation, pooled to 6×6, without a linear layer.

    For images (channels, height, width), with ``CnnPolicy`` and a ``net_arch`` such as [512].

    :param scale: multiplier of IMPALA's 16, 32 and 32 channels
    """

    def __init__(self, observation_space: spaces.Box, scale: int = 2) -> None:
        widths = [scale * channels for channels in _CHANNELS]
        super().__init__(observation_space, widths[-1] * _POOLED**2)
        layers: list[Any] = []
        for before, after in zip([observation_space.shape[0], *widths], widths, strict=False):
            layers += _block(before, after)
        pool = nn.AdaptiveMaxPool2d(_POOLED)
        self.layers = nn.Sequential(*layers, pool, nn.ReLU(), nn.Flatten())

    def forward(self, observations: Tensor) -> Tensor:
        """Return the features of images in [0, 1]."""
        return torch.as_tensor(self.layers(observations))
