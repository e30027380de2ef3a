"""The arguments of an agent: their names, and the values that each may have."""

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from numbers import Integral, Real
from typing import Any, Literal, TypedDict, get_args

import gymnasium as gym
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import NatureCNN
from stable_baselines3.common.type_aliases import Schedule, TrainFrequencyUnit

from mviq.env_families import ATARI, family_of
from mviq.messages import did_you_mean
from mviq.tsallis import Family

Acting = Literal["epsilon_greedy", "sample"]
Rule = tuple[Callable[[Any], bool], str]
POINT = tuple(field.name for field in fields(Family))
SCHEDULED = ("q", "temperature", "munchausen_alpha")
"""Numbers of the family that may be functions of the progress remaining, like a learning rate."""
_NOT_STORED = {"self", "env", "device", "_init_setup_model"}
LARGEST = 2**62  # of a whole number, within NumPy's int64
_SMALLEST_PICTURE = 36  # pixels a side; smaller images vanish in NatureCNN's convolutions


class BaseArguments(TypedDict, total=False):
    """The arguments of ``DQN`` and ``QRDQN`` after policy and environment, for type checkers."""

    learning_rate: float | Schedule
    buffer_size: int
    learning_starts: int
    batch_size: int
    tau: float
    gamma: float
    train_freq: int | tuple[int, str]
    gradient_steps: int
    replay_buffer_class: type[ReplayBuffer] | None
    replay_buffer_kwargs: dict[str, Any] | None
    optimize_memory_usage: bool
    n_steps: int
    target_update_interval: int
    exploration_fraction: float
    exploration_initial_eps: float
    exploration_final_eps: float
    max_grad_norm: float | None
    stats_window_size: int
    tensorboard_log: str | None
    policy_kwargs: dict[str, Any] | None
    verbose: int
    seed: int | None
    device: torch.device | str


def signature_of(agent_class: Any) -> inspect.Signature:
    """Return the signature of an agent: the arguments of its base, then its own as keywords."""
    parameters = list(inspect.signature(agent_class.__init__).parameters.values())[1:]
    positional = [i for i, x in enumerate(parameters) if x.kind is x.VAR_POSITIONAL]
    if positional and "base" in vars(agent_class):
        base = list(inspect.signature(agent_class.base.__init__).parameters.values())[1:]
        known = {parameter.name for parameter in base}
        own = [x for x in parameters if x.kind is x.KEYWORD_ONLY and x.name not in known]
        parameters = base + own
    return inspect.Signature(parameters)


def by_name(agent_class: Any, positional: tuple[Any, ...]) -> dict[str, Any]:
    """Return positional arguments after policy and environment, by their names in the base."""
    names = list(inspect.signature(agent_class.base.__init__).parameters)[3:]
    if len(positional) > len(names):
        raise TypeError(
            f"{agent_class.__name__} takes at most {len(names) + 2} positional arguments"
        )
    return dict(zip(names, positional, strict=False))


def argument_names(agent_class: Any) -> set[str]:
    """Return the names of the arguments that are saved with an agent."""
    parameters = inspect.signature(agent_class.__init__).parameters
    variable = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    own = {name for name, parameter in parameters.items() if parameter.kind not in variable}
    return (_base_names(agent_class) | own) - _NOT_STORED


def _base_names(agent_class: Any) -> set[str]:
    base = inspect.signature(agent_class.base.__init__).parameters
    return {*base, *POINT, "acting", "value_limit"}


def arguments_of_subclass(agent_class: Any, positional: Any, named: Any) -> dict[str, Any]:
    """Return the arguments that a custom subclass adds, with their given or default values."""
    signature = inspect.signature(agent_class.__init__)
    try:
        bound = signature.bind(None, *positional, **named)
    except TypeError:  # the constructor will raise it
        return {}
    bound.apply_defaults()
    own = argument_names(agent_class) - _base_names(agent_class)
    return {name: value for name, value in bound.arguments.items() if name in own}


