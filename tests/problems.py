"""Tiny environments with known answers; states are one-hot, so a linear network is a table."""

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.utils import LinearSchedule


class TableMDP(gym.Env):
    """A deterministic MDP given by tables; ``after`` −1 terminates, ``limit`` truncates."""

    def __init__(self, reward, after, limit=None, start=0):
        self.reward, self.after = np.asarray(reward, float), np.asarray(after)
        self.limit, self.start = limit, start
        states, actions = self.reward.shape
        self.observation_space = spaces.Box(0, 1, (states,), np.float32)
        self.action_space = spaces.Discrete(actions)

    def observe(self):
        return np.eye(len(self.reward), dtype=np.float32)[self.state]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state, self.time = self.start, 0
        if self.start is None:
            self.state = int(self.np_random.integers(len(self.reward)))
        return self.observe(), {}

    def step(self, action):
        reward, after = self.reward[self.state, action], self.after[self.state, action]
        self.time += 1
        self.state = max(int(after), 0)
        truncated = self.limit is not None and self.time >= self.limit
        return self.observe(), float(reward), bool(after < 0), truncated, {}


class Observed(gym.Env):
    """An environment of two actions with any observation space."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        over = bool(self.np_random.random() < 0.1)
        return self.observation_space.sample(), float(action), over, False, {}


def made(cls, env="CartPole-v1", policy_name="MlpPolicy", **options):
    """Return a small agent."""
    return cls(policy_name, env, **({"seed": 0, "device": "cpu", "buffer_size": 1000} | options))


def fixed_point(family, problem, gamma, iterations=3000):
    """Iterate the family's update on the tables until nothing moves."""
    reward, after = torch.tensor(problem.reward), torch.tensor(problem.after)
    q_values = torch.zeros_like(reward)
    for _ in range(iterations):
        at = family.evaluate(q_values)
        future = torch.where(after < 0, 0.0, family.bootstrap(at)[after.clamp(min=0)])
        q_values = reward + family.munchausen(q_values, at) + gamma * future
    return q_values


def learnt(cls, problem, updates=1500, gamma=0.9, **options):
    """Return the action values (states, actions) that an agent learns from random play."""
    policy = {"net_arch": []}
    if cls.__name__ == "QRMVI":
        policy["n_quantiles"] = 5
    settings = {
        "learning_rate": LinearSchedule(0.05, 0.002, 1.0),
        "gamma": gamma,
        "train_freq": 1,
        "target_update_interval": 20,
        "learning_starts": 50,
        "exploration_initial_eps": 1.0,
        "exploration_final_eps": 1.0,
        "buffer_size": 2000,
        "policy_kwargs": policy,
        "seed": 0,
        "device": "cpu",
    }
    agent = cls("MlpPolicy", problem, **(settings | options)).learn(updates + 50)
    with torch.no_grad():
        return agent.q_values(np.eye(len(problem.reward), dtype=np.float32)).double()
