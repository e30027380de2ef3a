"""One compiled loop over the rows: the gradient of the policy and of its normaliser."""

import math

import numpy as np

from mviq.tsallis.kernels.compiling import Floats, compiled, compiled_part

_LARGEST = float(np.finfo(np.float64).max)


@compiled
def pull_back_rows(
    grad_policy: Floats,
    grad_psi: Floats,
    policy: Floats,
    q: float,
    temperature: float,
    grad_values: Floats,
    slope: Floats,
) -> None:
    """Write the gradient with respect to the values; an empty input gradient means zero.

    The row-wise form of ``derivative.pull_back``, which explains the reference action. ``slope``
    is a scratch array of one row.
    """
    moves = grad_policy.size > 0 and q < math.inf
    exponent = 2 - q if q < math.inf else 0.0
    for row in range(policy.shape[0]):
        outer = np.float64(grad_psi[row]) if grad_psi.size else 0.0
        steepest = _steepest(policy, row, exponent)
        largest = np.float64(policy[row, steepest])
        zero = np.float64(grad_policy[row, steepest]) if moves else 0.0
        relative_total, total = 0.0, 0.0
        for a in range(policy.shape[1]):
            p = np.float64(policy[row, a])
            slope[a] = _slope(p / largest, exponent) if p > 0 else 0.0
            relative_total += slope[a]
            grad_values[row, a] = 0.0
            if moves and p > 0 and a != steepest:
                pulled = _slope(p, exponent) * (np.float64(grad_policy[row, a]) - zero)
                grad_values[row, a] = pulled / temperature
                total += pulled
        for a in range(policy.shape[1]):
            if policy[row, a] > 0:
                share = slope[a] / relative_total
                grad_values[row, a] += share * (outer - total) / temperature


@compiled_part
def _steepest(policy: Floats, row: int, exponent: float) -> int:
    """Return the supported action with the largest π^exponent."""
    best = 0
    for a in range(policy.shape[1]):
        better = policy[row, a] > policy[row, best]
        if exponent < 0:
            better = policy[row, a] < policy[row, best] or policy[row, best] == 0
        if policy[row, a] > 0 and better:
            best = a
    return best


@compiled_part
def _slope(p: float, exponent: float) -> float:
    """Return p^exponent, without calling pow at q = 1, 2 and 3."""
    if exponent == 0:
        return 1.0
    if exponent == 1:
        return p
    if exponent == -1:
        return 1 / p
    return min(float(p**exponent), _LARGEST)  # 0 · ∞ would be NaN
