"""Tsallis entropy of every row in one compiled pass."""

import math

from mviq.tsallis.kernels.compiling import Floats, compiled


@compiled
def entropy_rows(policy: Floats, q: float, result: Floats) -> None:
    """Write S_q(π) = −Σ π ln_q π of every row, with 0 ln_q 0 = 0."""
    for row in range(policy.shape[0]):
        total = 0.0
        for a in range(policy.shape[1]):
            p = float(policy[row, a])
            if p <= 0 or q == math.inf:
                continue
            if q == 2:
                total += p * (1 - p)
            elif q == 1:
                total -= p * math.log(p)
            else:
                total -= p * math.expm1((q - 1) * math.log(p)) / (q - 1)
        result[row] = total
