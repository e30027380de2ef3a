"""Builds environments and agents from a configuration."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from gymnasium import error, spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.type_aliases import Schedule
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from mviq import agents, envs
from mviq.agents import Agent, FrameReplayBuffer
from mviq.messages import one_line
from mviq.processor import do_without_dynamo, machine_memory
from mviq.runs.config import CRITICS, Config, family_fields
from mviq.runs.directory import RunError, read_json
from mviq.runs.own_parts import check_own_parts, own
from mviq.runs.presets import COMMON
from mviq.runs.replay_log import rings
from mviq.runs.run_state import repeat_what_is_hidden
from mviq.runs.trackers import check_tracker
from mviq.storage import json_bytes, write_durably


class NetworkSpec(NamedTuple):
    """The requirements of a network, and the arguments with which an agent uses it."""

    policy: str
    smallest: int = 0  # least side of its images in pixels; 0 for any observations
    policy_kwargs: Mapping[str, Any] = {}
    replay: type[ReplayBuffer] | None = None


NETWORKS = {
    "mlp": NetworkSpec("MlpPolicy"),
    "minatar": NetworkSpec("CnnPolicy", 3, {"features_extractor_class": agents.MinAtarCNN}),
    "nature": NetworkSpec("CnnPolicy", 36, replay=FrameReplayBuffer),
    "impala": NetworkSpec(
        "CnnPolicy", 36, {"features_extractor_class": agents.ImpalaCNN}, replay=FrameReplayBuffer
    ),
}


SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Dict)
"""The observation spaces that agents support."""


def make_env(config: Config, n_envs: int, seed: int, evaluation: bool, **options: Any) -> VecEnv:
    """Return environments of a run, for training or for evaluation."""
    atari = {"protocol": config.protocol, "backend": config.backend}
    if envs.game_of(config.env) is not None or any(atari[x] != COMMON[x].value for x in atari):
        options |= atari
    if config.wrappers:
        options["wrappers"] = own(config, "wrappers")
    try:
        env = envs.make(config.env, n_envs, seed=seed, evaluation=evaluation, **options)
    except (error.Error, ImportError) as reason:  # a dependency is not installed
        raise RunError(f"{config.env} cannot be made: {one_line(reason)}") from None
    env.observation_space.seed(seed)  # some environments sample from their space
    if not evaluation:
        repeat_what_is_hidden(env)
    return env if evaluation or config.normalize == "none" else normalized(env, config)


def normalized(env: VecEnv, config: Config) -> VecNormalize:
    """Return environments whose observations or rewards are rescaled by running statistics.

    Evaluations do not use it: they normalise observations by the same statistics in
    ``choose_actions``, and count raw rewards.
    """
    seen, rescaled = env.observation_space, config.normalize
    parts = None
    if isinstance(seen, spaces.Dict):  # an action mask must not be normalised
        boxes = {name for name, part in seen.spaces.items() if isinstance(part, spaces.Box)}
        parts = sorted(boxes - {"action_mask"})
    return VecNormalize(
        env,
        norm_obs=rescaled in ("observations", "both"),
        norm_reward=rescaled in ("rewards", "both"),
        gamma=config.gamma,
        norm_obs_keys=parts,
    )


def make_agent(config: Config, env: VecEnv) -> Agent:
    """Return the untrained agent of a run."""
    do_without_dynamo()
    in_parts = isinstance(env.observation_space, spaces.Dict)
    return _agent_class(config)(
        "MultiInputPolicy" if in_parts else NETWORKS[config.network].policy,
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
        **_replay(config),
        target_update_interval=config.target_every,
        exploration_initial_eps=config.epsilon_start,
        exploration_final_eps=config.epsilon_end,
        exploration_fraction=config.epsilon_fraction,
        max_grad_norm=config.max_grad_norm,
        policy_kwargs=_policy_kwargs(config, in_parts),
        seed=config.seed,
        device=device_of(config),
        **family_fields(config) | {"q": _q(config)},
    )


def _replay(config: Config) -> dict[str, Any]:
    """Return the replay buffer class, None for the agent's default, and its arguments."""
    kind = NETWORKS[config.network].replay
    options: dict[str, Any] = {"handle_timeout_termination": config.time_limit == "bootstrap"}
    if config.prioritized_replay is not None:
        frames = kind is FrameReplayBuffer
        kind = agents.PrioritizedFrameReplayBuffer if frames else agents.PrioritizedReplayBuffer
        options["exponent"], options["beta"] = config.prioritized_replay
    return {"replay_buffer_class": kind, "replay_buffer_kwargs": options}


def _agent_class(config: Config) -> type[Agent]:
    agent_class: type[Agent] = getattr(agents, CRITICS[config.critic].agent)
    return agent_class


def _q(config: Config) -> float | Schedule:
    return next(iter(own(config, "q_schedule")), config.q)


def _learning_rate(config: Config) -> float | Schedule:
    if config.learning_rate_schedule is not None:
        (schedule,) = own(config, "learning_rate_schedule")
        return cast(Schedule, schedule)
    if config.learning_rate_end is None:
        return config.learning_rate
    return LinearSchedule(config.learning_rate, config.learning_rate_end, end_fraction=1.0)


def _policy_kwargs(config: Config, in_parts: bool) -> dict[str, Any]:
    options: dict[str, Any] = {
        "net_arch": list(config.hidden),
        "optimizer_class": torch.optim.Adam,
        "optimizer_kwargs": {"eps": config.adam_epsilon},
        **NETWORKS[config.network].policy_kwargs,
    }
    if config.observation_bounds == "space" and in_parts:
        options["features_extractor_class"] = agents.RescaledCombinedExtractor
    elif config.observation_bounds != "none":
        by_space = config.observation_bounds == "space"
        bounds = None if by_space else list(config.observation_bounds)
        options["features_extractor_class"] = agents.RescaledExtractor
        options["features_extractor_kwargs"] = {"bounds": bounds}
    if config.features_extractor is not None:
        (options["features_extractor_class"],) = own(config, "features_extractor")
    return options | {name: getattr(config, name) for name in CRITICS[config.critic].settings}


