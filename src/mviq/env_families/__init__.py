"""Families of environments: one table of all that is specific to a family.

That is, the pattern of its ids, what to install, its preset and its reference scores. Reports and
the command line's help read it too, so it imports no learning library. The modules of an
environment are imported when it is created.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from mviq.env_families.atari_scores import ATARI_SCORES, Reference


class EnvFamily(NamedTuple):
    """Environments that share a preset and the packages that they need."""

    ids: str  # a regular expression for the beginning of its ids
    preset: str
    extra: str = ""  # the extra of mviq to install
    modules: Mapping[str, str] = {}  # required modules, and the distributions that have them
    package: str = ""  # of the entry points in Gymnasium's registry
    plugin: bool = False  # whether Gymnasium knows the ids only once the package is imported
    references: Mapping[str, Reference] = {}  # random and human scores by game
    affixes: str = ""  # a regular expression for the parts of an id besides the game
    returns: tuple[float, float] = (-math.inf, math.inf)  # lowest and highest of an episode

    def game(self, env_id: str) -> str:
        """Return the name of an id's game in ``references``."""
        return re.sub(self.affixes, "", env_id)


MINATAR_GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
# Only Freeway has a time limit, 2500 steps. In Seaquest an agent that hides survives for long:
# with Atari's limit of 27 000 steps such episodes would take most of the time of a study.
STEP_LIMIT = 5_000
MINATAR = EnvFamily(
    "MinAtar/",
    "minatar",
    "minatar",
    {"minatar": "minatar"},
    package="mviq.envs.minatar",
    returns=(0.0, math.inf),
)
# The games of old ids such as Pong-v4, which do not say that they are Atari's.
_UNSCORED = ("Adventure", "AirRaid", "Carnival", "ElevatorAction", "JourneyEscape", "Pooyan")
_OLD_IDS = rf"({'|'.join((*ATARI_SCORES, *_UNSCORED))})(-ram)?(Deterministic)?-v[04]$"
ATARI = EnvFamily(
    f"ALE/|.*NoFrameskip|{_OLD_IDS}",
    "atari",
    "atari",
    {"ale_py": "ale-py", "cv2": "opencv-python-headless"},
    package="ale_py",
    plugin=True,
    references=ATARI_SCORES,
    affixes=r"^ALE/|(-ram)?((NoFrameskip|Deterministic)?-v\d+)?$",
)
BOX2D = EnvFamily(
    "LunarLander|BipedalWalker|CarRacing",
    "general",
    "box2d",
    {"Box2D": "box2d"},
    package="gymnasium.envs.box2d",
)
OTHER = EnvFamily("", "general")
FAMILIES = (
    EnvFamily(r"CartPole-v\d+$", "gym", returns=(0.0, 500.0)),
    EnvFamily(r"Acrobot-v\d+$", "gym-acrobot", returns=(-500.0, 0.0)),
    EnvFamily(r"MountainCar-v0$", "general", returns=(-200.0, 0.0)),
    *(BOX2D, MINATAR, ATARI, OTHER),
)
"""The family of an environment is the first one whose ``ids`` match."""


def register_minatar() -> None:
    """Register the five games with Gymnasium; a second call is a no-op."""
    import gymnasium as gym

    for name, game in MINATAR_GAMES.items():
        if f"MinAtar/{name}-v1" not in gym.registry:
            gym.register(
                f"MinAtar/{name}-v1",
                f"{MINATAR.package}:MinAtarEnv",
                max_episode_steps=STEP_LIMIT,
                kwargs={"game": game},
            )


def family_of(env_id: str) -> EnvFamily:
    """Return the family of an environment by its id.

    >>> [family_of(env).preset for env in ("CartPole-v1", "Acrobot-v1", "MinAtar/Asterix-v1")]
    ['gym', 'gym-acrobot', 'minatar']
    >>> [family_of(env).preset for env in ("ALE/Pong-v5", "ale_py:ALE/Pong-v5", "LunarLander-v3")]
    ['atari', 'atari', 'general']
    """
    name = env_id.rpartition(":")[2]  # without the module that registers it
    return next(family for family in FAMILIES if re.match(family.ids, name))


def reference_of(env_id: str) -> Reference | None:
    """Return the reference scores of an environment, None if it has none.

    >>> reference_of("ale_py:ALE/Breakout-v5"), reference_of("CartPole-v1")
    (Reference(random=1.7, human=30.5), None)
    """
    family = family_of(env_id)
    return family.references.get(family.game(env_id.rpartition(":")[2]))
