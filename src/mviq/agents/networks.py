"""Networks as functions: from observations to the outcomes of every action, and their gradients."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.qrdqn.policies import QuantileNetwork
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import get_flattened_obs_dim, is_image_space
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.dqn.policies import QNetwork
from torch import Tensor, nn

from mviq.agents.codec import register
from mviq.agents.layers import LARGE, Compiled, Dense, Layer, as_layer, by_patches

PullBack: TypeAlias = Callable[[Tensor], list[Tensor]]
"""From the gradient of a loss at the outcomes to those at the weights, which are set too."""


class Network(Protocol):
    """From observations (batch, …) to outcomes (batch, outcomes, actions)."""

    has_modes: bool
    """Whether it may matter if the network is learning."""

    def __call__(self, observations: Any) -> Tensor:
        """Return the outcomes at a batch of observations."""

    def prepare(self, observations: Any) -> Any:
        """Return observations as this network, and any other of its kind, wants them."""

    def forward(self, prepared: Any) -> Tensor:
        """Return the outcomes at observations that are prepared."""

    def differentiable(self, prepared: Any) -> tuple[Tensor, PullBack]:
        """Return the outcomes, and how a gradient goes back from them, once."""

    def at(self, observations: Any) -> Tensor:
        """Return the outcomes at observations as environments give them, in arrays."""


def as_network(network: BasePolicy) -> Network:
    """Return a network of Stable-Baselines3 as a function, its gradient by hand if it can be.

    That is for ``QNetwork`` and ``QuantileNetwork`` on arrays, in single precision, made of
    nothing but linear layers and convolutions, each followed by a ReLU or by none. Any other
    network, and a subclass of these, which may do otherwise, is left to itself and to autograd.
    """
    assert isinstance(network.action_space, spaces.Discrete)
    shape = (-1, int(getattr(network, "n_quantiles", 1)), int(network.action_space.n))
    known = type(network) in (QNetwork, QuantileNetwork)
    if known and isinstance(network.observation_space, spaces.Box):
        head: Any = network.q_net if isinstance(network, QNetwork) else network.quantile_net
        layers = _layers([network.features_extractor, head])
        if layers is not None and all(w.dtype == torch.float32 for w in network.parameters()):
            on_cpu = network.device.type == "cpu"
            divisor = _divisor(network)
            return ByHand(by_patches(layers) if on_cpu else layers, shape, divisor)
    return ByAutograd(network, shape)


def _divisor(network: BasePolicy) -> Tensor | None:
    """Return what observations are divided by before the first layer, None if by nothing."""
    image = network.normalize_images and is_image_space(network.observation_space)
    scale = torch.tensor(255.0 if image else 1.0, device=network.device)
    extractor = network.features_extractor
    if isinstance(extractor, RescaledExtractor):
        return scale * extractor.bounds.reshape(network.observation_space.shape or (-1,))
    return scale if image else None


class ByAutograd:
    """Any network, its gradient by autograd."""

    has_modes = True

    def __init__(self, network: BasePolicy, shape: tuple[int, int, int]) -> None:
        self.network, self.shape = network, shape
        self.weights = list(network.parameters())

    def __call__(self, observations: Any) -> Tensor:
        """Return the outcomes at a batch of observations."""
        return self.forward(observations)

    def prepare(self, observations: Any) -> Any:
        """Return the observations."""
        return observations

    def forward(self, prepared: Any) -> Tensor:
        """Return the outcomes."""
        outcomes: Tensor = self.network(prepared)
        return outcomes.reshape(self.shape)

    def differentiable(self, prepared: Any) -> tuple[Tensor, PullBack]:
        """Return the outcomes and autograd's way back."""
        outcomes = self(prepared)

        def pull_back(gradient: Tensor) -> list[Tensor]:
            for weight in self.weights:
                weight.grad = None
            outcomes.backward(gradient)  # type: ignore[no-untyped-call]
            return [weight.grad for weight in self.weights if weight.grad is not None]

        return outcomes, pull_back

    @torch.inference_mode()
    def at(self, observations: Any) -> Tensor:
        """Return the outcomes at observations as environments give them."""
        return self(obs_as_tensor(observations, self.weights[0].device))


