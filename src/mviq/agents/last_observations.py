"""What an agent was about to act on, for those who go on in the middle of an episode."""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from mviq.agents.archive import Tensors

NAMES = ("_last_obs", "_last_original_obs")  # as given, and before VecNormalize


def last_observations(agent: Any) -> Tensors:
    """Return the last observations of all environments, in tensors with names."""
    found: Tensors = {}
    for name in NAMES:
        seen = getattr(agent, name)
        parts = seen if isinstance(seen, dict) else {} if seen is None else {"": seen}
        found |= {f"{name}.{key}": torch.as_tensor(part) for key, part in parts.items()}
    return found


def observations_for(agent: Any, stored: Tensors) -> dict[str, Any]:
    """Return the last observations of a file, which must fit the agent's environments."""
    found: dict[str, Any] = {}
    for key, tensor in stored.items():
        name, _, part = key.partition(".")
        if name not in NAMES:
            raise ValueError(f"{key!r} is not an observation")
        if part:
            found.setdefault(name, {})[part] = tensor.numpy()
        else:
            found[name] = tensor.numpy()
    for name, seen in found.items():
        _check(name, seen, agent.observation_space, agent.n_envs)
    return found


def _check(name: str, seen: Any, space: spaces.Space[Any], n_envs: int) -> None:
    if isinstance(space, spaces.Dict):
        if not isinstance(seen, dict) or seen.keys() != space.spaces.keys():
            raise ValueError(f"{name} must have the parts {list(space.spaces)}")
        for part, inner in space.spaces.items():
            _check(f"{name}.{part}", seen[part], inner, n_envs)
        return
    expected = (n_envs, *(space.shape or ()))
    if not isinstance(seen, np.ndarray) or seen.shape != expected:
        raise ValueError(f"{name} must have shape {expected}")
