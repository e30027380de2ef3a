"""Builds environments and agents from a configuration."""

import math
import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any, NamedTuple

import torch
from gymnasium import error, spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from mviq import agents, envs
from mviq.agents import Agent, FrameReplayBuffer, MinAtarCNN, RescaledExtractor
from mviq.messages import one_line
from mviq.runs.config import CRITICS, Config, family_fields
from mviq.runs.directory import RunError
from mviq.runs.presets import COMMON
from mviq.runs.replay_log import rings


class NetworkSpec(NamedTuple):
    """What a network needs, and the arguments with which an agent has it."""

    policy: str
    smallest: int = 0  # pixels a side of its pictures; 0 for any observations
    policy_kwargs: Mapping[str, Any] = {}
    replay: Mapping[str, Any] = {}


NETWORKS = {
    "mlp": NetworkSpec("MlpPolicy"),
    "minatar": NetworkSpec("CnnPolicy", 3, {"features_extractor_class": MinAtarCNN}),
    "nature": NetworkSpec("CnnPolicy", 36, replay={"replay_buffer_class": FrameReplayBuffer}),
}


def make_env(config: Config, n_envs: int, seed: int, evaluation: bool, **options: Any) -> VecEnv:
    """Return environments of a run, for training or for evaluation."""
    atari = {"protocol": config.protocol, "backend": config.backend}
    if envs.game_of(config.env) is not None or any(atari[x] != COMMON[x].value for x in atari):
        options |= atari
    try:
        env = envs.make(config.env, n_envs, seed=seed, evaluation=evaluation, **options)
    except (error.Error, ImportError) as reason:  # something it needs is not installed
        raise RunError(f"{config.env} cannot be made: {one_line(reason)}") from None
    env.observation_space.seed(seed)  # some environments draw from their space
    return env


def make_agent(config: Config, env: VecEnv) -> Agent:
    """Return the agent of a run, untrained."""
    return _agent_class(config)(
        NETWORKS[config.network].policy,
        env,
        acting=config.acting,
        value_limit=config.value_limit,
        learning_rate=_learning_rate(config),
        buffer_size=config.buffer_size,
        learning_starts=config.learning_starts,
        batch_size=config.batch_size,
        gamma=config.gamma,
        train_freq=config.train_every,
        gradient_steps=config.gradient_steps,
        n_steps=config.n_steps,
        replay_buffer_kwargs={"handle_timeout_termination": config.time_limit == "bootstrap"},
        **NETWORKS[config.network].replay,
        target_update_interval=config.target_every,
        exploration_initial_eps=config.epsilon_start,
        exploration_final_eps=config.epsilon_end,
        exploration_fraction=config.epsilon_fraction,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs=_policy_kwargs(config),
        seed=config.seed,
        device=device_of(config),
        **family_fields(config),
    )


def _agent_class(config: Config) -> type[Agent]:
    agent_class: type[Agent] = getattr(agents, CRITICS[config.critic].agent)
    return agent_class


def _learning_rate(config: Config) -> float | LinearSchedule:
    if config.learning_rate_end is None:
        return config.learning_rate
    return LinearSchedule(config.learning_rate, config.learning_rate_end, end_fraction=1.0)


def _policy_kwargs(config: Config) -> dict[str, Any]:
    options: dict[str, Any] = {
        "net_arch": list(config.hidden),
        "optimizer_class": torch.optim.Adam,
        "optimizer_kwargs": {"eps": config.adam_epsilon},
        **NETWORKS[config.network].policy_kwargs,
    }
    if config.observation_bounds != "none":
        own = config.observation_bounds == "space"
        bounds = None if own else list(config.observation_bounds)
        options["features_extractor_class"] = RescaledExtractor
        options["features_extractor_kwargs"] = {"bounds": bounds}
    return options | {name: getattr(config, name) for name in CRITICS[config.critic].settings}


def device_of(config: Config) -> torch.device:
    """Return the device of a run, or say that there is none of this name."""
    name = config.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda") or (device.type == "cpu" and device.index):
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise RunError(f"device {name} is not there: {torch.cuda.device_count()} CUDA devices")
    return device


def check_config(config: Config) -> None:
    """Raise an error if the environment cannot be built, or the device is missing."""
    device_of(config)
    with closing(make_env(config, 1, config.seed, evaluation=False)) as env:
        _check_spaces(config, env)


def build(config: Config) -> Agent:
    """Return the agent of a run with its environments; raise if it has no room to learn."""
    device_of(config)
    env = make_env(config, config.n_envs, config.seed, evaluation=False)
    try:
        _check_spaces(config, env)
        agent = make_agent(config, env)
        assert agent.replay_buffer is not None
        parts = rings(agent.replay_buffer, 0)
        needed = sum(array.nbytes for ring in parts for array in ring.arrays.values())
        if needed > _memory():
            sizes = f"{needed / 1e9:.1f} GB, this machine has {_memory() / 1e9:.1f}"
            raise MemoryError(f"it needs {sizes}")
    except (MemoryError, RuntimeError) as error:
        env.close()
        sizes = f"buffer_size = {config.buffer_size} and hidden = {config.hidden}"
        raise RunError(f"there is no room for {sizes}: {one_line(error)}") from None
    except ValueError:
        env.close()
        raise
    return agent


def _memory() -> float:
    """Return the memory of the machine in bytes, where that can be found out."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_spaces(config: Config, env: VecEnv) -> None:
    if not isinstance(env.action_space, spaces.Discrete):
        raise ValueError(f"{config.env} must have discrete actions, it has {env.action_space}")
    if not isinstance(env.observation_space, spaces.Box | spaces.Discrete):
        raise ValueError(f"{config.env}: observations {env.observation_space} are not supported")
    shape = env.observation_space.shape or ()
    smallest = NETWORKS[config.network].smallest
    if smallest and (len(shape) != 3 or min(shape[1:]) < smallest):
        raise ValueError(f"network {config.network} needs pictures, {config.env} gives {shape}")
    bounds = config.observation_bounds
    if bounds == "none":
        return
    if config.network != "mlp":
        raise ValueError(f"observation_bounds must be none for network {config.network}")
    size = get_flattened_obs_dim(env.observation_space)
    if bounds != "space" and len(bounds) != size:
        raise ValueError(
            f"observation_bounds must be none, space, or {size} numbers for the observations of "
            f"{config.env}, got {len(bounds)}"
        )


def load_trained_agent(config: Config, path: Any) -> Agent:
    """Return a saved agent of a run, to act and not to learn: it has no room for replay."""
    least = config.n_envs * config.n_steps
    return _agent_class(config).load(path, device=device_of(config), buffer_size=least)
