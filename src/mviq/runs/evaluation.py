"""Evaluation: episodes in environments of their own, which training does not notice."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from mviq.runs.building import Agent, make_env
from mviq.runs.config import Config
from mviq.runs.state import undisturbed_randomness

Way = Literal["greedy", "policy"]
TOGETHER = 10  # environments stepped at once
_EVALUATION = 2  # keeps these seeds apart from others made of the same numbers
RESAMPLES = 10_000


class Episode(NamedTuple):
    """The raw, unclipped return of an episode and its length in agent steps."""

    total: float
    length: int


def seed_of(seed: int, step: int) -> int:
    """Return the seed of an evaluation: another at every step, the same for every run."""
    entropy = [seed, step, _EVALUATION]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def evaluate(
    agent: Agent, config: Config, episodes: int, seed: int, way: Way = "greedy"
) -> list[Episode]:
    """Play some episodes, greedily or by the policy.

    The result depends on the agent's weights and on the seed alone. Episodes are the first ones
    of as many environments: taking the first to finish would prefer short ones.
    """
    found: list[Episode] = []
    with undisturbed_randomness():
        for first in range(0, episodes, TOGETHER):
            together = min(TOGETHER, episodes - first)
            env = make_env(config, together, seed + first, evaluation=True)
            try:
                found += _first_episodes(agent, env, np.random.default_rng([seed, first]), way)
            finally:
                env.close()
    return found


def _first_episodes(
    agent: Agent, env: VecEnv, generator: np.random.Generator, way: Way
) -> list[Episode]:
    found: dict[int, Episode] = {}
    observations = env.reset()
    while len(found) < env.num_envs:
        observations, _, _, infos = env.step(actions(agent, observations, generator, way))
        for i, info in enumerate(infos):
            if "episode" in info and i not in found:
                found[i] = Episode(float(info["episode"]["r"]), int(info["episode"]["l"]))
    return [found[i] for i in range(env.num_envs)]


def actions(
    agent: Agent, observations: Any, generator: np.random.Generator, way: Way
) -> np.ndarray[Any, Any]:
    """Return the best actions, or actions drawn from the policy with a generator of its own."""
    q_values = agent.q_values(observations)
    if way == "greedy":
        return np.asarray(q_values.argmax(1).cpu())
    cumulative = agent.family.policy(q_values.double()).cumsum(1).cpu().numpy()
    drawn = generator.random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((cumulative > drawn).argmax(1))


class Summary(NamedTuple):
    """The mean of some returns with its 95 % confidence interval, by bootstrap."""

    mean: float
    low: float
    high: float


def summary(returns: Iterable[float]) -> Summary:
    """Return the mean and a percentile-bootstrap interval.

    >>> summary([500.0, 500.0])
    Summary(mean=500.0, low=500.0, high=500.0)
    """
    values = np.asarray(list(returns))
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(values[drawn].mean(1), [0.025, 0.975])
    return Summary(float(values.mean()), float(low), float(high))
