"""Small networks on the CPU without PyTorch's bookkeeping: the same numbers, up to rounding.

A network is compiled if it is a ``QNetwork`` or ``QuantileNetwork`` of linear layers, each
followed by a ReLU or by nothing, perhaps after one small convolution, and if no part of it was
overridden, hooked or frozen. Every other network is left to autograd.

Activations have the batch on their last axis, since W x is faster than x Wᵀ where the batch is
shorter than the layer. The convolution is a linear layer of the patches its filters see.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
_ADAM_EXTRAS = ("amsgrad", "capturable", "decoupled_weight_decay", "differentiable", "maximize")


class Memory(dict[tuple[int, ...], Array]):
    """Arrays by their shape, to be used again: allocating large ones is slow."""

    def __missing__(self, shape: tuple[int, ...]) -> Array:
        if len(self) > 32:  # batch sizes vary
            self.clear()
        self[shape] = np.empty(shape, np.float32)
        return self[shape]


class Layer:
    """A linear layer or the first convolution, perhaps with a ReLU."""

    def __init__(self, module: nn.Linear | nn.Conv2d) -> None:
        self.module, self.relu = module, False
        self.parameters = list(module.parameters())
        self.gradients = [torch.zeros_like(weight) for weight in self.parameters]
        self.weight, self.bias = _matrix_and_vector(self.parameters)
        self.weight_gradient, self.bias_gradient = _matrix_and_vector(self.gradients)
        self.x = self.y = self.weight  # of the last forward pass
        self.outputs, self.slopes = Memory(), Memory()

    def forward(self, x: Array) -> Array:
        """Return W x + b, or its positive part."""
        self.x, self.y = x, self.outputs[len(self.weight), x.shape[1]]
        kernels.dense(self.weight, self.bias, x, self.relu, self.y)
        return self.y

    def backward(self, slope: Array, further: bool) -> Array:
        """Set the gradients of the weights; return that of the input if it goes further."""
        before = self.slopes[self.x.shape if further else (0, 0)]
        kernels.dense_backward(
            *(self.weight, self.x, self.y, self.relu),
            *(slope, self.weight_gradient, self.bias_gradient, before),
        )
        return before


class CompiledNetwork:
    """Layers in a row, forward and backward; see the module."""

    def __init__(self, layers: list[Layer], shape: tuple[int, int], divisor: Array) -> None:
        self.layers, self.shape, self.divisor = layers, shape, divisor
        self.inputs: defaultdict[tuple[int, int], Memory] = defaultdict(Memory)
        self.weights = [weight for layer in layers for weight in layer.parameters]
        self.gradients = [gradient for layer in layers for gradient in layer.gradients]

    def prepare(self, *batches: Any) -> Sequence[Array]:
        number = len(batches)  # so that others who ask meanwhile get memory of their own
        return [self._columns(x, self.inputs[number, i]) for i, x in enumerate(batches)]

    def _columns(self, observations: Any, memory: Memory) -> Array:
        """Return the input of the first layer, one column per observation or patch."""
        x = np.ascontiguousarray(observations)
        x = x.astype(np.float32) if x.dtype == np.float16 else x  # which numba does not know
        if isinstance(self.layers[0].module, nn.Conv2d):
            return self._patches(x, self.layers[0].module, memory)
        rows = x.reshape(len(x), -1)
        columns = memory[rows.shape[::-1]]
        kernels.columns(rows, self.divisor, columns)
        return columns

    def _patches(self, x: Array, module: nn.Conv2d, memory: Memory) -> Array:
        (high, wide), stride = module.kernel_size, module.stride[0]
        places = ((x.shape[2] - high) // stride + 1) * ((x.shape[3] - wide) // stride + 1)
        patches = memory[places * len(x), self.layers[0].weight.shape[1]]
        kernels.patches(x, (high, wide), stride, self.divisor, patches)
        return patches.T

    def forward(self, prepared: Array) -> Tensor:
        first, *others = self.layers
        x = first.forward(prepared)
        for layer in others:
            x = layer.forward(x.reshape(layer.weight.shape[1], -1))
        return torch.from_numpy(np.array(x.T, order="C")).view(-1, *self.shape)

    def predict(self, *prepared: Array) -> Sequence[Tensor]:
        return [self.forward(batch) for batch in prepared]

    def backward(self, slope: Tensor) -> float:
        columns = np.ascontiguousarray(slope.numpy().reshape(len(slope), -1).T)
        squares = 0.0
        for layer in reversed(self.layers):
            columns = layer.backward(columns.reshape(layer.y.shape), layer is not self.layers[0])
        for weight, gradient in zip(self.weights, self.gradients, strict=True):
            weight.grad = gradient
            squares += kernels.sum_of_squares(gradient.numpy().reshape(-1))
        return math.sqrt(squares)

    def step(self, optimizer: Optimizer, scale: float) -> None:
        if scale != 1:
            torch._foreach_mul_(self.gradients, scale)
        states = [optimizer.state.get(weight, {}) for weight in self.weights]
        if not all(states):
            optimizer.step()  # the first makes them
            return
        group = optimizer.param_groups[0]
        numbers = [float(number) for number in (group["lr"], *group["betas"], group["eps"])]
        for weight, gradient, state in zip(self.weights, self.gradients, states, strict=True):
            vectors = weight.data, gradient, state["exp_avg"], state["exp_avg_sq"]
            w, g, mean, square = (vector.numpy().reshape(-1) for vector in vectors)
            kernels.adam(w, g, mean, square, state["step"].numpy(), *numbers)


def _matrix_and_vector(parameters: Sequence[Tensor]) -> tuple[Array, Array]:
    """Return the weights as a matrix and the biases as a vector, zeros if there are none."""
    weight, *bias = (parameter.detach().numpy() for parameter in parameters)
    matrix = weight.reshape(len(weight), -1)
    return matrix, bias[0] if bias else np.zeros(len(matrix), np.float32)


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
