"""Environments by their Gymnasium id: classic control, MinAtar and Atari."""

from mviq.envs.atari import PROTOCOLS, AtariVecEnv, Protocol
from mviq.envs.by_id import known_ids, make
from mviq.envs.minatar import MinAtarEnv

__all__ = ["PROTOCOLS", "AtariVecEnv", "MinAtarEnv", "Protocol", "known_ids", "make"]
