"""Everything that a run needs to go on: agent, environment, random generators, replay buffer."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from mviq.agents.codec import Arrays, CannotEncode
from mviq.runs.replay_log import Ring, rings, set_small_state, small_state
from mviq.runs.snapshot import capture, restore

_NEXT_EPISODE = 1  # separates the seeds of new episodes from other seeds


def collect(agent: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the state of an agent and its environment, but for the rings of its replay buffer.

    The environment's is None if it cannot be read.
    """
    parts = {
        "state": agent.get_state(),
        "replay": small_state(agent.replay_buffer),
        "random": _random_state(),
        "action_space": agent.action_space,
        "env": agent.env if hidden_in(agent.env) is None else None,
    }
    tree: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, part in parts.items():
        tree[name], part_arrays = capture(part, name)
        arrays |= part_arrays
    return tree, arrays


def restore_into(agent: Any, tree: dict[str, Any], arrays: Arrays) -> None:
    """Give a state to an agent built from the same configuration, whose environment was reset."""

    def restored(name: str, target: Any = None) -> Any:
        return restore(target, tree[name], arrays, name)

    agent.set_state(restored("state"))
    set_small_state(agent.replay_buffer, restored("replay"))
    restored("env", agent.env)
    restored("action_space", agent.action_space)
    _set_random_state(restored("random"))


def replay_rings(agent: Any) -> list[Ring]:
    """Return the rings of an agent's replay buffer."""
    return rings(agent.replay_buffer, agent.num_timesteps // agent.n_envs)


def hidden_in(env: VecEnv) -> str | None:
    """Return None if the state of an environment can be read, else why not."""
    try:
        capture(env, "env")
    except CannotEncode as reason:
        return str(reason)
    return None


@contextmanager
def last_episodes_cut_off(agent: Any) -> Iterator[None]:
    """Mark the newest transitions in the replay buffer as truncated, until the end of the block.

    They are saved this way if the environment cannot give its state: another episode follows them
    when the run is resumed, and no n-step return may reach from one into the other.
    """
    buffer = agent.replay_buffer
    last = (buffer.pos - 1) % buffer.buffer_size
    before = buffer.dones[last].copy(), buffer.timeouts[last].copy()
    buffer.timeouts[last], buffer.dones[last] = (buffer.dones[last] == 0) | (before[1] > 0), 1
    yield
    buffer.dones[last], buffer.timeouts[last] = before


def begin_new_episodes(agent: Any, seed: int) -> None:
    """Reset the environment with a new seed, as its state could not be saved."""
    entropy = [seed, agent.num_timesteps, _NEXT_EPISODE]
    agent.env.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1))
    agent._last_obs = agent._last_original_obs = agent.env.reset()


def _random_state() -> dict[str, Any]:
    """Return the state of every generator that belongs to the process."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - it is SB3 that draws from it
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def undisturbed_randomness() -> Iterator[None]:
    """Reset the random generators of the process to their state before the block."""
    before = _random_state()
    try:
        yield
    finally:
        _set_random_state(before)
