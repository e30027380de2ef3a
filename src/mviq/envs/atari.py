"""Atari with two protocols, and ale-py's vector environment as a Stable-Baselines3 ``VecEnv``."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from stable_baselines3.common.atari_wrappers import (
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    MaxAndSkipEnv,
    NoopResetEnv,
    StickyActionEnv,
    WarpFrame,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecTransposeImage
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from mviq.arrays import Array

Backend = Literal["auto", "vector", "overlap", "wrappers"]
MOST_FRAMES = 108_000  # half an hour of play


@dataclass(frozen=True)
class Protocol:
    """The setup of Atari games; all use 84×84 greyscale frames, a stack of 4 and frame skip 4."""

    sticky: float
    """Probability that the emulator repeats the last action."""
    life_loss: bool
    """Whether a lost life ends the episode."""
    noops: int
    """Maximum number of random no-ops at the start of a game."""
    fire: bool
    """Whether to press FIRE at the start of a game that waits for it."""
    clip_reward: bool = True
    """Whether rewards are clipped to their sign; the score in ``info["episode"]`` is not."""


PROTOCOLS = {
    "sb3": Protocol(sticky=0.0, life_loss=True, noops=30, fire=True),
    "machado": Protocol(sticky=0.25, life_loss=False, noops=0, fire=False),
}
"""``sb3``: Mnih et al. (2015) as in Stable-Baselines3; ``machado``: Machado et al. (2018)."""


def make_atari(
    game: str,
    n_envs: int,
    protocol: Protocol,
    seed: int | None,
    backend: Backend,
    **options: Any,
) -> VecEnv:
    """Return Atari environments with observations (4, 84, 84).

    ``vector`` is ale-py's C++ vector environment. It is faster, but it cannot begin a new
    episode after a lost life as Stable-Baselines3's ``wrappers`` do (no-op, FIRE, blank stack),
    so ``auto`` uses it only for protocols without life loss. ``overlap`` is ``vector``, and
    lets agents learn while the emulators run.
    """
    import ale_py

    if backend not in get_args(Backend):
        raise ValueError(f"backend must be one of {get_args(Backend)}, got {backend!r}")
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)  # no banner
    if backend in ("vector", "overlap") or (backend == "auto" and not protocol.life_loss):
        env: VecEnv = AtariVecEnv(game, n_envs, protocol, backend == "overlap", **options)
    else:
        env = _wrapped(game, n_envs, protocol, **options)
    if seed is not None:
        env.seed(seed)
    return env


def _wrapped(game: str, n_envs: int, protocol: Protocol, **options: Any) -> VecEnv:
    env = make_vec_env(
        _id_of(game),
        n_envs,
        env_kwargs={
            "frameskip": 1,
            "repeat_action_probability": 0.0,  # StickyActionEnv instead, whose state is readable
            "max_num_frames_per_episode": MOST_FRAMES,
            **options,
        },
        wrapper_class=partial(_wrap, protocol=protocol),
    )
    return VecTransposeImage(VecFrameStack(env, 4))


def _id_of(game: str) -> str:
    """Look up the id of a game; TicTacToe3D's, for one, does not follow from its ROM name."""
    current = (spec for spec in gym.registry.values() if spec.namespace == "ALE")
    return next(spec.id for spec in current if spec.kwargs["game"] == game)


def _wrap(env: Any, protocol: Protocol) -> Any:
    """Wrap one game; the order is that of Stable-Baselines3's ``AtariWrapper``."""
    if protocol.sticky > 0:
        env = StickyActionEnv(env, protocol.sticky)
    if protocol.noops > 0:
        env = NoopResetEnv(env, protocol.noops)
    env = MaxAndSkipEnv(env, skip=4)
    if protocol.life_loss:
        env = EpisodicLifeEnv(env)
    if protocol.fire and "FIRE" in env.unwrapped.get_action_meanings():
        env = FireResetEnv(env)
    env = WarpFrame(env)
    return ClipRewardEnv(env) if protocol.clip_reward else env


