"""Parts of a person's own, as a project that uses mviq would have them in a module."""

import os

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.classic_control import CartPoleEnv
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import FlattenExtractor


class Parts(gym.Env):
    """Walk along a line; the observation is a dictionary, the right half pays."""

    observation_space = spaces.Dict(
        {"tile": spaces.Discrete(5), "where": spaces.Box(-0.5, 0.5, (2,), np.float32)}
    )
    action_space = spaces.Discrete(2)
    place = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(-1, 2))
        return self.observe(), {}

    def observe(self):
        return {"tile": self.place + 2, "where": np.array([self.place / 4, 0.1], np.float32)}

    def step(self, action):
        self.place = int(np.clip(self.place + 2 * action - 1, -2, 2))
        return self.observe(), float(self.place > 0), False, False, {}


class Fickle(CartPoleEnv):
    """Hides its state, and never does the same twice."""

    def __init__(self, **options):
        super().__init__(**options)
        self.hidden = iter(())

    def step(self, action):
        observation, *rest = super().step(action)
        return observation + np.float32(1e-6 * os.urandom(1)[0]), *rest


class Scoring(CartPoleEnv):
    """Gives a score when the pole falls, and not otherwise."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {"score": 7.0} if terminated else info


class Scored(gym.Wrapper):
    """Needs the score at the end of an episode."""

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward + (info["score"] if terminated else 0), terminated, truncated, {}


IDS = (("Parts-v0", Parts, 20), ("Fickle-v0", Fickle, 50), ("Scoring-v0", Scoring, 50))
for env_id, env, limit in IDS:
    if env_id not in gym.registry:  # pytest imports this file under another name, too
        gym.register(env_id, env, max_episode_steps=limit)


class Squashed(FlattenExtractor):
    def forward(self, observations):
        return torch.tanh(super().forward(observations))


class Dropping(FlattenExtractor):
    def forward(self, observations):
        return torch.nn.functional.dropout(super().forward(observations), 0.5, self.training)


class Batched(FlattenExtractor):
    def __init__(self, observation_space):
        super().__init__(observation_space)
        self.norm = torch.nn.BatchNorm1d(self.features_dim)

    def forward(self, observations):
        return self.norm(super().forward(observations))


class Noisy(gym.ObservationWrapper):
    """Observations with noise, whose generator is part of the state of a run."""

    def __init__(self, env):
        super().__init__(env)
        self.noise = np.random.default_rng(0)

    def observation(self, observation):
        noise = self.noise.standard_normal(observation.shape)
        return (observation + 0.01 * noise).astype(np.float32)


class Counting(BaseCallback):
    """Counts episodes, and logs how many."""

    def __init__(self):
        super().__init__()
        self.ends = 0

    def _on_step(self):
        self.ends += int(self.locals["dones"].sum())
        self.logger.record("own/ends", self.ends)
        return True


class Sharpening(BaseCallback):
    """Sets q and the temperature in the middle of a run, which ends the schedule of q."""

    def _on_step(self):
        if self.num_timesteps == 300:
            self.model.q, self.model.temperature = 3.0, self.model.temperature / 2
        self.logger.record("own/temperature", self.model.temperature)
        self.logger.record("own/q", self.model.q)
        return True


class Impatient(BaseCallback):
    def _on_step(self):
        return self.num_timesteps < 300


def halving(left):
    return 1e-3 * 2.0 ** (10 * (left - 1))


def falling_q(left):
    return 1 + left
