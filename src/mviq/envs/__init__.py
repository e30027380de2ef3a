"""Environments by their Gymnasium id: classic control, MinAtar and Atari."""

from mviq.env_families import register_minatar
from mviq.envs.action_masks import ActionMasks
from mviq.envs.by_id import make
from mviq.envs.ids import game_of, known_ids

__all__ = ["ActionMasks", "game_of", "known_ids", "make"]

register_minatar()
