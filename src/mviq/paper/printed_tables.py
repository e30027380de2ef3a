"""Tables 1 and 2: the paper's settings and those of our presets, line by line.

Layers, activations and optimiser are read from an agent built with the preset. This needs no
installed Atari game: a stub environment with its spaces is enough.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

from mviq.paper.reproduction import Data, Finding, Reproduction
from mviq.runs.building import make_agent, make_env
from mviq.runs.config import Config
from mviq.runs.presets import resolve

Setting: TypeAlias = tuple[str, str, Any]
"""A line of a table: its printed name, our field, and the printed value."""

ALPHA = ("α", "munchausen_alpha", 0.9)
TABLE_1 = (
    ("total steps T", "total_steps", 500_000),
    ("interaction period C", "train_every", 4),
    ("buffer size", "buffer_size", 50_000),
    ("batch size", "batch_size", 128),
    ("Q-network", "layers", ("FC512", "FC512")),
    ("activation units", "activations", ("ReLU",)),
    ("optimizer", "optimizer", "Adam"),
    ("learning rate", "learning_rate", 1e-3),
    ("discount γ", "gamma", 0.99),
    ("ε, from the beginning", "epsilon_start", 0.01),
    ("ε", "epsilon_end", 0.01),
    ("τ", "temperature", 0.03),
    ALPHA,
)
CARTPOLE = (*TABLE_1, ("update period I", "target_every", 100))
ACROBOT = (*TABLE_1, ("update period I", "target_every", 2_500))
TABLE_2 = (
    ("total steps T", "total_steps", 50_000_000),
    ("interaction period C", "train_every", 4),
    ("buffer size", "buffer_size", 1_000_000),
    ("batch size", "batch_size", 32),
    ("update period I", "target_every", 8_000),
    ("Q-network", "layers", ("Conv32 8×8/4", "Conv64 4×4/2", "Conv64 3×3/1", "FC512")),
    ("activation units", "activations", ("ReLU",)),
    ("optimizer", "optimizer", "Adam"),
    ("learning rate", "learning_rate", 1e-4),
    ("discount γ", "gamma", 0.99),
    ("ε at first", "epsilon_start", 1.0),
    ("ε at last", "epsilon_end", 0.01),
    ("share of learning", "epsilon_fraction", 0.1),
)
MVI_2 = (*TABLE_2, ("τ of MVI(q)", "temperature", 10.0), ALPHA)
M_VI = (*TABLE_2, ("τ of M-VI", "temperature", 0.03), ALPHA)
TSALLIS_VI = (*TABLE_2, ("τ of Tsallis-VI", "temperature", 10.0))


def first() -> Reproduction:
    """Compare Table 1 with the presets for CartPole and Acrobot."""
    columns = {"CartPole-v1": CARTPOLE, "Acrobot-v1": ACROBOT}
    return _table("table1", {env: (rows, resolve(env)) for env, rows in columns.items()})


def second() -> Reproduction:
    """Compare Table 2 with the preset for Atari, algorithm by algorithm."""
    env = "ALE/Seaquest-v5"
    columns = {
        "MVI(2)": (MVI_2, resolve(env, algorithm="mvi", q=2.0)),
        "M-VI": (M_VI, resolve(env, algorithm="m-vi")),
        "Tsallis-VI": (TSALLIS_VI, resolve(env, algorithm="tsallis-vi", q=2.0)),
    }
    return _table("table2", columns)


def _table(name: str, columns: Mapping[str, tuple[Sequence[Setting], Config]]) -> Reproduction:
    findings, cells = [], []
    for label, (rows, config) in columns.items():
        given = {**asdict(config), **_built(config)}
        for printed, field, value in rows:
            ours = given[field]
            measured = f"{printed}: {_plain(value)} there, {field} = {_plain(ours)} here"
            findings.append(Finding("the preset is the table", label, measured, ours == value))
            cells.append((label, printed, _plain(value), field, _plain(ours)))
    data = Data(("column", "printed as", "printed", "field", "preset"), cells)
    settings = ("where the table is silent, 'mviq train ENV --explain' gives our source",)
    return Reproduction(name, None, data, settings, findings)


class _Pictures(gymnasium.Env[Any, Any]):
    """A stub environment with the spaces of an Atari game."""

    action_space = spaces.Discrete(4)
    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def _built(config: Config) -> dict[str, Any]:
    """Return the hidden layers, activations and optimiser of an agent built from a config."""
    real = config.network == "mlp"
    env = make_env(config, 1, 0, evaluation=True) if real else DummyVecEnv([_Pictures])
    policy = make_agent(replace(config, buffer_size=config.batch_size), env).policy
    online = next(policy.children())
    parts = [part for part in online.modules() if not list(part.children())]
    layers = [part for part in parts if isinstance(part, nn.Linear | nn.Conv2d)]
    others = {type(part).__name__ for part in parts if part not in layers} - {"Flatten"}
    return {
        "layers": tuple(map(_layer, layers[:-1])),
        "activations": tuple(sorted(others)),
        "optimizer": type(policy.optimizer).__name__,
    }


def _layer(part: nn.Linear | nn.Conv2d) -> str:
    if isinstance(part, nn.Linear):
        return f"FC{part.out_features}"
    height, width = part.kernel_size
    return f"Conv{part.out_channels} {height}×{width}/{part.stride[0]}"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
