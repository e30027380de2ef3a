"""The state of an agent: everything that learning changes, apart from the replay buffer."""

from collections import deque
from collections.abc import Callable
from copy import deepcopy
from numbers import Real
from typing import Any, Literal, get_args

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.logger import Logger

from mviq.agents.arguments import LARGEST, Rule, number, whole
from mviq.agents.parameters import check_moments, check_weights, load_moments, uncompiled

LearningStatus = Literal["new", "learning", "finished", "stopped", "diverged", "failed"]
_STATUSES = get_args(LearningStatus)
LAST = ("_last_obs", "_last_original_obs", "_last_episode_starts")  # None to force a reset
_Logged = Real | np.bool_ | str | None  # images, figures and the like are not saved


def _list_of(good: Callable[[Any], bool], what: str) -> Rule:
    return lambda value: isinstance(value, list) and all(map(good, value)), f"a list of {what}"


def _is_number(value: Any) -> bool:
    array = isinstance(value, np.ndarray | np.generic)
    return value.dtype.kind in "biuf" if array else isinstance(value, Real)


def _is_episode(value: Any) -> bool:
    episode = isinstance(value, dict) and value.keys() == {"r", "l"}
    return episode and all(map(_is_number, value.values()))


def _is_logged(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 4 or not isinstance(value[3], tuple):
        return False
    name, content, count, excluded = value
    texts = all(isinstance(text, str) for text in (name, *excluded))
    return texts and isinstance(content, _Logged) and _COUNT[0](count)


_COUNT = whole(0)
_COUNTERS: dict[str, Rule] = {
    "num_timesteps": _COUNT,
    "exploration_rate": number(0, 1),
    "status": (lambda value: value in _STATUSES, f"one of {_STATUSES}"),
    "_total_timesteps": _COUNT,
    "_current_progress_remaining": number(-LARGEST, 1),
    "_episode_num": _COUNT,
    "_n_calls": _COUNT,
    "_n_updates": _COUNT,
}
_RULES: dict[str, Rule] = _COUNTERS | {
    "ep_info_buffer": _list_of(_is_episode, "returns r and lengths l"),
    "ep_success_buffer": _list_of(_is_number, "numbers"),
    "logged": _list_of(_is_logged, "names, values, counts and excluded formats"),
}
_NAMES = {"policy", "optimizer", "_replayed", *LAST, *_RULES}


def get_state(agent: Any) -> dict[str, Any]:
    """Return a copy of an agent's state, as plain data and tensors."""
    episodes = agent.ep_info_buffer or ()  # without the times and keywords of a Monitor
    state = {name: getattr(agent, name) for name in (*_COUNTERS, *LAST, "_replayed")}
    state |= {
        "policy": dict(uncompiled(agent.policy).state_dict()),
        "optimizer": agent.policy.optimizer.state_dict()["state"],
        "ep_info_buffer": [{"r": episode["r"], "l": episode["l"]} for episode in episodes],
        "ep_success_buffer": list(agent.ep_success_buffer or ()),
        "logged": _logged(agent.logger) if hasattr(agent, "_logger") else [],
    }
    for name in LAST[:2]:
        if isinstance(state[name], dict):  # a DictReplayBuffer reshapes Discrete parts
            shapes = {key: part.shape for key, part in agent.observation_space.spaces.items()}
            state[name] = {k: x.reshape(-1, *shapes[k]) for k, x in state[name].items()}
    return deepcopy(state)


def _logged(logger: Logger) -> list[Any]:
    """Return the values logged since the last ``dump``."""
    return [
        (name, value, logger.name_to_count.get(name, 0), logger.name_to_excluded.get(name, ()))
        for name, value in logger.name_to_value.items()
        if isinstance(value, _Logged)
    ]


def set_state(agent: Any, state: dict[str, Any]) -> None:
    """Check a state and load it into an agent."""
    check_state(agent, state)
    state = deepcopy(state)
    uncompiled(agent.policy).load_state_dict(state["policy"])
    load_moments(agent.policy.optimizer, state["optimizer"])
    vars(agent).update({name: state[name] for name in (*_COUNTERS, *LAST)})
    agent._replayed = _on(agent.device, state["_replayed"])
    for name in ("ep_info_buffer", "ep_success_buffer"):
        setattr(agent, name, deque(state[name], agent._stats_window_size))
    if not hasattr(agent, "_logger"):
        agent._logger = Logger(None, [])  # until ``learn`` configures one
    logger = agent.logger
    for pending in (logger.name_to_value, logger.name_to_count, logger.name_to_excluded):
        pending.clear()
    for name, value, count, excluded in state["logged"]:
        logger.name_to_value[name] = value
        logger.name_to_count[name] = count
        logger.name_to_excluded[name] = excluded


def _on(device: torch.device, batch: Any) -> Any:
    """Return a batch of observations on a device."""
    if isinstance(batch, dict):
        return {name: part.to(device) for name, part in batch.items()}
    return None if batch is None else batch.to(device)


def check_state(agent: Any, state: Any) -> None:
    """Raise a ``ValueError`` if a state does not fit the agent."""
    names = set(state) if isinstance(state, dict) else set()
    if names != _NAMES:
        odd = sorted(map(str, names ^ _NAMES))
        raise ValueError(f"its state must be {sorted(_NAMES)}, missing or unknown: {odd}")
    for name, (good, allowed) in _RULES.items():
        if not good(state[name]):
            raise ValueError(f"{name} must be {allowed}, got {state[name]!r:.40}")
    check_weights(agent.policy, state["policy"])
    check_moments(agent.policy.optimizer, state["optimizer"])
    space = agent.observation_space
    parts = isinstance(space, spaces.Dict)
    shapes = {name: part.shape for name, part in space.spaces.items()} if parts else space.shape
    for name, expected in zip(LAST, (shapes, shapes, ()), strict=True):
        if state[name] is not None:
            _check_batch(name, state[name], np.ndarray, expected, agent.n_envs)
    if state["_replayed"] is not None:
        shapes = agent.replay_buffer.obs_shape
        _check_batch("_replayed", state["_replayed"], torch.Tensor, shapes, None)


def _check_batch(name: str, batch: Any, kind: Any, shapes: Any, rows: int | None) -> None:
    if isinstance(shapes, dict):
        if not isinstance(batch, dict) or batch.keys() != shapes.keys():
            raise ValueError(f"{name} must have the parts {list(shapes)}")
        for part, shape in shapes.items():
            _check_batch(f"{name}.{part}", batch[part], kind, shape, rows)
        return
    numbers = isinstance(batch, kind) and (kind is torch.Tensor or batch.dtype.kind in "biuf")
    shape = tuple(batch.shape) if numbers else ()
    if len(shape) != 1 + len(shapes) or shape[1:] != tuple(shapes) or rows not in (None, shape[0]):
        raise ValueError(f"{name} must have shape {(rows, *shapes)}")
