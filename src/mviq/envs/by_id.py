"""One function makes any environment by its Gymnasium id."""

import difflib
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from mviq.envs import minatar
from mviq.envs.atari import PROTOCOLS, Backend, game_of, make_atari


def make(
    env_id: str,
    n_envs: int = 1,
    *,
    seed: int | None = None,
    protocol: str = "sb3",
    evaluation: bool = False,
    backend: Backend = "auto",
    **options: Any,
) -> VecEnv:
    """Return environments as a Stable-Baselines3 ``VecEnv`` that records episode returns.

    :param env_id: CartPole-v1, MinAtar/Breakout-v1, ALE/Pong-v5, …
    :param n_envs: how many, all independent
    :param seed: environment i is seeded with seed + i
    :param protocol: for Atari: sb3 (life loss, clipped reward, no sticky actions) or machado
        (sticky actions 0.25, full games, clipped reward)
    :param evaluation: for Atari: full games and raw scores, otherwise by the protocol
    :param backend: for Atari: vector (ale-py's C++), wrappers (Stable-Baselines3's Python), or
        auto, the faster one that can follow the protocol
    :param options: passed on to the environment

    >>> env = make("CartPole-v1", 2, seed=0)
    >>> env.reset().shape
    (2, 4)
    """
    if n_envs < 1:
        raise ValueError(f"n_envs must be at least 1, got {n_envs}")
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol must be one of {', '.join(PROTOCOLS)}, got {protocol!r}")
    check_known(env_id)
    game = game_of(env_id)
    if game is not None:
        chosen = PROTOCOLS[protocol]
        if evaluation:
            chosen = replace(chosen, life_loss=False, clip_reward=False)
        return make_atari(game, n_envs, chosen, seed, backend, **options)
    return make_vec_env(env_id, n_envs, seed=seed, env_kwargs=options)


def check_known(env_id: str) -> None:
    """Say which names are close, and what to install, if there is no such environment."""
    known = known_ids()
    if env_id in known:
        return
    for prefix, module, extra in (("MinAtar/", "minatar", "minatar"), ("ALE/", "ale_py", "atari")):
        wanted = env_id.startswith(prefix) or (prefix == "ALE/" and "NoFrameskip" in env_id)
        if wanted and find_spec(module) is None:
            raise ValueError(f"{env_id} needs an extra: pip install 'mviq[{extra}]'")
    close = difflib.get_close_matches(env_id, known, n=3, cutoff=0.4)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    missing = [
        f"mviq[{extra}]"
        for module, extra in (("minatar", "minatar"), ("ale_py", "atari"))
        if find_spec(module) is None
    ]
    more = f" More environments come with pip install '{' '.join(missing)}'." if missing else ""
    raise ValueError(f"there is no environment {env_id!r}{hint}{more}")


def known_ids() -> list[str]:
    """Return the ids of all environments that can be made."""
    if find_spec("minatar") is not None:
        minatar.register()
    if find_spec("ale_py") is not None:
        import ale_py

        gym.register_envs(ale_py)
    return sorted(gym.registry)
