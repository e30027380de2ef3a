"""Check and load weights and optimiser states; an invalid one changes nothing."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim import Optimizer

_NUMBERS = ("step", "mu_product")  # entries of PyTorch's optimiser states that are scalars


def uncompiled(policy: Any) -> Any:
    """Return the policy inside a ``torch.compile`` wrapper, whose weights have the usual names."""
    return getattr(policy, "_orig_mod", policy)


def check_weights(policy: Module, given: dict[str, Any]) -> None:
    """Check that weights have the names, shapes and types of a policy's weights.

    ``load_state_dict`` also checks names and shapes, but only after it has loaded other weights.
    """
    own = uncompiled(policy).state_dict()
    odd = sorted(map(str, own.keys() ^ given.keys()))
    if odd:
        raise ValueError(f"the policy has other weights: {', '.join(odd[:3])} missing or unknown")
    for name, value in own.items():
        other = given[name]
        if not isinstance(other, Tensor):
            raise ValueError(f"{name} must be a tensor, got {other!r:.40}")
        if other.shape != value.shape or other.dtype != value.dtype:
            raise ValueError(
                f"{name} must be {tuple(value.shape)} of {value.dtype}, "
                f"got {tuple(other.shape)} of {other.dtype}"
            )


def check_moments(optimizer: Optimizer, state: dict[int, dict[str, Any]]) -> None:
    """Check that all parameters or none have moments, of their shape; step counts are scalars."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if state and sorted(state) != list(range(len(weights))):
        raise ValueError(f"the optimiser has {len(weights)} parameters, got {sorted(state)}")
    for index, moments in state.items():
        if moments.keys() != state[0].keys():
            raise ValueError(f"the optimiser's parameters 0 and {index} have different moments")
        for name, value in moments.items():
            shape = torch.Size() if name in _NUMBERS else weights[index].shape
            counted = name in _NUMBERS and type(value) is int
            if not counted and (not isinstance(value, Tensor) or value.shape != shape):
                raise ValueError(
                    f"moment {name} of parameter {index} must be {tuple(shape)}, "
                    f"got {getattr(value, 'shape', value)!r:.40}"
                )


def load_moments(optimizer: Optimizer, moments: dict[int, dict[str, Tensor]]) -> None:
    """Load the moments of an optimiser, each with the memory layout of its parameter.

    Its settings are kept: they follow from the arguments and the learning rate schedule.
    """
    optimizer.load_state_dict(optimizer.state_dict() | {"state": moments})
    lay_out_moments(optimizer)


def lay_out_moments(optimizer: Optimizer) -> None:
    """Copy all moments, so that they share no memory and have the layout of their parameters."""
    for parameter, own in optimizer.state.items():
        for name, value in own.items():
            if not isinstance(value, Tensor):
                continue
            like = parameter if value.shape == parameter.shape else value
            own[name] = torch.empty_like(like).copy_(value).detach()


@contextmanager
def no_more_weights_than(limit: int) -> Iterator[None]:
    """Raise a ``ValueError`` as soon as a network is built with more weights than its file has.

    A file can specify layers of any width. A layer registers its weights before it initialises
    them, and memory that is allocated but not written to costs nothing.
    """
    counted, mine = 0, threading.get_ident()

    def count(module: Module, name: str, weight: Any) -> None:
        nonlocal counted
        if threading.get_ident() == mine and weight is not None:
            counted += weight.numel()
            if counted > limit:
                raise ValueError(f"its network is larger than its {limit} weights")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
