"""Decide which networks can be compiled, and detect when that has changed.

A network is compiled if it is a ``QNetwork`` or ``QuantileNetwork`` of linear layers, each
followed by a ReLU or by nothing, optionally after one small convolution, and if no part of it is
overridden, hooked or frozen; likewise one that embeds fractions of implicit quantiles, unless it
has a dueling head. All other networks use autograd.
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, cast

import torch
from gymnasium import spaces
from sb3_contrib.qrdqn.policies import CnnPolicy as QuantileCnnPolicy
from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import FlattenExtractor, NatureCNN
from stable_baselines3.dqn.policies import CnnPolicy, DQNPolicy, QNetwork
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.optim import Adam, Optimizer

from mviq.agents.compiled import CompiledNetwork, Layer, image_divisor
from mviq.agents.extractors import MinAtarCNN, RescaledExtractor
from mviq.agents.networks import LARGE_CONVOLUTION, AutogradNetwork, Network, PlainNetwork

_any_global_hook: Any = _has_any_global_hook
POLICIES: set[type] = {DQNPolicy, CnnPolicy, QRDQNPolicy, QuantileCnnPolicy}
HEADS = {QNetwork: "q_net", QuantileNetwork: "quantile_net"}
"""The last layers, by network; a critic in its own file adds itself."""
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_hooks = itemgetter(*_HOOKS)
_ADAM_EXTRAS = ("amsgrad", "capturable", "decoupled_weight_decay", "differentiable", "maximize")


def make_networks(
    policy: BasePolicy, networks: Sequence[BasePolicy], shape: tuple[int, int], compiled: bool
) -> Sequence[Network]:
    """Return the networks of a policy in the fastest form with the same results.

    They are compiled only if ``compiled``, that is, if the update is compiled too.
    """
    own = set(networks) <= set(policy.modules())
    if not (own and is_untouched(policy) and all(map(_is_known, networks))):
        return [AutogradNetwork(network, shape) for network in networks]
    learnt = set(networks[0].parameters()) <= set(policy.optimizer.param_groups[0]["params"])
    if compiled and learnt and _is_plain_adam(policy.optimizer):
        fast = [_compiled(network, shape) for network in networks]
        if all(fast):
            return cast(list[CompiledNetwork], fast)
    plain = []
    for network in networks:
        head = getattr(network, "quantiles", _head(network))  # implicit ones need more than layers
        modules = _parts([network.features_extractor, head])
        plain.append(PlainNetwork(network, shape, modules, image_divisor(network)))
    return plain


def fingerprint(policy: BasePolicy, modules: Iterable[nn.Module]) -> list[Any]:
    """Return a list that changes whenever the networks of the policy must be made again."""
    optimizer = policy.optimizer
    parts: list[Any] = [policy, optimizer, _is_plain_adam(optimizer), _any_global_hook()]
    for own in map(vars, modules):
        before, after, before_back, after_back = _hooks(own)
        parts.append(bool(before or after or before_back or after_back))
        parts += len(own), own.get("normalize_images"), *own["_modules"].values()
        for buffer in own["_buffers"].values():
            parts += id(buffer), buffer if buffer is None else buffer._version
        for weight in own["_parameters"].values():
            if weight is not None:
                parts += weight.data_ptr(), weight.requires_grad, _is_hooked(weight), id(weight)
    return parts


def is_untouched(policy: BasePolicy) -> bool:
    """Return whether a policy is one of SB3's, without hooks and overridden methods."""
    hooked = _any_global_hook() or any(
        getattr(module, hooks) for module in policy.modules() for hooks in _HOOKS
    )
    overridden = any(
        callable(getattr(type(module), name, None)) and not isinstance(value, nn.Module)
        for module in policy.modules()
        for name, value in vars(module).items()
    )
    return type(policy) in POLICIES and not (hooked or overridden)


def _is_known(network: BasePolicy) -> bool:
    box = isinstance(network.observation_space, spaces.Box)
    return box and type(network) in HEADS


def _head(network: BasePolicy) -> Any:
    return getattr(network, HEADS[type(network)])


def _compiled(network: Any, shape: tuple[int, int]) -> CompiledNetwork | None:
    """Return the compiled form of a network, None if it has none."""
    features, head, embedding = [network.features_extractor], _parts([_head(network)]), []
    if hasattr(network, "embedding"):
        features, embedding = [*features, network.features_net], [network.embedding]
    features = _parts(features)
    all_known = set(_weighted(network.modules())) == set(_weighted([*features, *head, *embedding]))
    layers, phi = _layers([*features, *head]), _layers(embedding)
    weights = [weight for layer in [*layers, *phi] for weight in layer.parameters]
    simple = layers and not layers[-1].relu and len(set(map(id, weights))) == len(weights)
    simple = simple and len(phi) == len(embedding) and all(map(_is_ordinary, weights))
    if not (simple and all_known and getattr(network, "value_net", None) is None):
        return None
    return CompiledNetwork(layers, network, shape, begin=len(_weighted(features)))


def _weighted(modules: Iterable[nn.Module]) -> list[nn.Module]:
    """Return the modules that have weights of their own."""
    return [module for module in modules if module._parameters]


def _layers(modules: Iterable[nn.Module]) -> list[Layer]:
    """Return modules as layers, none at all if one of them has no compiled form."""
    layers: list[Layer] = []
    for module in modules:
        dense = type(module) is nn.Linear
        if (dense or (not layers and _is_small_convolution(module))) and module.bias is not None:
            layers.append(Layer(cast(Any, module)))
        elif type(module) is nn.ReLU and layers and not layers[-1].relu:
            layers[-1].relu = True
        elif type(module) not in (nn.Flatten, FlattenExtractor, RescaledExtractor):
            return []
    return layers


def _parts(modules: Iterable[Any]) -> list[nn.Module]:
    """Return the modules in the order in which they are applied, with containers unpacked."""
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
    """Return whether a parameter is trainable, contiguous float32 on the CPU, without hooks."""
    learnt = type(weight) is nn.Parameter and weight.requires_grad and not _is_hooked(weight)
    here = weight.device.type == "cpu" and weight.is_contiguous()
    return learnt and here and weight.dtype == torch.float32


def _is_hooked(weight: Tensor) -> bool:
    return bool(weight._backward_hooks or weight._post_accumulate_grad_hooks)


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