class ByHand:
    """A chain of layers, whose gradients lie in one piece of memory.

    Without autograd's bookkeeping, without ``forward`` of Stable-Baselines3, which looks at every
    bound of the observation space each time, and for one observation without torch.
    """

    has_modes = False

    def __init__(
        self, layers: list[Layer], shape: tuple[int, int, int], divisor: Tensor | None = None
    ) -> None:
        self.layers, self.shape, self.divisor = layers, shape, divisor
        weights = [weight for layer in layers for weight in layer.parameters]
        sizes = [weight.numel() for weight in weights]
        self.gradient = torch.zeros(sum(sizes), device=weights[0].device)
        parts = iter(torch.split(self.gradient, sizes))
        self.gradients = [
            [next(parts).as_strided(weight.shape, weight.stride()) for weight in layer.parameters]
            for layer in layers
        ]
        on_cpu = self.gradient.device.type == "cpu"
        compiled = [layer for layer in layers if on_cpu and isinstance(layer, Compiled)]
        self.compiled = compiled if len(compiled) == len(layers) else None

    def __call__(self, observations: Tensor) -> Tensor:
        """Return the outcomes at a batch of observations."""
        return self.forward(self.prepare(observations))

    @torch.inference_mode()
    def prepare(self, observations: Tensor) -> Tensor:
        """Return the input of the first layer, one row per observation."""
        x = observations
        if self.divisor is not None:  # where bytes have been converted they are ours to change
            x = x / self.divisor if x.dtype == torch.float32 else x.float().div_(self.divisor)
        return self.layers[0].prepare(x)

    @torch.inference_mode()
    def forward(self, prepared: Tensor) -> Tensor:
        """Return the outcomes."""
        return self._outcomes(self._activations(prepared)[-1])

    @torch.inference_mode()
    def differentiable(self, prepared: Tensor) -> tuple[Tensor, PullBack]:
        """Return the outcomes and the way back through the layers."""
        activations = self._activations(prepared)

        @torch.inference_mode()
        def pull_back(gradient: Tensor) -> list[Tensor]:
            slope: Any = gradient.reshape(len(gradient), -1).t()
            for i in reversed(range(len(self.layers))):
                layer, x, y = self.layers[i], activations[i], activations[i + 1]
                if layer.rectified:
                    slope = torch.ops.aten.threshold_backward(slope, y, 0)
                slope = layer.backward(x, slope, self.gradients[i], further=i > 0)
            self._hand_over()
            return [self.gradient]

        return self._outcomes(activations[-1]), pull_back

    def at(self, observations: Any) -> Tensor:
        """Return the outcomes at observations as environments give them, compiled for one."""
        if len(observations) > 1 or self.compiled is None:
            return self(torch.as_tensor(observations, device=self.gradient.device))
        x = observations[0]
        if self.divisor is not None:
            x = x.astype(np.float32) / self.divisor.numpy()
        for layer in self.compiled:
            x = layer.of_one(x)
        return torch.from_numpy(x).view(self.shape)

    def _activations(self, prepared: Tensor) -> list[Tensor]:
        """Return the input of the first layer, and the output of every layer."""
        found = [prepared.t() if isinstance(self.layers[0], Dense) else prepared]
        for layer in self.layers:
            y = layer.forward(found[-1])
            found.append(y.relu_() if layer.rectified else y)
        return found

    def _outcomes(self, last: Tensor) -> Tensor:
        return last.t().reshape(self.shape)

    def _hand_over(self) -> None:
        """Give the weights their gradients, but not those that somebody has frozen."""
        for layer, gradients in zip(self.layers, self.gradients, strict=True):
            for weight, gradient in zip(layer.parameters, gradients, strict=True):
                if weight.requires_grad:
                    weight.grad = gradient
                else:
                    gradient.zero_()


def _layers(modules: Any) -> list[Layer] | None:
    """Return modules applied in turn as layers, or None if one of them is not known."""
    found: list[Layer] = []
    for module in _parts(modules):
        layer = as_layer(module)
        if layer is not None:
            found.append(layer)
        elif type(module) is nn.ReLU and found and not found[-1].rectified:
            found[-1].rectified = True
        elif type(module) not in (nn.Flatten, FlattenExtractor, RescaledExtractor):
            return None
    weights = [id(weight) for layer in found for weight in layer.parameters]
    in_order = [type(layer) is Dense for layer in found]
    simple = in_order == sorted(in_order) and in_order[-1:] == [True] and not found[-1].rectified
    return found if simple and len(set(weights)) == len(weights) else None


def _parts(modules: Any) -> list[nn.Module]:
    parts: list[nn.Module] = []
    for module in modules:
        if type(module) is nn.Sequential:
            parts += _parts(module)
        elif type(module) is NatureCNN:
            parts += _parts([module.cnn, module.linear])
        elif type(module) is MinAtarCNN:
            parts += _parts(module.layers)
        else:
            parts.append(module)
    return parts


def channels_last(network: BasePolicy) -> None:
    """Lay out the weights of large convolutions so that their gradients are fast.

    Backward through the Nature CNN takes two thirds of the time; a small one gains nothing.
    """
    for weight in network.parameters():
        if weight.dim() == 4 and weight.numel() >= LARGE:
            weight.data = weight.data.contiguous(memory_format=torch.channels_last)


@register
class RescaledExtractor(FlattenExtractor):
    """Observations rescaled from ±bounds to [−1, 1]; values beyond the bounds are not clipped.

    The bounds belong to the network, as in Dopamine: a saved agent takes raw observations.

    :param bounds: one positive number for each number of an observation; None for the largest
        absolute values of the observation space, 1 where they are infinite or zero, and for images
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


def _largest_values(space: spaces.Space[Any]) -> list[float]:
    """Return the largest absolute values of a space, 1 where there is none or it is zero."""
    if not isinstance(space, spaces.Box) or is_image_space(space):  # rescaled already
        return [1.0] * get_flattened_obs_dim(space)
    sizes = np.maximum(abs(space.low.astype(float)), abs(space.high.astype(float))).ravel()
    known = np.isfinite(sizes) & (sizes > 0) & (sizes < np.finfo(np.float32).max)
    return [float(size) for size in np.where(known, sizes, 1.0)]


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
