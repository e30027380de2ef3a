"""The paper's experiments as studies, each at several scales: only data, no code that runs them.

``full`` is the paper's own scale; ``smoke`` only tests that everything works; ``night`` is the
paper's protocol on MinAtar, for a night on a small machine. Where the paper does not state a
setting, the choice is ours and noted here.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from mviq.env_families import MINATAR, MINATAR_GAMES, family_of

StudyScale: TypeAlias = Literal["smoke", "small", "night", "full"]
SCALES: tuple[StudyScale, ...] = get_args(StudyScale)
TIMES: Mapping[StudyScale, str] = {
    "smoke": "about a minute",
    "small": "about an hour on two cores",
    "night": "several hours",
    "full": "for a cluster",
}

GAMES = (
    *("Alien", "Amidar", "Assault", "Asterix", "Asteroids", "BankHeist", "BattleZone"),
    *("BeamRider", "Boxing", "Breakout", "ChopperCommand", "CrazyClimber", "DemonAttack"),
    *("Enduro", "FishingDerby", "Freeway", "Frostbite", "Gopher", "Hero", "IceHockey"),
    *("Jamesbond", "Kangaroo", "Krull", "KungFuMaster", "MsPacman", "NameThisGame", "Pong"),
    *("PrivateEye", "Qbert", "Riverraid", "RoadRunner", "Seaquest", "SpaceInvaders"),
    *("UpNDown", "WizardOfWor"),
)
"""The paper does not list its 35 games. Ours: the 26 of Atari 100k (Kaiser et al. 2020), which
include all that the paper names, and nine more of the first 49 (Mnih et al. 2015)."""

M_VI, TSALLIS_VI = "M-VI", "Tsallis-VI"
TUNED = {
    "mvi": {"temperature": 0.03, "munchausen_alpha": 0.5},
    "tsallis-vi": {"temperature": 0.03},
}
"""The best settings of the ``night`` sweep, see docs/results.md."""


@dataclass(frozen=True)
class Experiment:
    """A study of the paper: what all scales share, and what each scale adds or replaces."""

    name: str
    common: Mapping[str, Any]
    scales: Mapping[StudyScale, Mapping[str, Any]]
    """As in a study file, and a ``remark``: what a reader must know about the scale."""

    def at(self, scale: StudyScale) -> dict[str, Any]:
        """Return the study at a scale, in the form of a study file."""
        if scale not in self.scales:
            raise ValueError(f"--scale must be one of {', '.join(self.scales)}, got {scale!r}")
        own = {key: value for key, value in self.scales[scale].items() if key != "remark"}
        settings = {**self.common.get("settings", {}), **own.get("settings", {})}
        return {"name": f"{self.name}-{scale}", **self.common, **own, "settings": settings}

    def stand_in(self, scale: StudyScale) -> str:
        """Return a note if a scale replaces Atari by MinAtar, else an empty string.

        >>> ATARI_COMPARISON.stand_in("small"), ATARI_COMPARISON.stand_in("full")
        ('on MinAtar in the place of Atari', '')
        >>> MINATAR_Q.stand_in("night")  # not of the paper, and on no scale on Atari
        ''
        """
        small = family_of(self.at(scale)["environments"][0]) is MINATAR
        return "on MinAtar in the place of Atari" if small and "full" in self.scales else ""

    def cost(self, scale: StudyScale) -> str:
        """Return how many runs a scale has, and how many steps each.

        >>> CARTPOLE_Q.cost("full")
        '200 runs of 250,000 steps'
        """
        study = self.at(scale)
        points = math.prod(map(len, study.get("grid", {}).values()))
        seeds = study["seeds"] if isinstance(study["seeds"], int) else len(study["seeds"])
        runs = len(study["environments"]) * len(study["algorithms"]) * points * seeds
        return f"{runs} runs of {study['settings']['total_steps']:,} steps"


def _classic_control(
    name: str,
    description: str,
    env: str,
    algorithms: Sequence[Mapping[str, Any]],
    small_seeds: int,
    smoke: Mapping[str, int],
    remark: str = "",
    **more: str,
) -> Experiment:
    """Return a study on CartPole or Acrobot, which share most settings."""
    return Experiment(
        name,
        common={
            "description": description,
            **more,
            "environments": [env],
            "algorithms": algorithms,
            "settings": {"total_steps": 250_000, "log_every": 2_500, "eval_every": 2_500},
        },
        scales={
            "smoke": {
                "remark": f"a network of 64 units, {smoke['total_steps']} steps: nothing is learnt",
                "seeds": 1,
                "settings": {**smoke, "hidden": [64]},
            },
            "small": {
                "remark": f"{small_seeds} seeds and 1e5 steps instead of 50 and 2.5e5",
                "seeds": small_seeds,
                "settings": {"total_steps": 100_000},
            },
            "full": {
                "remark": f"Table 1; 2.5e5 steps as in the text, the table says 5e5{remark}",
                "seeds": 50,
            },
        },
    )


CARTPOLE_Q = _classic_control(
    "cartpole-q",
    "MVI(q) on CartPole-v1 for q = 2, 3, 4, 5 (Figure 3)",
    "CartPole-v1",
    [{"label": f"q={q}", "algorithm": "mvi", "q": q} for q in (2, 3, 4, 5)],
    small_seeds=5,
    smoke={"total_steps": 1_600, "log_every": 200, "eval_every": 400},
)

CARTPOLE_NAIVE = _classic_control(
    "cartpole-naive",
    "The action gap against a naive q-logarithm at q = 2 (Figure 6, left)",
    "CartPole-v1",
    [
        {"label": "MVI(2)", "algorithm": "mvi", "q": 2, "form": "gap"},
        {"label": "naive", "algorithm": "mvi", "q": 2, "form": "naive_log", "clip": None},
    ],
    small_seeds=10,
    smoke={"total_steps": 1_600, "log_every": 200, "eval_every": 400},
    baseline="naive",
)

ACROBOT_Q = _classic_control(
    "acrobot-q",
    "MVI(q) on Acrobot-v1 for several q (Figure 6, right)",
    "Acrobot-v1",
    [{"label": f"q={q}", "algorithm": "mvi", "q": q} for q in (1, 2, 3, 4, 5)],
    small_seeds=4,
    smoke={"total_steps": 1_200, "log_every": 400, "eval_every": 600, "eval_episodes": 1},
    remark="; the paper tunes every q and does not say to what: ours share τ and α",
    baseline="q=1",
)

_MINATAR = [f"MinAtar/{game}-v1" for game in MINATAR_GAMES]
_SMOKE_MINATAR = {
    **{"total_steps": 400, "learning_starts": 100, "log_every": 200, "eval_every": 200},
    **{"eval_episodes": 1, "buffer_size": 400},
}

ATARI_COMPARISON = Experiment(
    name="atari",
    common={
        "description": "MVI(2) against M-VI and Tsallis-VI on Atari (Figures 4, 5 and 7)",
        "baseline": M_VI,
        "algorithms": [
            {"label": "MVI(2)", "algorithm": "mvi", "q": 2},
            {"label": M_VI, "algorithm": "m-vi"},
            {"label": TSALLIS_VI, "algorithm": "tsallis-vi", "q": 2},
        ],
    },
    scales={
        "smoke": {
            "remark": "one game, one seed, 96 steps, 8 quantiles: nothing is learnt",
            "environments": ["ALE/Pong-v5"],
            "seeds": 1,
            "settings": {
                **{"total_steps": 96, "learning_starts": 32, "buffer_size": 500},
                **{"n_quantiles": 8, "batch_size": 8, "log_every": 48, "eval_every": 48},
                "eval_episodes": 1,
            },
        },
        "small": {
            "remark": "MinAtar's five games with a scalar critic in the place of Atari: related "
            "games, another emulator, network and temperature (0.03 throughout)",
            "environments": _MINATAR,
            "seeds": 3,
            "settings": {"total_steps": 150_000, "eval_every": 15_000, "epsilon_fraction": 0.2},
        },
        "night": {
            "remark": "MinAtar's five games with a scalar critic in the place of Atari; α and τ of "
            "MVI(2), τ of Tsallis-VI by the sweep on Asterix and Seaquest with other seeds, M-VI "
            "with its published values, and DQN, which the paper leaves out",
            "name": "minatar",
            "description": "MVI(2), M-VI, Tsallis-VI and DQN on MinAtar (Figures 4, 5 and 7)",
            "environments": _MINATAR,
            "algorithms": [
                {"label": "MVI(2)", "algorithm": "mvi", "q": 2, **TUNED["mvi"]},
                {"label": M_VI, "algorithm": "m-vi"},
                {"label": TSALLIS_VI, "algorithm": "tsallis-vi", "q": 2, **TUNED["tsallis-vi"]},
                {"label": "DQN", "algorithm": "vi"},
            ],
            "seeds": 10,
            "settings": {"total_steps": 500_000},
        },
        "full": {
            "remark": "Table 2; protocol sb3 (life loss, no sticky actions, rewards clipped to "
            "learn, raw score to evaluate); 5e7 frames are 1.25e7 steps; our list of 35 games",
            "environments": [f"ALE/{game}-v5" for game in GAMES],
            "seeds": 3,
            "settings": {"total_steps": 12_500_000},
        },
    },
)

SWEEP = Experiment(
    name="sweep",
    common={
        "description": "The grid of α and τ for MVI(2) on Asterix and Seaquest",
        "environments": ["MinAtar/Asterix-v1", "MinAtar/Seaquest-v1"],
        "algorithms": [{"algorithm": "mvi", "q": 2}],
    },
    scales={
        "smoke": {
            "remark": "two points, 400 steps of MinAtar's Asterix: nothing is learnt",
            "environments": ["MinAtar/Asterix-v1"],
            "grid": {"munchausen_alpha": [0.5, 0.9], "temperature": [10.0]},
            "seeds": 1,
            "settings": _SMOKE_MINATAR,
        },
        "small": {
            "remark": "MinAtar's Asterix and Seaquest, 75 000 steps; of the grid the paper's "
            "choice and the eight points around it, so that three seeds of each can decide between "
            "them",
            "grid": {"munchausen_alpha": [0.5, 0.9, 0.99], "temperature": [1.0, 10.0, 100.0]},
            "seeds": 3,
            "settings": {"total_steps": 75_000, "eval_every": 7_500, "epsilon_fraction": 0.2},
        },
        "night": {
            "remark": "MinAtar's Asterix and Seaquest, 200 000 steps, two seeds; τ = 0.03 of M-VI "
            "is added to the paper's grid, and α = 0, which is Tsallis-VI; α = 0.01 and 0.1 and "
            "τ = 100 are left out",
            "grid": {
                "munchausen_alpha": [0.0, 0.5, 0.9, 0.99],
                "temperature": [0.01, 0.03, 0.1, 1.0, 10.0],
            },
            "seeds": [1000, 1001],  # not those of the comparison, which uses the best point
            "settings": {"total_steps": 200_000, "eval_every": 10_000},
        },
        "full": {
            "remark": "Table 2, 3 seeds: the paper does not say how many for the grid",
            "environments": ["ALE/Asterix-v5", "ALE/Seaquest-v5"],
            "grid": {
                "munchausen_alpha": [0.01, 0.1, 0.5, 0.9, 0.99],
                "temperature": [0.01, 0.1, 1.0, 10.0, 100.0],
            },
            "seeds": 3,
            "settings": {"total_steps": 12_500_000},
        },
    },
)

MINATAR_Q = Experiment(
    name="minatar-q",
    common={
        "description": "MVI(q) on two games of MinAtar at two temperatures: what q itself does",
        "baseline": "q=1, τ=0.1",
        "environments": ["MinAtar/Asterix-v1", "MinAtar/Breakout-v1"],
        "algorithms": [
            {"label": f"q={q}, τ={t:g}", "algorithm": "mvi", "q": q, "temperature": t}
            for t in (0.03, 0.1)
            for q in (1, 1.5, 2, 3, "inf")
        ],
        "settings": {"munchausen_alpha": 0.9},
    },
    scales={
        "smoke": {
            "remark": "one game, two values of q, 400 steps: nothing is learnt",
            "environments": ["MinAtar/Breakout-v1"],
            "algorithms": [
                {"label": f"q={q}, τ=0.1", "algorithm": "mvi", "q": q, "temperature": 0.1}
                for q in (1, 2)
            ],
            "seeds": 1,
            "settings": _SMOKE_MINATAR,
        },
        "night": {
            "remark": "5 seeds of 300 000 steps; the preset minatar, the gap with α = 0.9",
            "seeds": 5,
            "settings": {"total_steps": 300_000, "eval_every": 15_000},
        },
    },
)
