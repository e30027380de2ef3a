"""Evaluation in separate environments; it does not affect training."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from stable_baselines3.common.vec_env import VecEnv

from mviq.agents import Agent
from mviq.agents.acting import step
from mviq.arrays import Array
from mviq.processor import threads
from mviq.runs.building import make_env
from mviq.runs.config import Config
from mviq.runs.run_state import undisturbed_randomness

Way = Literal["greedy", "policy"]
TOGETHER = 10  # episodes played at once
LONGEST = 27_000  # steps, 30 minutes of Atari: some environments never end an episode
_EVALUATION = 2  # separates the seeds of evaluations from other seeds


class Episode(NamedTuple):
    """The raw, unclipped return of an episode and its length in agent steps."""

    total: float
    length: int


def seed_of(seed: int, step: int) -> int:
    """Return the seed of the evaluation at a step, the same in all runs with this ``seed``."""
    entropy = [seed, step, _EVALUATION]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)


def evaluate(
    agent: Agent,
    config: Config,
    episodes: int,
    seed: int,
    way: Way = "greedy",
    tell: Callable[[int], None] = lambda finished: None,
) -> list[Episode]:
    """Play episodes with greedy actions or with actions sampled from the policy.

    The result depends only on the agent's weights and the seed. Each environment plays one episode:
    counting the first episodes to finish in parallel environments would favour short ones. An
    episode is truncated after ``LONGEST`` steps.

    ``tell`` is called after every step with the number of finished episodes; it may raise to abort.
    """
    finished: list[Episode] = []
    with undisturbed_randomness(), threads(config.threads):
        for first in range(0, episodes, TOGETHER):
            together = min(TOGETHER, episodes - first)
            with ExitStack() as stack:
                games = _games(config, together, seed + first, stack)
                generator = np.random.default_rng([seed, first])
                while playing := [game for game in games if not game.over]:
                    _play_on(agent, playing, generator, way)
                    tell(first + sum(len(game.episodes) for game in games))
            finished += [game.episodes[i] for game in games for i in range(game.env.num_envs)]
    return finished


class Game:
    """Vectorised environments, stepped until one episode of each has finished or is truncated."""

    def __init__(self, env: VecEnv) -> None:
        self.env, self.observations = env, cast(Any, env.reset())
        self.episodes: dict[int, Episode] = {}
        self.totals, self.length = np.zeros(env.num_envs), 0

    @property
    def over(self) -> bool:
        return len(self.episodes) == self.env.num_envs

    def step(self, actions: Array) -> None:
        self.observations, rewards, _, infos = step(self.env, actions)
        self.totals += rewards
        self.length += 1
        for i, info in enumerate(infos):
            if i in self.episodes:
                continue
            if "episode" in info:
                self.episodes[i] = Episode(float(info["episode"]["r"]), int(info["episode"]["l"]))
            elif self.length == LONGEST:
                self.episodes[i] = Episode(float(self.totals[i]), LONGEST)


def _games(config: Config, number: int, seed: int, stack: ExitStack) -> list[Game]:
    """Return one game per environment, so that finished ones cost no time.

    The environments of ale-py's vector backend form one game: they are stepped together in C++.
    """
    size = 1 if config.backend == "wrappers" else number
    games = []
    for first in range(0, number, size):
        env = make_env(config, size, seed + first, evaluation=True)
        stack.callback(env.close)
        games.append(Game(env))
    return games


def _play_on(agent: Agent, games: list[Game], generator: np.random.Generator, way: Way) -> None:
    """Step every game once, with actions from a single forward pass."""
    observations = _batch([game.observations for game in games])
    chosen = choose_actions(agent, observations, generator, way)
    ends = np.cumsum([game.env.num_envs for game in games])
    for game, part in zip(games, np.split(chosen, ends[:-1]), strict=True):
        game.step(part)


def _batch(observations: list[Any]) -> Any:
    """Concatenate the observations of several games into one batch, dictionaries key by key."""
    if not isinstance(observations[0], dict):
        return np.concatenate(observations)
    return {part: np.concatenate([seen[part] for seen in observations]) for part in observations[0]}


def choose_actions(
    agent: Agent, observations: Any, generator: np.random.Generator, way: Way
) -> Array:
    """Return the greedy actions, or actions sampled from the policy with ``generator``."""
    normalizer = agent.get_vec_normalize_env()
    if normalizer is not None:
        observations = normalizer.normalize_obs(observations)
    q_values = agent.q_values(observations)
    if way == "greedy":
        return np.asarray(q_values.argmax(1).cpu())
    cumulative = agent.family.policy(q_values.double()).cumsum(1).cpu().numpy()
    drawn = generator.random((len(cumulative), 1)) * cumulative[:, -1:]
    return np.asarray((cumulative > drawn).argmax(1))
