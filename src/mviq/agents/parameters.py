"""Weights and optimiser states from outside: checked whole before any of it is put in place."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any

from torch import Tensor
from torch.nn import Module
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.optim import Optimizer


def check_parameters(agent: Any, parameters: dict[str, Any]) -> None:
    """Refuse weights or moments that are not those of an agent like this one.

    ``load_state_dict`` would find out about some of it, but after having changed the rest.
    """
    if "policy" in parameters:
        _check_tensors("the policy", agent.policy.state_dict(), parameters["policy"])
    if "policy.optimizer" in parameters:
        _check_moments(agent.policy.optimizer, parameters["policy.optimizer"]["state"])


def _check_tensors(whose: str, own: dict[str, Tensor], found: dict[str, Any]) -> None:
    odd = sorted(map(str, own.keys() ^ found.keys()))
    if odd:
        raise ValueError(f"{whose} has other weights: {', '.join(odd[:3])} missing or unknown")
    for name, value in own.items():
        other = found[name]
        if other.shape != value.shape or other.dtype != value.dtype:
            raise ValueError(
                f"{name} must be {tuple(value.shape)} of {value.dtype}, "
                f"got {tuple(other.shape)} of {other.dtype}"
            )


def _check_moments(optimizer: Optimizer, state: dict[int, dict[str, Any]]) -> None:
    """Require moments of all parameters or of none, each a number or shaped as its parameter."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    if state and sorted(state) != list(range(len(weights))):
        raise ValueError(f"the optimiser has {len(weights)} parameters, got {sorted(state)}")
    for index, moments in state.items():
        if moments.keys() != state[0].keys():
            raise ValueError(f"the optimiser's parameters 0 and {index} have different moments")
        for name, value in moments.items():
            shape = weights[index].shape
            if isinstance(value, Tensor) and value.dim() > 0 and value.shape != shape:
                raise ValueError(
                    f"moment {name} of parameter {index} must be {tuple(shape)}, "
                    f"got {tuple(value.shape)}"
                )


def optimizer_state(
    optimizer: Optimizer, groups: Any, moments: dict[str, Tensor]
) -> dict[str, Any]:
    """Return the state of an optimiser from the settings and tensors of a file."""
    own = optimizer.state_dict()["param_groups"]
    if not isinstance(groups, list) or len(groups) != len(own):
        raise ValueError(f"the optimiser must have {len(own)} groups of parameters")
    for group, expected in zip(groups, own, strict=True):
        _check_group(group, expected)
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        index, _, name = key.partition(".")
        if not (index.isascii() and index.isdigit() and len(index) < 9 and name):
            raise ValueError(f"{key!r} is not a moment of the optimiser")
        state.setdefault(int(index), {})[name] = value
    settings = [_settings(group, expected) for group, expected in zip(groups, own, strict=True)]
    return {"state": state, "param_groups": settings}


def _settings(group: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a file; switches, such as fused, are for the agent's arguments."""
    numbers = {name: value for name, value in group.items() if not _is_switch(expected[name])}
    return expected | numbers


def _check_group(group: Any, expected: dict[str, Any]) -> None:
    if not isinstance(group, dict):
        raise ValueError(f"a group of the optimiser must be a dictionary, got {group!r:.40}")
    for name, value in group.items():
        if name not in expected or not _alike(value, expected[name]):
            raise ValueError(f"{name} of the optimiser cannot be {value!r:.40}")
    if group.get("params") != expected["params"]:
        raise ValueError("the optimiser has other parameters")


def _alike(value: Any, expected: Any) -> bool:
    """Return whether a setting has the kind of the one expected."""
    if isinstance(expected, tuple | list):
        same = type(value) is type(expected) and len(value) == len(expected)
        return same and all(map(_alike, value, expected))
    if _is_switch(expected):
        return _is_switch(value)
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and 0 <= value < float("inf")


def _is_switch(value: Any) -> bool:
    return value is None or isinstance(value, bool)


@contextmanager
def no_more_weights_than(limit: int) -> Iterator[None]:
    """Stop the building of a network that would have more weights than its file has.

    A file can ask for layers of any width. Memory that is asked for but not yet written to costs
    nothing, and a layer registers its weights before it writes to them.
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