class AtariVecEnv(VecEnv):
    """ale-py's ``AtariVectorEnv`` with the interface of Stable-Baselines3.

    A finished game's unclipped score is in ``info["episode"]``, as from a ``Monitor``. A lost
    life, if the protocol has life loss, ends the episode but not the game, which is not reset.

    :param overlaps: whether mviq's agents learn while the emulators run, see ``Actor``
    """

    def __init__(
        self,
        game: str,
        n_envs: int,
        protocol: Protocol,
        overlaps: bool = False,
        render_mode: str = "rgb_array",
        **options: Any,
    ) -> None:
        from ale_py.vector_env import AtariVectorEnv
        from gymnasium.vector import AutoresetMode

        self.protocol, self.overlaps = protocol, overlaps
        self.games = AtariVectorEnv(
            game,
            n_envs,
            autoreset_mode=AutoresetMode.SAME_STEP,
            max_num_frames_per_episode=MOST_FRAMES,
            repeat_action_probability=protocol.sticky,
            noop_max=protocol.noops,
            use_fire_reset=protocol.fire,
            reward_clipping=False,
            **options,
        )
        self.render_mode = render_mode
        super().__init__(
            n_envs, self.games.single_observation_space, self.games.single_action_space
        )
        self._begun = time.time()
        self._seen: Array = np.zeros((n_envs, *self.observation_space.shape), np.uint8)  # type: ignore[misc]
        self._lives = np.zeros(n_envs, np.int64)
        self._score, self._length = np.zeros(n_envs), np.zeros(n_envs, np.int64)

    def reset(self) -> Array:
        seeds = None if self._seeds[0] is None else np.array(self._seeds) % 2**31  # in C++ an int
        observations, info = self.games.reset(seed=seeds)
        self._reset_seeds()
        self._seen = observations
        self._lives = info["lives"].copy()
        self._score[:], self._length[:] = 0, 0
        return np.asarray(observations)

    def step_async(self, actions: Array) -> None:
        self.games.send(np.asarray(actions))

    def step_wait(self) -> VecEnvStepReturn:
        observations, rewards, terminated, truncated, info = self.games.recv()
        self._seen = observations
        over = terminated | truncated
        dying = (info["lives"] < self._lives) & ~over
        self._lives = info["lives"].copy()
        self._score += rewards
        self._length += 1
        dones = over | dying if self.protocol.life_loss else over
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": bool(truncated[i] and not terminated[i])}
            for i in range(self.num_envs)
        ]
        for i in np.flatnonzero(dones):
            last = info["final_obs"] if over[i] else observations
            infos[i]["terminal_observation"] = last[i].copy()
        for i in np.flatnonzero(over):
            infos[i]["episode"] = self._summary(int(i))
        if self.protocol.clip_reward:
            rewards = np.sign(rewards)
        return observations, rewards.astype(np.float32), dones, infos

    def _summary(self, i: int) -> dict[str, Any]:
        """Return the ``Monitor`` summary of a finished game, and reset the counters."""
        elapsed = round(time.time() - self._begun, 6)
        summary = {"r": float(self._score[i]), "l": int(self._length[i]), "t": elapsed}
        self._score[i] = self._length[i] = 0
        return summary

    def close(self) -> None:
        self.games.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this object for every game: there are no single environments."""
        return [getattr(self, attr_name) for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Raise ``NotImplementedError``: the games are C++ objects."""
        raise NotImplementedError("the games of AtariVecEnv have no attributes to set")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any
    ) -> list[Any]:
        """Raise ``NotImplementedError``: the games are C++ objects."""
        raise NotImplementedError("the games of AtariVecEnv have no methods to call")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return True for ``Monitor``, which this class replaces, and False for other wrappers."""
        return [wrapper_class.__name__ == "Monitor" for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[Array | None]:
        """Return the latest frame of every game, which is greyscale, as an RGB image."""
        return [np.repeat(stack[-1][..., None], 3, -1) for stack in self._seen]
