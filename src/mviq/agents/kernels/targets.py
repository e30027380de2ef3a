"""The target of an update, for exact policies."""

import numpy as np
from numpy.typing import NDArray

from mviq.tsallis.kernels import evaluate_rows, solve_rows
from mviq.tsallis.kernels.compiling import Floats, compiled_with

Numbers = tuple[float, float, float, float, float, float, float, float]


@compiled_with()
def bellman(
    numbers: Numbers,
    transitions: tuple[Floats, Floats, Floats],
    actions: NDArray[np.int64],
    outcomes: Floats,
    target: Floats,
) -> None:
    """Write r + α m(s,a) + γ(1−d) [Σ π z_j + c τ S_q(π)](s') as (batch, samples).

    ``outcomes`` (samples × actions, states) are finite, first at s', then, unless α = 0, at s.
    ``transitions`` are rewards, d and the discounts, one for all or one each. ``numbers`` are q, τ,
    c, α, the weight of −τS_q in the Munchausen term (0 for the gap form, else 1), the minimum of
    this term (its value off the support), and its clip bounds.
    """
    q, temperature, entropy_weight, alpha, logarithmic, least, low, high = numbers
    rewards, terminated, discounts = transitions
    batch, samples = target.shape
    states, count = outcomes.shape[1], outcomes.shape[0] // samples
    q_values, policy = np.empty((states, count), np.float32), np.empty((states, count), np.float32)
    value, entropy = np.empty(states, np.float32), np.empty(states, np.float32)
    _evaluate(outcomes, q, temperature, q_values, policy, value, entropy)
    bonus = np.float32(entropy_weight * temperature)
    for i in range(batch):
        discount = discounts[i if discounts.size > 1 else 0] * (np.float32(1) - terminated[i])
        reward = rewards[i]
        if alpha != 0:
            k = batch + i
            term = q_values[k, actions[i]] - value[k]
            term = max(term - logarithmic * temperature * entropy[k], least)
            reward += np.float32(alpha * min(max(term, low), high))
        for j in range(samples):
            mean = value[i] if samples == 1 else np.float32(0)
            for a in range(count if samples > 1 else 0):
                mean += policy[i, a] * outcomes[j * count + a, i]
            target[i, j] = reward + discount * (mean + bonus * entropy[i])


@compiled_with(part=True)
def _evaluate(
    outcomes: Floats,
    q: float,
    temperature: float,
    q_values: Floats,
    policy: Floats,
    value: Floats,
    entropy: Floats,
) -> None:
    """Write the action values of every state, the policy, its mean value and its entropy."""
    states, count = q_values.shape
    totals = np.zeros((count, states))
    for row in range(outcomes.shape[0]):
        for i in range(states):
            totals[row % count, i] += outcomes[row, i]
    for i in range(states):
        for a in range(count):
            q_values[i, a] = totals[a, i] / (outcomes.shape[0] // count)
    prior, index, scale = np.empty((1, 0), np.float32), np.full(1, q), np.full(1, temperature)
    action, scratch = np.empty(count, np.int64), np.empty((3, count))
    solve_rows(q_values, index, scale, prior, policy, entropy, value, action, scratch)
    evaluate_rows(q_values, policy, temperature, entropy, value)
