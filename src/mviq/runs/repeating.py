"""Environments that cannot give their state, such as those of Box2D: the episode is done again.

A simulator in C++ hides its state, but it is deterministic: with the generator as it was before the
reset, the same actions lead to the same state. A digest of all observations and rewards says
whether they did, bit for bit. It costs as many steps as the episode has had, twice when a run is
resumed: in a trial, and in earnest.
"""

import hashlib
from typing import Any

import gymnasium as gym
import numpy as np


class CannotRepeat(ValueError):  # noqa: N818 - a property of the environment, not a failure
    """An episode went another way than before."""


class RepeatingEpisodes(gym.Wrapper[Any, Any, Any, Any]):
    """Remembers how the episode began and what was done, to do the same once more."""

    _seed: int | None = None
    _began: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._seed, self._began = seed, self._generator().bit_generator.state
        self._actions: list[int] = []
        self._digest = hashlib.sha256()
        observation, info = self.env.reset(seed=seed, options=options)
        self._see(observation)
        return observation, info

    def step(self, action: Any) -> Any:
        result = self.env.step(action)
        self._actions.append(int(action))
        self._see(result[0], result[1])
        return result

    def _see(self, *happened: Any) -> None:
        for value in happened:
            self._digest.update(np.asarray(value).tobytes())

    def _generator(self) -> np.random.Generator:
        return self.env.unwrapped.np_random

    def get_state(self) -> dict[str, Any]:
        """Return how the episode began, its actions, and what they led to."""
        if self._began is None:
            return {}
        return {
            "seed": self._seed,
            "began": self._began,
            "actions": np.array(self._actions, np.int64),
            "digest": self._digest.hexdigest(),
            "generator": self._generator().bit_generator.state,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Do an episode again, and require that everything is as it was."""
        try:
            self._generator().bit_generator.state = state["began"]
            self.reset(seed=state["seed"])
            self._began = state["began"]
            for action in state["actions"]:
                self.step(int(action))
            same = self.get_state()["digest"] == state["digest"]
            same = same and self._generator().bit_generator.state == state["generator"]
        except Exception as error:
            raise CannotRepeat(f"{type(error).__name__}: {error}") from error
        if not same:
            raise CannotRepeat(f"{len(state['actions'])} actions did not lead to the same state")
