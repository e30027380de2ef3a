"""One sweep over all states: improve every state, then back its value up to the predecessors.

States are improved in chunks that stay in cache, by the operators of ``mviq.tsallis``; one
compiled pass over the transitions then adds the discounted values of the next states. A sweep
allocates the new action values and one value per state, nothing else of that size.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from mviq.arrays import Array
from mviq.processor import threads
from mviq.tabular.algorithms import Algorithm, ExplicitKL, Improvement, improve
from mviq.tabular.mdp import MDP
from mviq.tsallis.kernels.compiling import compiled_with

CHUNK = 8192
"""Number of states improved at a time, small enough for their data to stay in cache."""


class Sweep(NamedTuple):
    """The result of a sweep: the next action values, and how they changed."""

    q_values: Tensor
    change: tuple[float, float]
    """The smallest and the largest component of T Q_k − Q_k."""
    scale: float
    """The largest absolute value of a state."""
    policy: Tensor | None
    """The policy, if the algorithm has a moving prior: it is the next prior."""

    @property
    def residual(self) -> float:
        """‖T Q_k − Q_k‖∞, the Bellman residual of the algorithm's own operator at Q_k."""
        return max(-self.change[0], self.change[1])


@threads(1)
def sweep(mdp: MDP, algorithm: Algorithm, q_values: Tensor, prior: Tensor | None) -> Sweep:
    """Apply the algorithm's operator once, in one thread."""
    rewards = torch.from_numpy(mdp.rewards)
    terminal = torch.from_numpy(mdp.terminal) if mdp.terminal.any() else None
    moving = isinstance(algorithm, ExplicitKL) and algorithm.prior == "moving"
    policy = torch.empty_like(q_values) if moving else None
    result, values = q_values.new_empty(q_values.shape), q_values.new_empty(mdp.states)
    for rows, step in improved_chunks(algorithm, q_values, prior):
        values[rows] = step.value
        if step.bonus is None:
            result[rows] = rewards[rows]
        else:
            torch.add(rewards[rows], step.bonus, out=result[rows])
        if terminal is not None:
            values[rows][terminal[rows]] = 0.0
            result[rows][terminal[rows]] = 0.0
        if policy is not None:
            policy[rows] = step.policy
    change = back_up(mdp, values, q_values, result)
    array = values.numpy()
    return Sweep(result, change, float(max(-array.min(), array.max())), policy)


def improved_chunks(
    algorithm: Algorithm, q_values: Tensor, prior: Tensor | None
) -> Iterator[tuple[slice, Improvement]]:
    """Improve the states chunk by chunk."""
    for first in range(0, len(q_values), CHUNK):
        rows = slice(first, first + CHUNK)
        yield rows, improve(algorithm, q_values[rows], None if prior is None else prior[rows])


def back_up(mdp: MDP, values: Tensor, old: Tensor, new: Tensor) -> tuple[float, float]:
    """Add γ P values to ``new``, in place; return the extreme components of new − old."""
    matrix = mdp.transitions
    lowest, highest = _back_up(
        matrix.indptr,
        matrix.indices.view(np.uint32 if matrix.indices.itemsize == 4 else np.uint64),
        matrix.data,
        values.numpy(),
        mdp.discount,
        old.numpy().reshape(-1),
        new.numpy().reshape(-1),
    )
    return float(lowest), float(highest)


@compiled_with()
def _back_up(
    row_ends: Array,
    next_states: Array,
    probabilities: Array,
    values: Array,
    discount: float,
    old: Array,
    new: Array,
) -> tuple[float, float]:
    # Unsigned indices need no check for negative ones: as fast as a plain sparse product.
    lowest, highest = np.inf, -np.inf
    entry = np.uint64(row_ends[0])
    for row in range(np.uint64(new.size)):
        total = 0.0
        end = np.uint64(row_ends[row + np.uint64(1)])
        while entry < end:
            total += probabilities[entry] * values[next_states[entry]]
            entry += np.uint64(1)
        new[row] += discount * total
        change = new[row] - old[row]  # NaN for −inf − (−inf), which is ignored
        lowest = change if change < lowest else lowest
        highest = change if change > highest else highest
    return lowest, highest
