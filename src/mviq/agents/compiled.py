"""Small networks on the CPU without PyTorch's bookkeeping: the same numbers, up to rounding.

A network is compiled if it is a ``QNetwork`` or ``QuantileNetwork`` of linear layers, each
followed by a ReLU or by nothing, perhaps after one small convolution, and if no part of it was
overridden, hooked or frozen. Every other network is left to autograd.

Activations have the batch on their last axis, since W x is faster than x Wᵀ where the batch is
shorter than the layer. The convolution is a linear layer of the patches its filters see.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import is_not
from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.qrdqn.policies import CnnPolicy as QuantileCnnPolicy
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor, NatureCNN
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, QNetwork
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.optim import Adam, Optimizer

from mviq.agents import kernels
from mviq.agents.extractors import MinAtarCNN, RescaledExtractor
from mviq.agents.networks import LARGE_CONVOLUTION, AutogradNetwork, Network, PlainNetwork

Array = np.ndarray[Any, Any]
_any_global_hook: Any = _has_any_global_hook
_POLICIES = (DQNPolicy, CnnPolicy, QRDQNPolicy, QuantileCnnPolicy)
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_ADAM_EXTRAS = ("amsgrad", "capturable", "decoupled_weight_decay", "differentiable", "maximize")


class Layer:
    """A linear layer or the first convolution, perhaps with a ReLU."""

    def __init__(self, module: nn.Linear | nn.Conv2d) -> None:
        self.module, self.relu = module, False
        self.parameters = list(module.parameters())
        self.gradients = [torch.zeros_like(weight) for weight in self.parameters]
        self.arrays = _matrix_and_vector(self.parameters)
        self.gradient_arrays = _matrix_and_vector(self.gradients)


class CompiledNetwork:
    """Layers in a row, forward and backward; see the module."""

    def __init__(self, layers: list[Layer], shape: tuple[int, int], divisor: Array) -> None:
        self.shape, self.divisor, self.first = shape, divisor, layers[0].module
        self.weights, self.biases = zip(*(layer.arrays for layer in layers), strict=True)
        self.slots = tuple(zip(*(layer.gradient_arrays for layer in layers), strict=True))
        self.rectified = np.array([layer.relu for layer in layers])
        self.parameters = [weight for layer in layers for weight in layer.parameters]
        self.gradients = [gradient for layer in layers for gradient in layer.gradients]
        self.inputs: dict[Any, Any] = {}
        self.rooms: dict[int, Any] = {}
        self.last: tuple[Any, ...] = ()  # input and outputs to go back from
        self.moments: list[Any] = []  # Adam's, three for every parameter
        self.vectors: list[Any] = []  # all parameters, their gradients and their moments

    def prepare(self, *batches: Any) -> Sequence[Array]:
        number = len(batches)  # so that others who ask meanwhile get memory of their own
        return [self._columns(x, (number, i)) for i, x in enumerate(batches)]

    def _columns(self, observations: Any, place: tuple[int, int]) -> Array:
        """Return the input of the first layer, one column per observation or patch."""
        x = observations.numpy() if isinstance(observations, Tensor) else observations
        x = x.astype(np.float32) if x.dtype == np.float16 else x  # which numba does not know
        key = *place, x.shape
        if key not in self.inputs:
            _forget_some(self.inputs)
            self.inputs[key] = _room_for_input(self.first, x.shape)
        *room, first = self.inputs[key]
        rows = np.ascontiguousarray(x).reshape(len(x), -1)
        kernels.prepare(rows, self.divisor, *room)
        return cast(Array, first)

    def forward(self, prepared: Array) -> Tensor:
        outcomes, *last = self._forward(prepared)
        self.last = tuple(last)
        return outcomes

    def predict(self, *prepared: Array) -> Sequence[Tensor]:
        return [self._forward(batch)[0] for batch in prepared]

    def _forward(self, x: Array) -> tuple[Tensor, Array, Any]:
        room, number = self._room(x.shape[1]), math.prod(self.shape)
        outcomes = np.empty((room[0][-1].shape[1], number), np.float32)
        kernels.forward(x, self.weights, self.biases, self.rectified, room[0], outcomes)
        return torch.from_numpy(outcomes.reshape(-1, *self.shape)), x, room

    def _room(self, columns: int) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Return memory for the outputs of all layers and for their gradients, used again."""
        if columns not in self.rooms:
            _forget_some(self.rooms)
            shapes = [(len(self.weights[0]), columns)]
            for before, weight in pairwise(self.weights):
                shapes.append((len(weight), len(before) * shapes[-1][1] // weight.shape[1]))
            self.rooms[columns] = tuple(
                tuple(np.empty(shape, np.float32) for shape in shapes) for _ in range(2)
            )
        room: tuple[tuple[Array, ...], tuple[Array, ...]] = self.rooms[columns]
        return room

    def backward(self, slope: Tensor) -> float:
        x, (outputs, slopes) = self.last
        rows = slope.numpy().reshape(len(slope), -1)
        arrays = self.weights, self.rectified, outputs, rows, slopes
        norm: float = kernels.backward(x, *arrays, *self.slots)
        for weight, gradient in zip(self.parameters, self.gradients, strict=True):
            if weight.grad is not gradient:
                weight.grad = gradient
        return norm

    def step(self, optimizer: Optimizer, scale: float) -> None:
        states = [
            optimizer.state[weight] or _no_moments(optimizer, weight) for weight in self.parameters
        ]
        moments = [state[name] for name in _MOMENTS for state in states]
        if len(moments) != len(self.moments) or any(map(is_not, moments, self.moments)):
            self._find_vectors(moments)
        group = optimizer.param_groups[0]
        beta_mean, beta_square = map(float, group["betas"])
        numbers = float(group["lr"]), beta_mean, beta_square, float(group["eps"])
        kernels.adam(scale, numbers, *self.vectors)

    def _find_vectors(self, moments: list[Tensor]) -> None:
        """Find the arrays that Adam works on; doing it in every update would cost a tenth of it."""
        self.moments, count = moments, len(self.parameters)
        tensors = [*self.parameters, *self.gradients, *moments]
        self.vectors = [
            tuple(map(_vector, tensors[i : i + count])) for i in range(0, len(tensors), count)
        ]


def _forget_some(memory: dict[Any, Any]) -> None:
    if len(memory) > 8:  # batch sizes vary
        memory.clear()


def _no_moments(optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
    """Return the moments of a parameter before the first step, as Adam itself makes them."""
    zeros = torch.zeros_like(weight), torch.zeros_like(weight), torch.zeros(())
    optimizer.state[weight] = dict(zip(_MOMENTS, zeros, strict=True))
    state: dict[str, Tensor] = optimizer.state[weight]
    return state


def _vector(x: Tensor) -> Array:
    array: Array = x.detach().numpy()
    return array.reshape(-1)


def _matrix_and_vector(parameters: Sequence[Tensor]) -> tuple[Array, Array]:
    """Return the weights as a matrix and the biases as a vector, zeros if there are none."""
    weight, *bias = (parameter.detach().numpy() for parameter in parameters)
    matrix = weight.reshape(len(weight), -1)
    return matrix, bias[0] if bias else np.zeros(len(matrix), np.float32)


def _room_for_input(module: nn.Module, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return memory for observations as columns, and for the patches that a convolution sees.

    Between them are the size and the stride of its filters; the last is what the layer takes.
    """
    batch, numbers = shape[0], math.prod(shape[1:])
    if not isinstance(module, nn.Conv2d):
        columns = np.empty((numbers, 1, 1, batch), np.float32)
        none = np.empty((0, 0, 0, 0, 0, 0), np.float32)
        return columns, (1, 1), 1, none, columns.reshape(numbers, batch)
    (high, wide), stride = module.kernel_size, module.stride[0]
    channels, height, width = shape[1:]
    places = (height - high) // stride + 1, (width - wide) // stride + 1
    seen = np.empty((channels, high, wide, *places, batch), np.float32)
    boards = np.empty((channels, height, width, batch), np.float32)
    return boards, (high, wide), stride, seen, seen.reshape(channels * high * wide, -1)


def _is_plain_adam(optimizer: Optimizer) -> bool:
    group = optimizer.param_groups[0]
    return (
        type(optimizer) is Adam
        and len(optimizer.param_groups) == 1
        and group["weight_decay"] == 0
        and not any(group.get(extra) for extra in _ADAM_EXTRAS)
        and not (optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)
        and "step" not in vars(optimizer)
    )


def make_networks(
    policy: BasePolicy, networks: Sequence[BasePolicy], shape: tuple[int, int]
) -> Sequence[Network]:
    """Return the networks of a policy, as fast as what was changed in them allows."""
    if not is_untouched(policy) or not all(map(_is_known, networks)):
        return [AutogradNetwork(network, shape) for network in networks]
    modules = [_parts([network.features_extractor, _head(network)]) for network in networks]
    layers = [_layers(parts) for parts in modules]
    if _is_plain_adam(policy.optimizer) and all(layers):
        divisors = map(_divisor, networks)
        return [CompiledNetwork(x or [], shape, y) for x, y in zip(layers, divisors, strict=True)]
    return [
        PlainNetwork(network, shape, parts, _image_divisor(network))
        for network, parts in zip(networks, modules, strict=True)
    ]


def is_untouched(policy: BasePolicy) -> bool:
    """Return whether a policy is the library's, no module hooked and no method overridden."""
    hooked = _any_global_hook() or any(
        getattr(module, hooks) for module in policy.modules() for hooks in _HOOKS
    )
    overridden = any(
        callable(getattr(type(module), name, None)) and not isinstance(value, nn.Module)
        for module in policy.modules()
        for name, value in vars(module).items()
    )
    return type(policy) in _POLICIES and not (hooked or overridden)


def _is_known(network: BasePolicy) -> bool:
    box = isinstance(network.observation_space, spaces.Box)
    return box and type(network) in (QNetwork, QuantileNetwork)


def _head(network: Any) -> nn.Module:
    head: nn.Module = network.q_net if isinstance(network, QNetwork) else network.quantile_net
    return head


def _layers(modules: Iterable[nn.Module]) -> list[Layer] | None:
    """Return modules as layers, or None if one of them has no compiled form."""
    layers: list[Layer] = []
    for module in modules:
        if type(module) is nn.Linear or (not layers and _is_small_convolution(module)):
            layers.append(Layer(cast(Any, module)))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            layers[-1].relu = True
        elif type(module) not in (nn.Flatten, FlattenExtractor, RescaledExtractor):
            return None
    weights = [weight for layer in layers for weight in layer.parameters]
    simple = layers and not layers[-1].relu and len(set(map(id, weights))) == len(weights)
    return layers if simple and all(map(_is_ordinary, weights)) else None


def _parts(modules: Iterable[Any]) -> list[nn.Module]:
    """Return modules applied in turn, without the containers around them."""
    parts: list[nn.Module] = []
    for module in modules:
        if type(module) is nn.Sequential:
            parts += _parts(module)
        elif type(module) is MinAtarCNN:
            parts += _parts(module.layers)
        elif type(module) is NatureCNN:
            parts += _parts([module.cnn, module.linear])
        else:
            parts.append(module)
    return parts


def _is_small_convolution(module: nn.Module) -> bool:
    return (
        type(module) is nn.Conv2d
        and module.weight.numel() < LARGE_CONVOLUTION
        and module.stride[0] == module.stride[1]
        and (module.padding, module.dilation, module.groups) == ((0, 0), (1, 1), 1)
    )


def _is_ordinary(weight: nn.Parameter) -> bool:
    """Return whether a parameter is in single precision on the CPU and learnt without hooks."""
    learnt = type(weight) is nn.Parameter and weight.requires_grad and not _is_hooked(weight)
    here = weight.device.type == "cpu" and weight.is_contiguous()
    return learnt and here and weight.dtype == torch.float32


def _is_hooked(weight: Tensor) -> bool:
    return bool(weight._backward_hooks or weight._post_accumulate_grad_hooks)


def _divisor(network: BasePolicy) -> Array:
    """Return what observations are divided by before the first layer, one number or one each."""
    scale, extractor = np.array([_image_divisor(network)], np.float32), network.features_extractor
    if isinstance(extractor, RescaledExtractor):
        scale = scale * extractor.bounds.numpy().reshape(-1)
    return scale


def _image_divisor(network: BasePolicy) -> float:
    image = network.normalize_images and is_image_space(network.observation_space)
    return 255.0 if image else 1.0


def fingerprint(policy: BasePolicy, modules: Iterable[nn.Module]) -> list[Any]:
    """Return what stays the same while compiled networks, of these modules, are the policy's."""
    optimizer = policy.optimizer
    parts: list[Any] = [policy, optimizer, _is_plain_adam(optimizer), _any_global_hook()]
    for module in modules:
        own = vars(module)
        parts += own.get("normalize_images"), len(own), any(map(own.__getitem__, _HOOKS))
        parts += own["_modules"].values()
        for buffer in own["_buffers"].values():
            parts.append(buffer if buffer is None else buffer._version)
        for weight in own["_parameters"].values():
            if weight is not None:
                parts += id(weight), weight.data_ptr(), weight.requires_grad, _is_hooked(weight)
    return parts
