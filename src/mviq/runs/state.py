"""Everything a learning agent remembers, collected and put back.

An agent built from the same configuration and given this state goes on exactly as the one it was
taken from. Between two rollouts nothing else is remembered: not the batch, not the gradients.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from mviq.runs.replay_log import Ring, put_small_state, rings, small_state
from mviq.runs.snapshot import Arrays, CannotCapture, capture, restore

_REMEMBERED = (
    *("num_timesteps", "_episode_num", "_n_calls", "_n_updates", "exploration_rate"),
    *("_current_progress_remaining", "_last_obs", "_last_original_obs", "_last_episode_starts"),
    *("ep_info_buffer", "ep_success_buffer", "_replayed", "_total_timesteps", "status"),
)
_LOGGED = ("name_to_value", "name_to_count", "name_to_excluded")
_NEXT_EPISODE = 1  # keeps the seeds of environments begun anew apart from other seeds


def collect(agent: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the state of an agent and its environment, but for the rings of its replay buffer.

    The environment's is None if it cannot be read.
    """
    parts = {
        "weights": dict(agent.policy.state_dict()),
        "optimizer": agent.policy.optimizer.state_dict(),
        "remembered": {name: getattr(agent, name) for name in _REMEMBERED},
        "logged": {name: dict(getattr(agent.logger, name)) for name in _LOGGED},
        "replay": small_state(agent.replay_buffer),
        "random": _random_state(),
        "action_space": agent.action_space,
    }
    tree: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, part in parts.items():
        tree[name], found = capture(part, name)
        arrays |= found
    tree["env"], found = _environment(agent.env)
    return tree, arrays | found


def put_back(agent: Any, tree: dict[str, Any], arrays: Arrays) -> None:
    """Put a state into an agent built from the same configuration, whose environment was reset."""

    def part(name: str) -> Any:
        return restore(None, tree[name], arrays)

    agent.policy.load_state_dict(part("weights"))
    _put_optimizer(agent.policy.optimizer, part("optimizer"))
    vars(agent).update(part("remembered"))
    if agent._replayed is not None:
        agent._replayed = agent._replayed.to(agent.device)
    for name, values in part("logged").items():
        getattr(agent.logger, name).update(values)
    put_small_state(agent.replay_buffer, part("replay"))
    if tree["env"] is not None:
        restore(agent.env, tree["env"], arrays)
    restore(agent.action_space, tree["action_space"], arrays)
    _put_random_state(part("random"))


def replay_rings(agent: Any) -> list[Ring]:
    """Return the rings of an agent's replay buffer."""
    return rings(agent.replay_buffer, agent.num_timesteps // agent.n_envs)


def hidden_in(env: VecEnv) -> str | None:
    """Return None if the state of an environment can be read, else why not."""
    try:
        capture(env, "env")
    except CannotCapture as reason:
        return str(reason)
    return None


@contextmanager
def last_episodes_cut_off(agent: Any) -> Iterator[None]:
    """Let the newest transitions in the replay buffer be truncated for a while.

    So they are saved where the environment cannot give its state: another episode will follow
    them when the run is resumed, and no n-step return may run from one into the other.
    """
    buffer = agent.replay_buffer
    last = (buffer.pos - 1) % buffer.buffer_size
    before = buffer.dones[last].copy(), buffer.timeouts[last].copy()
    buffer.timeouts[last], buffer.dones[last] = (buffer.dones[last] == 0) | (before[1] > 0), 1
    yield
    buffer.dones[last], buffer.timeouts[last] = before


def begin_new_episodes(agent: Any, seed: int) -> None:
    """Go on in new episodes, where the environment could not give its state."""
    entropy = [seed, agent.num_timesteps, _NEXT_EPISODE]
    agent.env.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1))
    agent._last_obs = agent._last_original_obs = agent.env.reset()


def _environment(env: VecEnv) -> tuple[Any, Arrays]:
    try:
        return capture(env, "env")
    except CannotCapture:
        return None, {}


def _random_state() -> dict[str, Any]:
    """Return the state of every generator that belongs to the process."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - it is SB3 that draws from it
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _put_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def undisturbed_randomness() -> Iterator[None]:
    """Whatever happens inside, the random generators of the process go on as if it had not."""
    before = _random_state()
    try:
        yield
    finally:
        _put_random_state(before)


def _put_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the state of an optimiser, each moment laid out in memory as its parameter is."""
    optimizer.load_state_dict(state)
    for parameter, moments in optimizer.state.items():
        for name, value in moments.items():
            if isinstance(value, torch.Tensor) and value.shape == parameter.shape:
                moments[name] = torch.empty_like(parameter).copy_(value).detach()
