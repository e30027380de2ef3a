"""The environments that mviq adds to Gymnasium, known by id as soon as mviq's agents or envs are.

Nothing is imported for it but Gymnasium: an environment's own modules are loaded when it is made.
"""

import gymnasium as gym

MINATAR_GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
STEP_LIMIT = 27_000  # Atari's usual 108 000 frames at four frames a step; the games have none


def register_minatar() -> None:
    """Make the five games known to Gymnasium; doing so again changes nothing."""
    for name, game in MINATAR_GAMES.items():
        if f"MinAtar/{name}-v1" not in gym.registry:
            gym.register(
                f"MinAtar/{name}-v1",
                "mviq.envs.minatar:MinAtarEnv",
                max_episode_steps=STEP_LIMIT,
                kwargs={"game": game},
            )
