"""The target of an update, for exact policies."""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from mviq.tsallis.kernels import evaluate_rows, solve_rows

Floats = NDArray[np.floating[Any]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def bellman_rows(
    q: float,
    temperature: float,
    entropy_weight: float,
    munchausen: tuple[float, float, float, float, float],
    transitions: tuple[Floats, Floats, Floats],
    actions: NDArray[np.int64],
    next_outcomes: Floats,
    outcomes: Floats,
    target: Floats,
) -> bool:
    """Write r + α m(s,a) + γ(1−d) [Σ π z_j + c τ S_q(π)](s'); return whether all rows are good.

    ``transitions`` are rewards, d and the discounts, one for all or one each. ``munchausen`` are α,
    the share of τS_q that is taken from the gap, what the term is at least off the support, and
    its bounds. ``outcomes`` at s are empty where α = 0.
    """
    rewards, terminated, discounts = transitions
    alpha, logarithmic, least, low, high = munchausen
    batch, samples, count = next_outcomes.shape
    q_values, policy = np.empty((batch, count), np.float32), np.empty((batch, count), np.float32)
    value, entropy = np.empty(batch, np.float32), np.empty(batch, np.float32)
    bonus = np.float32(entropy_weight * temperature)
    good = _evaluate(next_outcomes, q, temperature, q_values, policy, value, entropy)
    for i in range(batch):
        discount = discounts[i if discounts.size > 1 else 0] * (np.float32(1) - terminated[i])
        for j in range(samples):
            mean = value[i] if samples == 1 else np.float32(0)
            for a in range(count if samples > 1 else 0):
                if policy[i, a] > 0:
                    mean += policy[i, a] * next_outcomes[i, j, a]
            target[i, j] = rewards[i] + discount * (mean + bonus * entropy[i])
    if alpha == 0:
        return good
    good &= _evaluate(outcomes, q, temperature, q_values, policy, value, entropy)
    for i in range(batch):
        known = 0 <= actions[i] < count
        good &= known
        term = q_values[i, actions[i] if known else 0] - value[i]
        term = max(term - logarithmic * temperature * entropy[i], least)
        for j in range(samples):
            target[i, j] += np.float32(alpha * min(max(term, low), high))
    return good


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _evaluate(
    outcomes: Floats,
    q: float,
    temperature: float,
    q_values: Floats,
    policy: Floats,
    value: Floats,
    entropy: Floats,
) -> bool:
    """Write the action values, the policy, its mean value and its entropy of every row."""
    batch, samples, count = outcomes.shape
    for i in range(batch):
        for a in range(count):
            total = 0.0
            for j in range(samples):
                total += outcomes[i, j, a]
            q_values[i, a] = total / samples
    prior, index, scale = policy[:, :0], np.array([q]), np.array([temperature])
    action, scratch = np.empty(count, np.int64), np.empty((3, count))
    good = solve_rows(q_values, index, scale, prior, policy, entropy, value, action, scratch)
    evaluate_rows(q_values, policy, temperature, entropy, value)
    return bool(good)