def device_of(config: Config) -> torch.device:
    """Return the device of a run; raise if its name is invalid or it does not exist."""
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
    """Raise if the environment, the device, the tracker or a user's component cannot be used."""
    device_of(config)
    check_tracker(config.track)
    check_own_parts(config)
    with closing(make_env(config, 1, config.seed, evaluation=False)) as env:
        _check_spaces(config, env)


def build(config: Config) -> Agent:
    """Return the agent of a run with its environments; raise if memory does not suffice."""
    device_of(config)
    check_tracker(config.track)
    check_own_parts(config)
    env = make_env(config, config.n_envs, config.seed, evaluation=False)
    try:
        _check_spaces(config, env)
        agent = make_agent(config, env)
        assert agent.replay_buffer is not None
        parts = rings(agent.replay_buffer, 0)
        needed = sum(array.nbytes for ring in parts for array in ring.arrays.values())
        if needed > machine_memory():
            sizes = f"{needed / 1e9:.1f} GB, this machine has {machine_memory() / 1e9:.1f}"
            raise MemoryError(f"it needs {sizes}")
    except (MemoryError, RuntimeError) as error:
        env.close()
        sizes = f"buffer_size = {config.buffer_size} and hidden = {config.hidden}"
        raise RunError(f"there is no room for {sizes}: {one_line(error)}") from None
    except ValueError:
        env.close()
        raise
    return agent


def _check_spaces(config: Config, env: VecEnv) -> None:
    if not isinstance(env.action_space, spaces.Discrete):
        raise ValueError(f"{config.env} must have discrete actions, it has {env.action_space}")
    seen = env.observation_space
    if not isinstance(seen, SPACES):
        raise ValueError(f"{config.env}: observations {seen} are not supported")
    if isinstance(seen, spaces.Dict):
        _check_parts(config, seen)
    shape = seen.shape or ()
    smallest = NETWORKS[config.network].smallest
    if smallest and (len(shape) != 3 or min(shape[1:]) < smallest):
        raise ValueError(f"network {config.network} needs pictures, {config.env} gives {shape}")
    bounds = config.observation_bounds
    if bounds == "none":
        return
    if config.network != "mlp":
        raise ValueError(f"observation_bounds must be none for network {config.network}")
    size = get_flattened_obs_dim(seen)
    if bounds != "space" and len(bounds) != size:
        raise ValueError(
            f"observation_bounds must be none, space, or {size} numbers for the observations of "
            f"{config.env}, got {len(bounds)}"
        )


def _check_parts(config: Config, space: spaces.Dict) -> None:
    """Raise ``ValueError`` for settings that do not support dictionary observations."""
    rules = (
        ("network", config.network == "mlp", "mlp"),
        ("n_steps", config.n_steps == 1, "1"),
        ("prioritized_replay", config.prioritized_replay is None, "none"),
        ("observation_bounds", isinstance(config.observation_bounds, str), "none or space"),
    )
    for name, good, allowed in rules:
        if not good:
            raise ValueError(
                f"{name} must be {allowed}, got {getattr(config, name)!r}: the observations of "
                f"{config.env} are dictionaries of {', '.join(space.spaces)}"
            )


def save_agent(agent: Agent, path: Path) -> None:
    """Save an agent, and next to it the statistics that normalise its observations, if any."""
    normalizer = agent.get_vec_normalize_env()
    if normalizer is not None and normalizer.norm_obs:
        content = {
            name: {"mean": one.mean.tolist(), "var": one.var.tolist(), "count": one.count}
            for name, one in _statistics_of(normalizer).items()
        }
        write_durably(_statistics_file(path), json_bytes(content, indent=1))
    agent.save(path)


def _statistics_of(normalizer: VecNormalize) -> dict[str, RunningMeanStd]:
    """Return the running statistics of observations, by key if they are dictionaries."""
    own = normalizer.obs_rms
    return own if isinstance(own, dict) else {"": own}


def _statistics_file(path: Path) -> Path:
    return path.with_suffix(".normalize.json")


def model_files(config: Config, path: Path) -> list[Path]:
    """Return the files of an agent saved at a path."""
    normalized = config.normalize in ("observations", "both")
    return [path, *([_statistics_file(path)] if normalized else [])]


def load_trained_agent(config: Config, path: Path) -> Agent:
    """Load a saved agent for acting only, with the smallest possible replay buffer."""
    least = config.n_envs * config.n_steps
    do_without_dynamo()
    check_own_parts(config)
    agent = _agent_class(config).load(path, device=device_of(config), buffer_size=least)
    for file in model_files(config, path)[1:]:
        agent._vec_normalize_env = _stored_statistics(config, file)
    return agent


def _stored_statistics(config: Config, file: Path) -> VecNormalize:
    with closing(make_env(config, 1, config.seed, evaluation=False)) as env:
        normalizer = cast(VecNormalize, env)  # as config.normalize is set
    content = read_json(file)
    for name, one in _statistics_of(normalizer).items():
        try:
            numbers = {part: np.asarray(content[name][part], float) for part in vars(one)}
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file} is damaged: {type(error).__name__} {error}") from None
        for part, value in numbers.items():
            if value.shape != np.shape(getattr(one, part)) or not (np.isfinite(value).all()):
                raise ValueError(f"{file} is damaged: {name} {part} is not of {config.env}")
            setattr(one, part, value)
    normalizer.training = False
    return normalizer
