"""Families of environments: one table that says all that a family has of its own.

How its ids are recognised, what to install, which preset it gets, which reference scores it has.
Reports and the command line's help read it too, so it imports no learning library. An environment's
own modules are loaded when it is made.
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

from mviq.env_families.atari_scores import ATARI_SCORES, Reference


class EnvFamily(NamedTuple):
    """Environments that share their defaults and what has to be installed for them."""

    ids: str  # a regular expression for the beginning of its ids
    preset: str
    extra: str = ""  # of mviq, to be installed
    modules: Mapping[str, str] = {}  # that the extra installs, with the distributions they are from
    package: str = ""  # in which the environments are, as Gymnasium's registry has it
    plugin: bool = False  # whether Gymnasium knows the ids only once the package is imported
    references: Mapping[str, Reference] = {}  # scores of random and of human play by game
    affixes: str = ""  # a regular expression for what an id has besides the game
    returns: tuple[float, float] = (
        -math.inf,
        math.inf,
    )  # of an episode

    def game(self, env_id: str) -> str:
        """Return the game of an id as ``references`` names it."""
        return re.sub(self.affixes, "", env_id)


MINATAR_GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
# The games have no limit but Freeway, 2500 steps. In Seaquest an agent that hides is safe for long:
# with Atari's limit of 27 000 steps most of a study would be spent on watching such agents.
STEP_LIMIT = 5_000
MINATAR = EnvFamily(
    "MinAtar/",
    "minatar",
    "minatar",
    {"minatar": "minatar"},
    package="mviq.envs.minatar",
    returns=(0.0, math.inf),
)
ATARI = EnvFamily(
    "ALE/|.*NoFrameskip",
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
"""The first whose expression matches an id is the family of the environment."""


def register_minatar() -> None:
    """Make the five games known to Gymnasium; doing so again changes nothing."""
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

    >>> reference_of("ALE/Breakout-v5"), reference_of("CartPole-v1")
    (Reference(random=1.7, human=30.5), None)
    """
    scores = (family.references.get(family.game(env_id)) for family in FAMILIES)
    return next((reference for reference in scores if reference is not None), None)