def arguments_of(agent: Any) -> dict[str, Any]:
    """Return the arguments that build an agent like this one."""
    buffer_class, buffer_kwargs = agent._chosen_buffer
    log = agent.tensorboard_log
    stored = {
        "policy": _alias(agent),
        "stats_window_size": agent._stats_window_size,
        "replay_buffer_class": buffer_class,
        "replay_buffer_kwargs": buffer_kwargs,
        "tensorboard_log": None if log is None else os.fspath(log),
        **asdict(agent.family),
        **agent._schedules,
    }
    attributes = sorted(argument_names(type(agent)) - stored.keys() - agent._given.keys())
    given: dict[str, Any] = agent._given
    return stored | given | {name: getattr(agent, name) for name in attributes}


def _alias(agent: Any) -> Any:
    aliases = [name for name, kind in agent.policy_aliases.items() if kind is agent.policy_class]
    return aliases[0] if aliases else agent.policy_class


def check_arguments(agent_class: Any, arguments: dict[str, Any]) -> None:
    """Check the names and values of arguments, except values that ``Family`` checks."""
    known = argument_names(agent_class) | _NOT_STORED
    for name, value in arguments.items():
        if name not in known:
            close = did_you_mean(name, known)
            raise TypeError(f"{agent_class.__name__} has no argument {name!r}{close}")
        good, allowed = _RULES.get(name, _ANYTHING)
        if not good(value):
            raise ValueError(f"{name} must be {allowed}, got {value!r}")


