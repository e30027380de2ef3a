"""A wrapper that adds action masks to the observations."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

KEY = "action_mask"


class ActionMasks(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the mask of the available actions to the observations, where agents expect it.

    The mask comes from the environment's method ``action_masks()``, as in sb3-contrib, or from
    ``info["action_mask"]``, as in Gymnasium's Taxi. Observations become dictionaries with the
    keys ``observation`` (or those of the environment, if it has a ``Dict`` space) and
    ``action_mask``; so replay buffers, evaluation and checkpoints include the mask.

    >>> env = ActionMasks(gym.make("Taxi-v4"))
    >>> env.reset(seed=0)[0]["action_mask"]
    array([1, 1, 0, 0, 0, 0], dtype=int8)
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(f"masks are for discrete actions, the space is {env.action_space}")
        space = env.observation_space
        self._has_parts = isinstance(space, spaces.Dict)
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        mask = spaces.MultiBinary(int(env.action_space.n))
        self.observation_space = spaces.Dict({**parts, KEY: mask})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        if self.env.has_wrapper_attr("action_masks"):
            mask = self.env.get_wrapper_attr("action_masks")()
        elif KEY in info:
            mask = info[KEY]
        else:
            raise ValueError(
                f"{self.env} has neither a method action_masks() nor info['action_mask']"
            )
        mask = np.asarray(mask, np.int8)
        if not mask.any():  # as at the end of a game, where it does not matter
            mask = np.ones_like(mask)
        parts = observation if self._has_parts else {"observation": observation}
        return {**parts, KEY: mask}
