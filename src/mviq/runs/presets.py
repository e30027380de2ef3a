"""Defaults, each with its source: Tables 1 and 2 of the paper, and ours for the rest.

A preset is chosen by the family of the environment. Where the paper gives no value, the source says
where ours comes from. A default that depends on the length of the run is a function of it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from mviq.env_families import family_of
from mviq.messages import did_you_mean
from mviq.runs.config import LARGEST, Config, fits

TABLE_1, TABLE_2 = "Table 1 of the paper", "Table 2 of the paper"
REFERENCE = "Google Research's M-DQN, from which Table 1 comes; the paper is silent"
SB3 = "Stable-Baselines3's default; the paper is silent"
M_DQN = "Vieillard et al. (2020); the paper is silent"
MINATAR = "Young and Tian (2019)"
BTR = "BTR (Clark et al. 2024) and its code"
OURS = "our choice"
SEARCHED = "our choice after the searches of results/tune-*.csv"


class Default(NamedTuple):
    """A value, or a function of ``total_steps`` that returns it, and its source."""

    value: Any
    source: str

    def of(self, total_steps: int) -> "Default":
        """Return the default with its value for a run of ``total_steps`` steps."""
        value = self.value(total_steps) if callable(self.value) else self.value
        return Default(value, self.source)


Defaults = Mapping[str, Default]


def _from(source: str, **values: Any) -> dict[str, Default]:
    return {name: Default(value, source) for name, value in values.items()}


def _at_most(steps: int, share: float) -> Callable[[int], int]:
    """Return a function of ``total_steps``: ``steps``, but at most a share of the run."""
    return lambda total_steps: max(1, min(steps, int(share * total_steps)))


def _over(steps: int, most: float) -> Callable[[int], float]:
    """Return a function of ``total_steps``: the fraction that ``steps`` are, at most ``most``."""
    return lambda total_steps: min(most, steps / total_steps)


_EVALUATED = 1 / 20  # a curve has at least 20 points, however short the run
_WARM_UP = 1 / 20  # ε decays over at least twice as many steps


@dataclass(frozen=True)
class Preset:
    """Defaults for a family of environments, some of which depend on the algorithm."""

    summary: str
    values: Defaults
    by_algorithm: Mapping[str, Defaults] = field(default_factory=dict)


COMMON: Defaults = {
    **_from(OURS, seed=0, algorithm="mvi", acting="epsilon_greedy", value_limit=1e6),
    **_from("the paper acts and evaluates in one environment", n_envs=1),
    **_from("the paper bootstraps after one step", n_steps=1),
    **_from("Tables 1 and 2 of the paper", gamma=0.99, train_every=4, epsilon_end=0.01),
    **_from(SB3, gradient_steps=1),
    **_from("Stable-Baselines3's default; see Pardo et al. (2018)", time_limit="bootstrap"),
    **_from(OURS, observation_bounds="none"),
    **_from("the paper's step size is constant", learning_rate_end=None),
    **_from("sb3-contrib's default, from Dabney et al. (2018)", n_quantiles=200),
    **_from("the agent's defaults, docs/agents.md", fractions=None, head="none"),
    **_from("the paper replays uniformly", prioritized_replay=None),
    **_from("Mnih et al. (2015) as in Stable-Baselines3, which the paper used", protocol="sb3"),
    **_from("our choice: a run should resume exactly", backend="wrappers"),
    **_from("our choice: fastest for small networks, the same on every machine", threads=1),
    **_from("our choice: saving does not change what is learnt", checkpoint_every=None),
    **_from(OURS, device="auto", keep_checkpoint=False, track="none", video=False),
    **_from(OURS, eval_episodes=10),
    **_from(OURS, wrappers=(), normalize="none", features_extractor=None, callbacks=()),
    **_from(OURS, learning_rate_schedule=None, q_schedule=None),
}

_CLIPPED: Mapping[str, Defaults] = {
    "mvi": _from(
        "M-DQN's bounds, since the paper is silent; measured in docs/paper.md", clip=(-1.0, 1.0)
    )
}

_GYM: Defaults = {
    **_from(TABLE_1, total_steps=500_000, buffer_size=50_000, batch_size=128, target_every=100),
    **_from(TABLE_1, network="mlp", hidden=(512, 512), learning_rate=1e-3, temperature=0.03),
    **_from(TABLE_1 + ": fixed from the beginning", epsilon_start=0.01, epsilon_fraction=1.0),
    **_from("the paper names quantiles for Atari only", critic="scalar"),
    **_from(REFERENCE, adam_epsilon=3.125e-4, max_grad_norm=None, time_limit="terminal"),
    **_from(
        "M-DQN's warm-up (ε-greedy there, random actions here); a twentieth of a shorter run",
        learning_starts=_at_most(500, _WARM_UP),
    ),
    **_from(REFERENCE, observation_bounds=(2.4, 5.0, math.pi / 12, 2 * math.pi)),
    **_from(
        "Figure 3 of the paper, or 20 times in a shorter run",
        log_every=_at_most(2_500, _EVALUATED),
        eval_every=_at_most(2_500, _EVALUATED),
    ),
}

_GENERAL: Defaults = {
    **_from(OURS, total_steps=100_000, buffer_size=100_000, network="mlp"),
    **_from(SEARCHED, learning_rate=5e-4, n_steps=5, target_every=250, hidden=(256, 256)),
    **_from("M-DQN's; kept CartPole solved in results/tune-cartpole.csv", adam_epsilon=3.125e-4),
    **_from(OURS, batch_size=64, epsilon_end=0.1),
    **_from("our choice: an agent that has learnt keeps it", learning_rate_end=0.0),
    **_from("our choice: an update for every step", train_every=4, gradient_steps=4),
    **_from(
        "our choice: enlarges small numbers, such as MountainCar's velocity below 0.07",
        observation_bounds="space",
    ),
    **_from(OURS, critic="scalar"),
    **_from(
        "our choice, or a twentieth of a shorter run", learning_starts=_at_most(1_000, _WARM_UP)
    ),
    **_from(OURS, epsilon_start=1.0, epsilon_fraction=0.2),
    **_from(TABLE_1, temperature=0.03),
    **_from("Stable-Baselines3's default", max_grad_norm=10.0),
    **_from(
        "our choice: 40 times in a run",
        log_every=_at_most(50_000, 1 / 40),
        eval_every=_at_most(50_000, 1 / 40),
    ),
}

_MINATAR: Defaults = {
    **_from(MINATAR, total_steps=5_000_000, buffer_size=100_000, batch_size=32),
    **_from(MINATAR, target_every=1_000, network="minatar", hidden=()),
    **_from(
        MINATAR + ", or a twentieth of a shorter run", learning_starts=_at_most(5_000, _WARM_UP)
    ),
    **_from("Table 1 of the paper, the small problems", temperature=0.03),
    **_from("our choice: Adam as in the paper, with MinAtar's step size", learning_rate=2.5e-4),
    **_from("our choice: as in the paper's tables; MinAtar's own agent: 1", train_every=4),
    **_from("our choice: as for Atari (Dabney et al. 2018)", adam_epsilon=0.01 / 32),
    **_from("our choice: MinAtar is for quick experiments", critic="scalar"),
    **_from(MINATAR, epsilon_start=1.0),
    **_from("Table 2 of the paper; MinAtar's own agent: 0.1", epsilon_end=0.01),
    **_from(
        MINATAR + ": 100 000 steps, or half of a shorter run", epsilon_fraction=_over(100_000, 0.5)
    ),
    **_from("Stable-Baselines3's default", max_grad_norm=10.0),
    **_from(
        "our choice: at least 20 times in a run",
        log_every=_at_most(10_000, _EVALUATED),
        eval_every=_at_most(50_000, _EVALUATED),
    ),
}

_ATARI: Defaults = {
    **_from(TABLE_2, buffer_size=1_000_000, batch_size=32, target_every=8_000),
    **_from(TABLE_2 + "; the text says frames, four times less", total_steps=50_000_000),
    **_from(TABLE_2 + ": the layer of 512 is part of it", network="nature", hidden=()),
    **_from(TABLE_2, learning_rate=1e-4, temperature=10.0),
    **_from(TABLE_2, epsilon_start=1.0, epsilon_fraction=0.1),
    **_from("the paper's experiments: based on QR-DQN", critic="quantile"),
    **_from("sb3-contrib's default: 0.01 / batch_size", adam_epsilon=0.01 / 32),
    **_from(M_DQN + "; a twentieth of a shorter run", learning_starts=_at_most(20_000, _WARM_UP)),
    **_from("sb3-contrib's default; the paper is silent", max_grad_norm=None),
    **_from(
        "our choice: at least 20 times in a run",
        log_every=_at_most(10_000, _EVALUATED),
        eval_every=_at_most(250_000, _EVALUATED),
    ),
}

_BTR: Defaults = {
    **_ATARI,
    **_from(BTR, critic="implicit", head="dueling", network="impala", hidden=(512,)),
    **_from(BTR + " for updates, IQN (Dabney et al. 2018) for acting", fractions=(8, 32)),
    **_from(BTR, temperature=0.03, gamma=0.997, n_steps=3, epsilon_start=1.0, epsilon_end=0.01),
    **_from(
        BTR + " for the exponent, Rainbow (Hessel et al. 2018) for β",
        prioritized_replay=(0.2, 0.4),
    ),
    **_from(BTR, batch_size=256, learning_rate=1e-4, adam_epsilon=0.005 / 256, max_grad_norm=10.0),
    **_from(BTR, n_envs=64, train_every=1, buffer_size=2**20),
    **_from(BTR + ": 500 updates of 64 steps", target_every=32_000),
    **_from(BTR + "; a twentieth of a shorter run", learning_starts=_at_most(200_000, _WARM_UP)),
    **_from(
        BTR + ": 2 000 000 steps, or half of a shorter run",
        epsilon_fraction=_over(2_000_000, 0.5),
    ),
    **_from(BTR + ": 200 million frames", total_steps=50_000_000),
    **_from(BTR + ": sticky actions, whole games", protocol="machado"),
    **_from("our choice: 64 emulators in C++; BTR has a process for each", backend="overlap"),
}

PRESETS = {
    "gym": Preset("Table 1 for CartPole, and the reference where it is silent", _GYM, _CLIPPED),
    "gym-acrobot": Preset(
        "Table 1 for Acrobot: the target network is copied less often",
        {
            **_GYM,
            **_from(TABLE_1, target_every=2_500),
            **_from("Dopamine, on which M-DQN builds", observation_bounds=(1, 1, 1, 1, 5, 5)),
        },
        _CLIPPED,
    ),
    "general": Preset("our defaults for all other environments", _GENERAL, _CLIPPED),
    "minatar": Preset("ours for MinAtar, after Young and Tian (2019)", _MINATAR),
    "atari": Preset(
        "Table 2: Atari", _ATARI, {"m-vi": _from(TABLE_2 + " for M-VI", temperature=0.03)}
    ),
    "btr": Preset("BTR, Beyond the Rainbow, which is `m-vi` here: Atari", _BTR, _CLIPPED),
}


def defaults(
    env: str,
    algorithm: str | None = None,
    preset: str | None = None,
    total_steps: int | None = None,
) -> Defaults:
    """Return the default of every field, with its source.

    Some depend on the length of the run, which is that of the preset if ``total_steps`` is None.
    """
    name = family_of(env).preset if preset is None else preset
    if name not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {name!r}")
    chosen = COMMON["algorithm"].value if algorithm is None else algorithm
    picked = PRESETS[name]
    own = picked.by_algorithm.get(chosen, {})
    every = {**_point_of_the_family(chosen), **COMMON, **picked.values, **own}
    every["preset"] = Default(name, "by environment")
    steps = every["total_steps"].value if total_steps is None else total_steps
    return {name: default.of(steps) for name, default in every.items()}


def resolve(env: str, preset: str | None = None, **changes: Any) -> Config:
    """Return the configuration of a run: what is given, and defaults for the rest.

    >>> resolve("CartPole-v1", q=3.0).target_every
    100
    """
    given = changes.pop("given", None)
    check_names(changes)
    if preset is not None:
        changes["preset"] = preset
    changes["given"] = tuple(changes) if given is None else given
    steps: Any = changes.get("total_steps")
    known = steps if fits(steps, int) and 0 < steps < LARGEST else None  # Config refuses others
    rest = defaults(env, changes.get("algorithm"), preset, known)
    values = {name: default.value for name, default in rest.items()}
    return Config(**{**values, **changes, "env": env})


def sources(config: Config) -> dict[str, str]:
    """Return where every value of a configuration comes from."""
    rest = defaults(config.env, config.algorithm, config.preset, config.total_steps)
    taken = {
        name: default.source
        for name, default in rest.items()
        if name not in config.given and default.value == getattr(config, name)
    }
    return {f.name: taken.get(f.name, "given") for f in fields(config)}


def _point_of_the_family(algorithm: str) -> dict[str, Default]:
    """Return the parameters of the MVI(q) family that define a named algorithm."""
    from mviq.tsallis.family import FAMILY

    if algorithm not in FAMILY:
        known = f"{', '.join(FAMILY)} (DQN is vi, M-DQN m-vi, soft DQN soft-vi)"
        raise ValueError(f"algorithm must be one of {known}, got {algorithm!r}")
    return _from(f"what the name {algorithm} stands for", **vars(FAMILY[algorithm]))


def check_names(settings: Iterable[str]) -> None:
    """Raise ``ValueError`` for an unknown setting, with the closest known one."""
    known = [f.name for f in fields(Config) if f.name != "given"]
    for name in sorted(set(settings) - set(known), key=str):
        raise ValueError(f"a run has no setting {name!r}{did_you_mean(name, known)}")
