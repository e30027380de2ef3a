"""Defaults, each with its source: Tables 1 and 2 of the paper, and ours for MinAtar.

A preset is picked by the family of the environment. Where the paper is silent the source says
what we took instead and from whom.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, NamedTuple

from mviq.runs.config import Config

TABLE_1, TABLE_2 = "Table 1 of the paper", "Table 2 of the paper"
SB3 = "Stable-Baselines3's default; the paper is silent"
M_DQN = "Vieillard et al. (2020); the paper is silent"
MINATAR = "Young and Tian (2019)"
OURS = "our choice"


class Default(NamedTuple):
    """A value and where it comes from."""

    value: Any
    source: str


Defaults = Mapping[str, Default]


def _from(source: str, **values: Any) -> dict[str, Default]:
    return {name: Default(value, source) for name, value in values.items()}


@dataclass(frozen=True)
class Preset:
    """Defaults for a family of environments, and for some algorithms others."""

    summary: str
    values: Defaults
    by_algorithm: Mapping[str, Defaults] = field(default_factory=dict)


COMMON: Defaults = {
    **_from(OURS, seed=0, algorithm="mvi", acting="epsilon_greedy", value_limit=1e6),
    **_from("the paper acts and evaluates in one environment", n_envs=1),
    **_from("the paper bootstraps after one step", n_steps=1),
    **_from("Tables 1 and 2 of the paper", gamma=0.99, train_every=4, epsilon_end=0.01),
    **_from(SB3, gradient_steps=1),
    **_from("sb3-contrib's default, from Dabney et al. (2018)", n_quantiles=200),
    **_from("Mnih et al. (2015) as in Stable-Baselines3, which the paper used", protocol="sb3"),
    **_from("our choice: a run should resume exactly", backend="wrappers"),
    **_from("our choice: fastest for small networks, the same on every machine", threads=1),
    **_from(OURS, device="auto", keep_checkpoint=False, track="none", video=False),
    **_from(OURS, eval_episodes=10),
}

_GYM: Defaults = {
    **_from(TABLE_1, total_steps=500_000, buffer_size=50_000, batch_size=128, target_every=100),
    **_from(TABLE_1, network="mlp", hidden=(512, 512), learning_rate=1e-3, temperature=0.03),
    **_from(TABLE_1 + ": fixed from the beginning", epsilon_start=0.01, epsilon_fraction=1.0),
    **_from("the paper names quantiles for Atari only", critic="scalar"),
    **_from("PyTorch's default; the paper is silent", adam_epsilon=1e-8),
    **_from(SB3, learning_starts=100, max_grad_norm=10.0),
    **_from("Figure 3 of the paper", log_every=2_500, eval_every=2_500),
    **_from(OURS, checkpoint_every=10_000),
}

_MINATAR: Defaults = {
    **_from(MINATAR, total_steps=5_000_000, buffer_size=100_000, batch_size=32),
    **_from(MINATAR, target_every=1_000, learning_starts=5_000, network="minatar", hidden=()),
    **_from("Table 1 of the paper, the small problems", temperature=0.03),
    **_from("our choice: Adam as in the paper, with MinAtar's step size", learning_rate=2.5e-4),
    **_from("our choice: as in the paper's tables; MinAtar's own agent: 1", train_every=4),
    **_from("our choice: as for Atari (Dabney et al. 2018)", adam_epsilon=0.01 / 32),
    **_from("our choice: MinAtar is for quick experiments", critic="scalar"),
    **_from(MINATAR, epsilon_start=1.0),
    **_from("Table 2 of the paper; MinAtar's own agent: 0.1", epsilon_end=0.01),
    **_from(MINATAR + ": 100 000 steps", epsilon_fraction=0.02),
    **_from("Stable-Baselines3's default", max_grad_norm=10.0),
    **_from(OURS, log_every=10_000, eval_every=50_000, checkpoint_every=50_000),
}

_ATARI: Defaults = {
    **_from(TABLE_2, buffer_size=1_000_000, batch_size=32, target_every=8_000),
    **_from(TABLE_2 + "; the text says frames, four times less", total_steps=50_000_000),
    **_from(TABLE_2 + ": the layer of 512 is part of it", network="nature", hidden=()),
    **_from(TABLE_2, learning_rate=1e-4, temperature=10.0),
    **_from(TABLE_2, epsilon_start=1.0, epsilon_fraction=0.1),
    **_from("the paper's experiments: based on QR-DQN", critic="quantile"),
    **_from("sb3-contrib's default: 0.01 / batch_size", adam_epsilon=0.01 / 32),
    **_from(M_DQN, learning_starts=20_000),
    **_from("sb3-contrib's default; the paper is silent", max_grad_norm=None),
    **_from(OURS, log_every=10_000, eval_every=250_000, checkpoint_every=100_000),
}

PRESETS = {
    "gym": Preset("Table 1: CartPole and other small problems", _GYM),
    "gym-acrobot": Preset(
        "Table 1 for Acrobot: the target network is copied less often",
        {**_GYM, **_from(TABLE_1, target_every=2_500)},
    ),
    "minatar": Preset("ours for MinAtar, after Young and Tian (2019)", _MINATAR),
    "atari": Preset(
        "Table 2: Atari", _ATARI, {"m-vi": _from(TABLE_2 + " for M-VI", temperature=0.03)}
    ),
}


def preset_of(env: str) -> str:
    """Return the name of the preset for an environment.

    >>> [preset_of(env) for env in ("CartPole-v1", "Acrobot-v1", "MinAtar/Asterix-v1")]
    ['gym', 'gym-acrobot', 'minatar']
    >>> preset_of("ALE/Pong-v5"), preset_of("ale_py:ALE/Pong-v5")
    ('atari', 'atari')
    """
    name = env.rpartition(":")[2]  # without the module that registers it
    if name.startswith("MinAtar/"):
        return "minatar"
    if name.startswith("ALE/") or "NoFrameskip" in name:
        return "atari"
    return "gym-acrobot" if name.startswith("Acrobot-") else "gym"


def defaults(env: str, algorithm: str | None = None, preset: str | None = None) -> Defaults:
    """Return the default and its source of every field for an environment and an algorithm."""
    name = preset_of(env) if preset is None else preset
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    chosen = COMMON["algorithm"].value if algorithm is None else algorithm
    found = PRESETS[name]
    special = found.by_algorithm.get(chosen, {})
    return {**_point_of_the_family(chosen), **COMMON, **found.values, **special}


def resolve(env: str, preset: str | None = None, **changes: Any) -> Config:
    """Return the configuration of a run: what is given, and defaults for the rest.

    >>> resolve("CartPole-v1", q=3.0).target_every
    100
    """
    check_names(changes)
    rest = defaults(env, changes.get("algorithm"), preset)
    values = {name: default.value for name, default in rest.items()}
    return Config(**{**values, **changes, "env": env})


def _point_of_the_family(algorithm: str) -> dict[str, Default]:
    """Return the numbers that an algorithm's name stands for."""
    from mviq.tsallis.family import FAMILY

    if algorithm not in FAMILY:
        known = f"{', '.join(FAMILY)} (DQN is vi, M-DQN m-vi, soft DQN soft-vi)"
        raise ValueError(f"algorithm must be one of {known}, got {algorithm!r}")
    return _from(f"what the name {algorithm} stands for", **vars(FAMILY[algorithm]))


def check_names(settings: Iterable[str]) -> None:
    """Say which setting there is not, and the closest there is."""
    known = [f.name for f in fields(Config)]
    for name in sorted(set(settings) - set(known), key=str):
        close = get_close_matches(str(name), known, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"a run has no setting {name!r}{hint}")
