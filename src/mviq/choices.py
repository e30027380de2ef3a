"""Choices with a one-line description each, which help shows without importing PyTorch."""

from collections.abc import Mapping
from typing import Literal

Form = Literal["gap", "log", "truncated_log", "naive_log"]
PolicyMethod = Literal["exact", "taylor"]
PriorMotion = Literal["fixed", "moving"]
NoiseKind = Literal["gaussian", "heavy-tailed", "outliers", "constant"]

TOLERANCE = 1e-8  # at which an iteration has converged
MAX_ITERATIONS = 10_000

ALGORITHMS: Mapping[str, str] = {
    "vi": "value iteration: q = ∞, α = 0",
    "advantage-learning": "greedy with an action gap: q = ∞",
    "soft-vi": "entropy regularisation: q = 1, α = 0",
    "m-vi": "Munchausen value iteration: q = 1, log form, clipped at −1",
    "tsallis-vi": "Tsallis-entropy regularisation: any q, α = 0",
    "mvi": "MVI(q), the paper's algorithm: any q, gap form",
    "kl-vi": "explicit KL to a stored prior: q = 1",
    "tkl-vi": "explicit Tsallis-KL to a stored prior: any q",
}
"""The eight named algorithms, with one line about each."""

ANY = "family"
"""The choice of an implicit algorithm without a name: all its numbers are free."""

GENERATORS: Mapping[str, str] = {
    "garnet": "random MDP (states, actions, branching, discount, seed)",
    "chain": "only the right end of it pays (states, slip, discount)",
    "lock-in": "stay for 0.1, or walk to where 1 is paid (states, discount)",
    "grid": "random walls (rows, columns, slip, walls, discount, seed)",
    "deep-sea": "one way in 2^size leads to the treasure (size, discount)",
}
"""The generators of MDPs, with one line about each and its settings."""

TOY_TEXT: Mapping[str, str] = {
    "FrozenLake-v1": "4×4 slippery ice; try :map_name=8x8,is_slippery=false",
    "CliffWalking-v1": "4×12 grid, the short way runs along a cliff",
    "Taxi-v4": "pick up a passenger and bring them to one of four places",
}
"""Gymnasium environments that are known to be tabular; others with a table ``P`` work too."""
