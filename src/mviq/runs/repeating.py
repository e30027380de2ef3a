"""Restores environments whose state cannot be read, such as Box2D's, by repeating the episode.

A simulator in C++ hides its state, but it is deterministic: with the random generator restored to
its state before the reset, the same actions lead to the same state. A digest of all observations
and rewards verifies this bit for bit. Resuming a run repeats the steps of the episode twice: in a
trial environment (``run_state.rehearse``) and in that of the run.
"""

import hashlib
from typing import Any

import gymnasium as gym
import numpy as np


class CannotRepeat(ValueError):  # noqa: N818 - a property of the environment, not a failure
    """Repeating an episode did not lead to the same state."""


class RepeatingEpisodes(gym.Wrapper[Any, Any, Any, Any]):
    """Records the start and the actions of the current episode, so that it can be repeated."""

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
        """Return the start of the episode, its actions, and a digest of what they led to."""
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
        """Repeat an episode; raise ``CannotRepeat`` if it does not lead to the same state."""
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
