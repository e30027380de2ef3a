"""Saves and restores a run's state: agent, environment, random generators, replay buffer."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import Wrapper, spaces
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.vec_env import VecEnv

from mviq.agents.arguments import SCHEDULED
from mviq.agents.codec import Arrays, CannotEncode
from mviq.agents.networks import has_mask
from mviq.agents.replay import cut_off_last_episodes
from mviq.agents.state import check_state
from mviq.runs.repeating import RepeatingEpisodes
from mviq.runs.replay_log import Ring, check_small_state, rings, set_small_state, small_state
from mviq.runs.snapshot import capture, prepare, restore
from mviq.runs.snapshot import check_state as check_object
from mviq.tsallis import Family

_NEXT_EPISODE = 1  # separates the seeds of new episodes from other seeds


def collect(agent: Any) -> tuple[dict[str, Any], Arrays]:
    """Return the state of an agent and its environment, without the rings of its replay buffer.

    The state of the environment is None if it cannot be read.
    """
    parts = {
        "state": agent.get_state(),
        "family": {name: getattr(agent, name) for name in SCHEDULED},
        "schedules": sorted(agent._schedules),
        "replay": small_state(agent.replay_buffer),
        "random": _random_state(),
        "action_space": agent.action_space,
        "env": agent.env if hidden_in(agent.env) is None else None,
        **_running_statistics(agent),
    }
    tree: dict[str, Any] = {}
    arrays: Arrays = {}
    for name, part in parts.items():
        tree[name], part_arrays = capture(part, name)
        arrays |= part_arrays
    return tree, arrays


def prepare_state(
    agent: Any,
    step: int,
    tree: dict[str, Any],
    arrays: Arrays,
    can_log: Callable[[str, Any], bool],
) -> Callable[[], None]:
    """Check a saved state, and return a function that loads it into the agent.

    The agent must be built from the same configuration, and its environment reset; it is not
    changed before the function is called. ``can_log(name, value)`` says what the run can log.
    """
    targets = dict.fromkeys(("state", "family", "schedules", "replay", "random"))
    targets |= {"env": agent.env, "action_space": agent.action_space}
    targets |= _running_statistics(agent)
    values, steps = {}, []
    for name, target in targets.items():
        values[name], put = prepare(target, tree[name], arrays, name)
        steps.append(put)
    state, chance = values["state"], values["random"]
    check_state(agent, state)
    if state["num_timesteps"] != step:
        raise ValueError(f"num_timesteps must be {step}, got {state['num_timesteps']}")
    for name, value, *_ in state["logged"]:
        if not can_log(name, value):
            raise ValueError(f"the run does not log {value!r:.40} as {name!r:.40}")
    family, schedules = _prepare_family(agent, values["family"], values["schedules"])
    check_small_state(agent.replay_buffer, values["replay"], step // agent.n_envs)
    _check_random_state(chance)

    def put_in_place() -> None:
        agent._set_family(family)
        agent._schedules = schedules
        agent.set_state(state)
        set_small_state(agent.replay_buffer, values["replay"])
        for put in steps:
            put()
        _set_random_state(chance)

    return put_in_place


def _prepare_family(agent: Any, numbers: Any, names: Any) -> tuple[Family, dict[str, Any]]:
    """Return the checked family and schedules of an agent; callbacks may have changed them."""
    if not isinstance(numbers, dict) or numbers.keys() != set(SCHEDULED):
        raise ValueError(f"family must have the numbers {SCHEDULED}, got {numbers!r:.40}")
    if not isinstance(names, list) or not set(names) <= agent._schedules.keys():
        raise ValueError(f"schedules must be of {list(agent._schedules)}, got {names!r:.40}")
    return replace(agent.family, **numbers), {name: agent._schedules[name] for name in names}


def _running_statistics(agent: Any) -> dict[str, Any]:
    """Return the running statistics of ``VecNormalize``, saved even if the environment is not."""
    known = vars(agent.get_vec_normalize_env() or object)
    return {name: known[name] for name in ("obs_rms", "ret_rms") if name in known}


def rehearse(make_env: Callable[[], VecEnv], tree: dict[str, Any], arrays: Arrays) -> None:
    """Restore a state in a new environment and take a step, which raises if the state is invalid.

    Wrappers may use part of their state only at the end of an episode. So the step ends the
    episode, unless the environment cannot end an episode so early even right after a reset.
    """
    if tree["env"] is None:
        return

    def go_on(ends: bool) -> None:
        with closing(make_env()) as env:
            env.reset()
            restore(env, tree["env"], arrays, "env")
            _step(env, restore(None, tree["state"], arrays, "state")["_last_obs"], ends)
            env.reset()

    try:
        go_on(ends=True)
    except Exception:
        if _can_end_early(make_env):
            raise
        go_on(ends=False)


def _can_end_early(make_env: Callable[[], VecEnv]) -> bool:
    with closing(make_env()) as env:
        try:
            _step(env, env.reset(), ends=True)
        except Exception:  # of any kind: it may be the user's own environment
            return False
    return True


def _step(env: VecEnv, last: Any, ends: bool) -> None:
    """Take a step with the first available action; it ends the episodes if ``ends``."""
    actions = np.full(env.num_envs, getattr(env.action_space, "start", 0))
    if has_mask(last):
        actions += last["action_mask"].argmax(axis=1)
    ending = [single.unwrapped for single in getattr(env, "envs", ()) if ends]
    for single in ending:
        _end_with_next_step(single)
    try:
        env.step(actions)
    finally:
        for single in ending:
            vars(single).pop("step", None)


def _end_with_next_step(env: Any) -> None:
    step = env.step

    def last_step(action: Any) -> Any:
        del env.step  # restores the original method
        observation, reward, _, truncated, info = step(action)
        return observation, reward, True, truncated, info

    env.step = last_step


def replay_rings(agent: Any) -> list[Ring]:
    """Return the rings of an agent's replay buffer."""
    return rings(agent.replay_buffer, agent.num_timesteps // agent.n_envs)


def repeat_what_is_hidden(env: VecEnv) -> None:
    """Wrap environments whose state cannot be read in ``RepeatingEpisodes``.

    The innermost place that suffices is used: outer wrappers may keep state across episodes.
    """
    for outer in getattr(env, "envs", ()):
        for wrapper in reversed(list(_wrappers(outer))):
            inside = wrapper.env
            if hidden_in(inside) is not None and isinstance(inside.action_space, spaces.Discrete):
                wrapper.env = RepeatingEpisodes(inside)
                if hidden_in(outer) is None:
                    break
                wrapper.env = inside


def _wrappers(env: Any) -> Iterator[Any]:
    """Yield the wrappers of an environment, the outermost first."""
    while isinstance(env, Wrapper):
        yield env
        env = env.env


def repeats(env: VecEnv) -> bool:
    """Return whether any environment is wrapped in ``RepeatingEpisodes``."""
    return any(is_wrapped(outer, RepeatingEpisodes) for outer in getattr(env, "envs", ()))


def hidden_in(env: Any) -> str | None:
    """Return None if the state of an environment can be read, else why not."""
    try:
        capture(env, "env")
    except CannotEncode as reason:
        return str(reason)
    return None


@contextmanager
def last_episodes_cut_off(agent: Any) -> Iterator[None]:
    """Mark the newest transitions in the replay buffer as truncated, until the end of the block.

    They are saved this way if the state of the environment cannot be read: the resumed run begins a
    new episode after them, and no n-step return may span both episodes.
    """
    buffer = agent.replay_buffer
    last = (buffer.pos - 1) % buffer.buffer_size
    before = buffer.dones[last].copy(), buffer.timeouts[last].copy()
    cut_off_last_episodes(buffer)
    yield
    buffer.dones[last], buffer.timeouts[last] = before


def begin_new_episodes(agent: Any, seed: int) -> None:
    """Reset the environment with a new seed, as its state could not be saved."""
    entropy = [seed, agent.num_timesteps, _NEXT_EPISODE]
    agent.env.seed(int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1))
    agent._last_obs = agent._last_original_obs = agent.env.reset()
    normalizer = agent.get_vec_normalize_env()
    if normalizer is not None:
        agent._last_original_obs = normalizer.get_original_obs()


def _random_state() -> dict[str, Any]:
    """Return the states of the global random generators."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002 - it is SB3 that draws from it
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def _check_random_state(state: dict[str, Any]) -> None:
    if state.keys() != _random_state().keys() or not isinstance(state["cuda"], list):
        raise ValueError(f"random must be the states of {list(_random_state())}")
    check_object(random.Random(), state["python"])
    check_object(np.random.RandomState(), state["numpy"])
    torch.Generator().set_state(state["torch"])


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])  # noqa: NPY002
    torch.set_rng_state(state["torch"])
    if len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


@contextmanager
def undisturbed_randomness() -> Iterator[None]:
    """Restore the global random generators at the end of the block."""
    before = _random_state()
    try:
        yield
    finally:
        _set_random_state(before)
