"""The settings of the throughput benchmark and the agents that it compares."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN

from mviq import envs
from mviq.agents import IQMVI, MVI, QRMVI, FrameReplayBuffer, MinAtarCNN

LEARNING_STARTS = 100


class Screens(gym.Env):
    """Observations of Atari's shape without an emulator: stacked random frames, 500 steps."""

    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = spaces.Discrete(6)

    def __init__(self):
        self.pool = np.random.default_rng(0).integers(1, 255, (64, 84, 84), np.uint8)

    def reset(self, *, seed=None, options=None):
        """Begin an episode."""
        super().reset(seed=seed)
        self.time, self.stack = 0, np.zeros((4, 84, 84), np.uint8)
        return self._next(), {}

    def _next(self):
        self.stack = np.concatenate([self.stack[1:], self.pool[None, self.time % 64]])
        return self.stack

    def step(self, action):
        """Show the next frame."""
        self.time += 1
        return self._next(), float(action == 0), False, self.time == 500, {}


@dataclass(frozen=True)
class Setting:
    """An environment, a network, and the targets, if there are any.

    ``goal`` is the least speed-up over the peer and ``most`` the greatest time relative to the
    matrix products alone, each for AMD processors and for others, whose products are faster.
    """

    title: str
    agent: type
    peer: type
    env: Callable[[], object]
    policy: str
    options: dict = field(default_factory=dict)
    ours: dict = field(default_factory=dict)
    goal: tuple[float, float] | None = None
    most: tuple[float, float] = (math.inf, math.inf)
    updates: int = 100
    warm_up: int = 4000
    rejax: Callable[[], object] | None = None


FC = {"net_arch": [512, 512]}
TABLE_1 = {"batch_size": 128, "buffer_size": 50_000, "learning_rate": 1e-3}
TABLE_1 |= {"target_update_interval": 100}
MINATAR = {"batch_size": 32, "buffer_size": 100_000, "target_update_interval": 1000}
ATARI = {"batch_size": 32, "buffer_size": 4_000, "target_update_interval": 8000}
FRAMES = {"replay_buffer_class": FrameReplayBuffer}
CNN = {"features_extractor_class": MinAtarCNN, "net_arch": []}


def rejax_dqn():
    """Return rejax's DQN with the settings of Table 1."""
    from rejax_peer import dqn

    return dqn(FC["net_arch"], **TABLE_1)


def rejax_iqn():
    """Return rejax's IQN with our network and number of fractions."""
    from rejax_peer import implicit

    return implicit(FC["net_arch"], 8, **TABLE_1)


SETTINGS = {
    "scalar": Setting(
        "Table 1, scalar: CartPole, FC512-512, batch 128",
        MVI,
        DQN,
        lambda: "CartPole-v1",
        "MlpPolicy",
        TABLE_1 | {"policy_kwargs": FC},
        goal=(1.4, 1.4),
        most=(1.2, 1.5),
        rejax=rejax_dqn,
    ),
    "quantile": Setting(
        "Table 1 with 200 quantiles",
        QRMVI,
        QRDQN,
        lambda: "CartPole-v1",
        "MlpPolicy",
        TABLE_1 | {"policy_kwargs": FC | {"n_quantiles": 200}},
        goal=(12.0, 12.0),
        most=(1.35, 1.8),
        updates=20,
        warm_up=1000,
    ),
    "implicit": Setting(
        "Table 1 with 8 implicit quantiles: FC512-512 × cosines, FC64; QRDQN's are fixed",
        IQMVI,
        QRDQN,
        lambda: "CartPole-v1",
        "MlpPolicy",
        TABLE_1 | {"policy_kwargs": {"net_arch": [512, 512, 64], "n_quantiles": 8}},
        updates=20,
        warm_up=1000,
        rejax=rejax_iqn,
    ),
    "minatar": Setting(
        "MinAtar Breakout, conv 16 3×3, FC128, batch 32",
        MVI,
        DQN,
        lambda: envs.make("MinAtar/Breakout-v1"),
        "CnnPolicy",
        MINATAR | {"policy_kwargs": CNN},
        goal=(3.0, 4.5),
        most=(1.7, 2.7),
        updates=200,
    ),
    "atari": Setting(
        "Atari's shape without emulator: Nature CNN, 200 quantiles, batch 32",
        QRMVI,
        QRDQN,
        Screens,
        "CnnPolicy",
        ATARI,
        FRAMES,
        goal=(1.5, 1.5),
        most=(1.2, 1.6),
        updates=12,
        warm_up=200,
    ),
    "emulator": Setting(
        "Atari with emulator: Breakout by the sb3 protocol, Nature CNN, 200 quantiles, batch 32",
        QRMVI,
        QRDQN,
        lambda: envs.make("ALE/Breakout-v5"),
        "CnnPolicy",
        ATARI,
        FRAMES,
        updates=12,
        warm_up=200,
    ),
}
FAMILIES = {
    "q = ∞, α = 0": {"q": math.inf, "munchausen_alpha": 0.0},
    "q = ∞": {"q": math.inf},
    "q = 1": {"q": 1.0},
    "q = 2": {"q": 2.0},
    "q = 3": {"q": 3.0},
}


def contenders(setting):
    """Return the agents of a setting, the peer first."""
    common = {"learning_starts": LEARNING_STARTS, "train_freq": 4, "exploration_final_eps": 0.01}
    common |= {"exploration_fraction": 1e-9, "seed": 0, "device": "cpu"}
    common |= setting.options

    def build(cls, **extra):
        # Agents modify policy_kwargs, so each gets a copy.
        own = {k: dict(v) if isinstance(v, dict) else v for k, v in common.items()}
        return cls(setting.policy, setting.env(), **own, **extra)

    scalar = setting.peer is DQN
    agents = {"SB3 DQN" if scalar else "sb3-contrib QRDQN": build(setting.peer)}
    if scalar and setting.policy == "MlpPolicy" and find_spec("sbx"):
        from sbx import DQN as SBX

        agents["SBX DQN"] = build(SBX)
    if setting.rejax and find_spec("rejax"):
        agents["rejax DQN" if scalar else "rejax IQN"] = setting.rejax()
    for name, family in FAMILIES.items():
        agents[f"{setting.agent.__name__} {name}"] = build(setting.agent, **family, **setting.ours)
    return agents