def check_fit(agent: Any) -> None:
    """Check that the arguments of an agent fit each other and its environment."""
    actions = getattr(agent, "action_space", None)
    if not isinstance(actions, spaces.Discrete):
        raise ValueError(f"env must be an environment of discrete actions, its space is {actions}")
    rows = max(agent.buffer_size // agent.n_envs, 1)
    if agent.n_steps > rows:
        raise ValueError(f"n_steps must be at most buffer_size/n_envs {rows}, got {agent.n_steps}")
    in_parts = isinstance(agent.observation_space, spaces.Dict)
    if in_parts and _is_subclass(agent.replay_buffer_class, NStepReplayBuffer):
        raise ValueError(
            "replay_buffer_class must be None, DictReplayBuffer or HerReplayBuffer for dictionary "
            f"observations, got {agent.replay_buffer_class.__name__}"
        )
    _check_network(agent)
    _check_mask(agent)


def _check_mask(agent: Any) -> None:
    parts = getattr(agent.observation_space, "spaces", {})
    mask = parts.get("action_mask") if isinstance(parts, dict) else None
    if mask is not None and mask.shape != (agent.action_space.n,):
        raise ValueError(
            f"action_mask must have one number for each of the {agent.action_space.n} actions, "
            f"its space is {mask}"
        )


def _check_network(agent: Any) -> None:
    """Check that NatureCNN can process the observations, and suggest MinAtarCNN if not."""
    if agent.policy_class is not agent.policy_aliases["CnnPolicy"]:
        return
    space = agent.observation_space
    chosen = agent.policy_kwargs.get("features_extractor_class", NatureCNN)
    scaled = not agent.policy_kwargs.get("normalize_images", True)
    picture = is_image_space(space, normalized_image=scaled)
    if chosen is NatureCNN and not (picture and min(space.shape[1:]) >= _SMALLEST_PICTURE):
        raise ValueError(
            f"the network of CnnPolicy needs pictures of bytes, {_SMALLEST_PICTURE}×"
            f"{_SMALLEST_PICTURE} or larger, got {space}; for MinAtar pass policy_kwargs="
            "{'features_extractor_class': mviq.agents.MinAtarCNN, 'net_arch': []}"
        )


def whole(least: int, most: int = LARGEST) -> Rule:
    """Return the rule for whole numbers in an interval."""
    limit = "" if most == LARGEST else f" and at most {most}"
    return (
        lambda value: isinstance(value, Integral) and least <= int(value) <= most,
        f"a whole number of at least {least}{limit}",
    )


def number(least: float, most: float = math.inf, above: bool = False) -> Rule:
    """Return the rule for finite numbers in an interval, with or without its lower end."""

    def good(value: Any) -> bool:
        if not isinstance(value, Real) or not math.isfinite(value):
            return False
        return least <= float(value) <= most and not (above and value == least)

    lower = f"> {least:g}" if above else f"≥ {least:g}"
    return good, f"a number {lower}" + ("" if most == math.inf else f" and ≤ {most:g}")


def _or(other: Callable[[Any], bool], word: str, rule: Rule) -> Rule:
    return lambda value: other(value) or rule[0](value), f"{rule[1]}, or {word}"


def _or_none(rule: Rule) -> Rule:
    return _or(lambda value: value is None, "None", rule)


def _or_float(rule: Rule) -> Rule:
    """Extend the rule for whole numbers to floats such as 1e4, which ``DQN`` accepts here."""
    good, allowed = rule
    return lambda x: good(int(x) if isinstance(x, float) and x.is_integer() else x), allowed


def _is_subclass(value: Any, of: type) -> bool:
    return isinstance(value, type) and issubclass(value, of)


def _is_frequency(value: Any) -> bool:
    """Return whether a value is like (4, "step") or (1, "episode"), in any of SB3's forms."""
    units = (*(unit.value for unit in TrainFrequencyUnit), *TrainFrequencyUnit)
    pair = isinstance(value, tuple) and len(value) == 2
    return pair and whole(1)[0](value[0]) and value[1] in units


_ANYTHING: Rule = (lambda value: True, "anything")
_OPTIONS = _or_none((lambda value: isinstance(value, dict), "a dictionary"))
_RULES: dict[str, Rule] = {
    "policy": (
        lambda value: isinstance(value, str) or _is_subclass(value, BasePolicy),
        "the name of a policy or a policy class",
    ),
    "env": (
        lambda value: not _is_unknown_atari(value),
        "mviq.envs.make(…) for Atari, which follows a protocol",
    ),
    "learning_rate": _or(callable, "a schedule", number(0)),
    "buffer_size": whole(1),
    "learning_starts": _or_float(whole(0)),
    "batch_size": whole(1),
    "tau": number(0, 1),
    "gamma": number(0, 1),
    "train_freq": _or(_is_frequency, '(n, "step") or (n, "episode")', whole(1)),
    "gradient_steps": whole(-1),
    "replay_buffer_class": _or_none(
        (lambda value: _is_subclass(value, ReplayBuffer), "a replay buffer class")
    ),
    "replay_buffer_kwargs": _OPTIONS,
    "optimize_memory_usage": (lambda value: isinstance(value, bool), "True or False"),
    "n_steps": whole(1),
    "target_update_interval": _or_float(whole(1)),
    "exploration_fraction": number(0, 1, above=True),
    "exploration_initial_eps": number(0, 1),
    "exploration_final_eps": number(0, 1),
    "max_grad_norm": _or_none(_or(lambda value: value == math.inf, "inf", number(0, above=True))),
    "stats_window_size": whole(1),
    "tensorboard_log": (lambda value: value is None or _is_path(value), "a directory, or None"),
    "policy_kwargs": _OPTIONS,
    "verbose": whole(0),
    "seed": _or_none(whole(0, 2**32 - 1)),
    "acting": (lambda value: value in get_args(Acting), f"one of {get_args(Acting)}"),
    "value_limit": (
        lambda value: isinstance(value, Real) and float(value) > 0,
        "a number > 0",
    ),
}


def _is_unknown_atari(env: Any) -> bool:
    unknown = isinstance(env, str) and env not in gym.registry
    return unknown and ":" not in env and family_of(env) is ATARI  # module:Id registers itself


def _is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)
