"""Create any environment by its Gymnasium id."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from mviq.envs.atari import PROTOCOLS, Backend, make_atari
from mviq.envs.ids import check_known, game_of

MOST = 2**31 - 1  # of a seed


def make(
    env_id: str,
    n_envs: int = 1,
    *,
    seed: int | None = None,
    protocol: str | None = None,
    evaluation: bool = False,
    backend: Backend = "auto",
    wrappers: Sequence[type[gym.Wrapper[Any, Any, Any, Any]]] = (),
    **options: Any,
) -> VecEnv:
    """Return environments as a Stable-Baselines3 ``VecEnv`` that records episode returns.

    :param env_id: CartPole-v1, MinAtar/Breakout-v1, ALE/Pong-v5, module:MyEnv-v0, …
    :param n_envs: number of independent environments
    :param seed: environment i is seeded with seed + i
    :param protocol: for Atari: sb3 (life loss, clipped reward, no sticky actions; the default) or
        machado (sticky actions 0.25, full games, clipped reward)
    :param evaluation: for Atari: full games and unclipped rewards, otherwise as in the protocol
    :param backend: for Atari: vector (ale-py's C++), overlap (the same, and agents learn while it
        runs), wrappers (Stable-Baselines3's Python), or auto, the faster of vector and wrappers
        that can follow the protocol
    :param wrappers: applied to each environment, the first one innermost; not for Atari
    :param options: passed on to the environment, such as ``render_mode="rgb_array"``

    >>> env = make("CartPole-v1", 2, seed=0)
    >>> env.reset().shape
    (2, 4)
    """
    _check_number("n_envs", n_envs, least=1)
    if seed is not None:
        _check_number("seed", seed, least=0)
    check_known(env_id)
    game = game_of(env_id)
    if game is None:
        if protocol is not None or backend != "auto":
            raise ValueError(f"protocol and backend are for Atari; {env_id} is another environment")
        # Not created by Stable-Baselines3 from the id, since it sets render_mode="rgb_array",
        # with which LunarLander takes seven times as long.
        return make_vec_env(partial(_wrapped, env_id, wrappers, **options), n_envs, seed=seed)
    if wrappers:
        raise ValueError(f"wrappers are not for Atari, which follows a protocol; got {env_id}")
    name = "sb3" if protocol is None else protocol
    if name not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    chosen = PROTOCOLS[name]
    if evaluation:
        chosen = replace(chosen, life_loss=False, clip_reward=False)
    return make_atari(game, n_envs, chosen, seed, backend, **options)


def _wrapped(env_id: str, wrappers: Sequence[Any], **options: Any) -> gym.Env[Any, Any]:
    env: gym.Env[Any, Any] = gym.make(env_id, **options)
    for wrapper in wrappers:
        env = wrapper(env)
    return env


def _check_number(name: str, value: Any, least: int) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not least <= value <= MOST:
        raise ValueError(f"{name} must be a whole number from {least} to {MOST}, got {value!r}")
