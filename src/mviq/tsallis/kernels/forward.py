"""One compiled loop over the rows: the policy, its normaliser and entropy, without temporaries."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mviq.tsallis.kernels.compiling import Floats, compiled, compiled_in_place, compiled_part

_MOST_STEPS = 100  # safety limit: Newton's method below takes only a few steps
_TOLERANCE = 4 * float(np.finfo(np.float64).eps)
_LARGEST = float(np.finfo(np.float64).max)
_SMALLEST = float(np.finfo(np.float64).tiny)


@compiled
def solve_rows(
    values: Floats,
    q: Floats,
    temperature: Floats,
    prior: Floats,
    policy: Floats,
    psi: Floats,
    maximum: Floats,
    action: NDArray[np.int64],
    scratch: Floats,
) -> bool:
    """Write every row's policy, its ψ − max z and its maximum; return whether all rows are valid.

    ``q`` and ``temperature`` have one entry, or one for each row. A ``prior`` without columns means
    μ = 1. A row is invalid if it has NaN, +inf or no available action. ``action`` and ``scratch``
    are scratch arrays for the candidates of one row: indices; values, priors and ratios π/μ.
    """
    actions = values.shape[1]
    weighted = prior.shape[1] > 0
    value, weight, ratio = scratch[0], scratch[1], scratch[2]
    for a in range(actions):
        weight[a] = 1.0
    good = True
    for row in range(values.shape[0]):
        index = np.float64(q[row if q.size > 1 else 0])
        scale = np.float64(temperature[row if temperature.size > 1 else 0])
        top, mass, good_row = _maximum(values, prior, row)
        good &= good_row
        lowest = _lowest_candidate(top, mass, index, scale)
        count: Any = np.int64(0)  # a literal 0 has another type: numba would compile all twice
        for a in range(actions):
            policy[row, a] = 0.0
            if values[row, a] >= lowest:
                action[count], value[count] = a, values[row, a]
                if weighted:
                    weight[count] = prior[row, a]
                count += int(not weighted or prior[row, a] > 0)
        maximum[row] = top
        psi[row] = _solve(value, weight, action, count, top, index, scale, weighted, ratio)
        for i in range(count):
            policy[row, action[i]] = weight[i] * ratio[i]
    return good


@compiled
def evaluate_rows(
    values: Floats, policy: Floats, temperature: float, psi: Floats, maximum: Floats
) -> None:
    """Overwrite max v with ⟨π, v⟩ and ψ − max z with S_q(π) = ψ − ⟨π, z⟩, for exact policies.

    This takes a tenth of the time of Σ π ln_q π. An unavailable action adds 0 · −∞ = 0.
    """
    for row in range(values.shape[0]):
        top, below = float(maximum[row]), 0.0
        for a in range(values.shape[1]):
            if policy[row, a] > 0:
                below += float(policy[row, a]) * (float(values[row, a]) - top)
        maximum[row] = top + below
        psi[row] = max(float(psi[row]) - below / temperature, 0.0)


@compiled_part
def _maximum(values: Floats, prior: Floats, row: int) -> tuple[float, float, bool]:
    """Return the largest available value of a row, its prior, and whether the row is valid."""
    top, mass, good = -math.inf, 1.0, True
    if prior.shape[1] == 0:
        for a in range(values.shape[1]):
            top = max(top, values[row, a])
            good &= values[row, a] < math.inf  # false for NaN
    else:
        for a in range(values.shape[1]):
            good &= values[row, a] < math.inf
            if prior[row, a] > 0 and values[row, a] > top:
                top, mass = values[row, a], np.float64(prior[row, a])
    return top, mass, good and top > -math.inf


@compiled_part
def _lowest_candidate(top: float, mass: float, q: float, temperature: float) -> float:
    """Return a value below which actions have probability 0, since the best has at most 1."""
    if q <= 1:
        return -_LARGEST  # every available action
    reach = temperature / (q - 1) if mass == 1 else mass ** (1 - q) * temperature / (q - 1)
    return max(top - reach * (1 + 1e-6), -_LARGEST) if q < math.inf else top


@compiled_in_place
def _solve(
    value: Floats,
    weight: Floats,
    action: NDArray[np.int64],
    count: int,
    top: float,
    q: float,
    temperature: float,
    weighted: bool,
    ratio: Floats,
) -> float:
    """Write the ratios π/μ of the candidates and return ψ − max z."""
    if q > 2 and q < math.inf:
        _sort_descending(value, weight, action, count)
        return _above_two(value, weight, count, top, q, temperature, ratio)
    for i in range(count):
        value[i] = (value[i] - top) / temperature
    if q == 1 or q == math.inf:
        return _closed_form(value, weight, count, q, ratio)
    start = _start(value, weight, count, q) if weighted else 0.0
    base = 1 + (1 - q) * start
    if weighted and q < 1:
        base = _largest_base(value, weight, count, q)
    if q == 2:
        return _two(value, weight, count, base, ratio)
    if abs(q - 1) >= 0.25 or base < 0.5:
        return _by_base(value, weight, count, base, q, ratio)
    return _near_one(value, weight, count, start, q, ratio)


@compiled_part
def _closed_form(gap: Floats, weight: Floats, count: int, q: float, ratio: Floats) -> float:
    total = 0.0
    for i in range(count):
        ratio[i] = math.exp(gap[i])  # at q = ∞ all candidates have gap 0
        total += weight[i] * ratio[i]
    for i in range(count):
        ratio[i] /= total
    return math.log(total) if q == 1 else 0.0


@compiled_part
def _start(gap: Floats, weight: Floats, count: int, q: float) -> float:
    """Return the largest ψ that gives a single action probability one: it is below the root."""
    start = -math.inf
    for i in range(count):
        start = max(start, gap[i] - _log_q(1 / weight[i], q))
    return start


@compiled_part
def _two(gap: Floats, weight: Floats, count: int, base: float, ratio: Floats) -> float:
    last = math.inf
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for i in range(count):
            ratio[i] = max(base + gap[i], 0.0)
            total += weight[i] * ratio[i]
            slope += weight[i] if ratio[i] > 0 else 0.0
        excess = total - 1
        if abs(excess) <= _TOLERANCE or abs(excess) >= last:
            break
        base -= excess / slope
        last = abs(excess)
    return 1 - base


@compiled_part
def _near_one(
    gap: Floats, weight: Floats, count: int, psi: float, q: float, ratio: Floats
) -> float:
    """Find ψ from below, with log1p(t): the power 1/(q−1) amplifies the rounding error of 1 + t."""
    root, last = 1 / (q - 1), math.inf
    for _ in range(_MOST_STEPS):
        total, lost, slope = 0.0, 0.0, 0.0
        for i in range(count):
            t = (q - 1) * (gap[i] - psi)
            ratio[i] = math.exp(root * math.log1p(t)) if t > -1 else 0.0
            total, lost = _add(total, lost, weight[i] * ratio[i])
            slope += weight[i] * ratio[i] / (1 + t) if t > -1 else 0.0
        excess = total - 1
        if abs(excess) <= _TOLERANCE or abs(excess) >= last:
            break
        # Σ is convex as well; Newton on ln_q Σ takes larger but costlier steps far away.
        far = excess > 0.25
        psi += (_log_q(total, q) * total ** (2 - q) if far else excess) / slope
        last = abs(excess)
    return psi


@compiled_part
def _largest_base(gap: Floats, weight: Floats, count: int, q: float) -> float:
    """Return the largest u at which a single action has probability one: it is below the root."""
    base = 0.0
    for i in range(count):
        base = max(base, weight[i] ** (1 - q) + (1 - q) * gap[i])
    return base


@compiled_part
def _by_base(
    gap: Floats, weight: Floats, count: int, base: float, q: float, ratio: Floats
) -> float:
    """Find ψ by u = 1 + (1−q)ψ, the base of the best action, starting where Σ ≥ 1.

    u is small for q > 1 with many actions, and for q < 1 with a small prior on a good action: then
    1 + (q−1)(z − ψ) suffers from cancellation, and u + (q−1)z does not.
    """
    root, last = 1 / (q - 1), math.inf
    for _ in range(_MOST_STEPS):
        total, lost, slope = 0.0, 0.0, 0.0
        for i in range(count):
            own = max(base + (q - 1) * gap[i], 0.0)
            steepness = _root_steepness(own, root) if own > 0 else 0.0
            ratio[i] = steepness * own
            if q < 1:
                total, lost = _add(total, lost, weight[i] * ratio[i])
            else:  # rounding in the sum hardly affects ψ here, and a plain sum is faster
                total += weight[i] * ratio[i]
            slope += weight[i] * steepness
        excess = total - 1
        if abs(excess) <= _TOLERANCE or abs(excess) >= last:
            break
        far = excess > 0.25
        base -= (q - 1) * (_log_q(total, q) * total ** (2 - q) if far else excess) / slope
        last = abs(excess)
    return (base - 1) / (1 - q)


@compiled_part
def _root_steepness(x: float, root: float) -> float:
    """Return x^(root − 1), without calling pow at q = 1.5 and without rounding root − 1."""
    return x if root == 2 else x**root / x


@compiled_part
def _add(total: float, lost: float, x: float) -> tuple[float, float]:
    """Return total + x and its rounding error, for the next call to correct (Kahan summation)."""
    x -= lost
    larger = total + x
    return larger, (larger - total) - x


@compiled_part
def _above_two(
    value: Floats,
    weight: Floats,
    count: int,
    top: float,
    q: float,
    temperature: float,
    ratio: Floats,
) -> float:
    root = 1 / (q - 1)
    size = _support_size(value, weight, count, q - 1, temperature)
    mass = 0.0
    for i in range(size):
        mass += weight[i]
    for i in range(count):
        ratio[i] = 0.0
    for i in range(size):  # initially mass · π/μ as if the smallest ratio v were 0
        gap = (value[i] - value[size - 1]) / temperature
        ratio[i] = mass * _power((q - 1) * gap, root)
    v = _smallest_ratio(ratio, weight, size, mass, q - 1, root)
    for i in range(size):
        ratio[i] = _norm(v, ratio[i], q - 1, root)[0] / mass
    return float((value[size - 1] - top) / temperature - _log_q(v / mass, q))


@compiled_part
def _support_size(value: Floats, weight: Floats, count: int, a: float, temperature: float) -> int:
    """Bisect for the last action i with Σ_j μ_j ((q−1)(z_j − z_i))^(1/(q−1)) < 1; return i + 1."""
    inside, outside = 0, count
    while outside - inside > 1:
        middle = (inside + outside) // 2
        total = 0.0
        for j in range(middle):
            gap = (value[j] - value[middle]) / temperature
            total += weight[j] * _power(a * gap, 1 / a)
            if total >= 1:
                break
        if total < 1:
            inside = middle
        else:
            outside = middle
    return inside + 1


@compiled_part
def _smallest_ratio(
    bound: Floats, weight: Floats, count: int, mass: float, a: float, root: float
) -> float:
    """Solve Σ μ_i ‖(v, b_i)‖_a = mass for v in (0, 1], a convex increasing function of v."""
    v, last = 1.0, math.inf
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for i in range(count):
            norm, derivative = _norm(v, bound[i], a, root)
            total += weight[i] * norm
            slope += weight[i] * derivative
        excess = total / mass - 1
        if excess <= _TOLERANCE or excess >= last:
            break
        v = max(v - excess * mass / slope, _SMALLEST)
        last = excess
    return v


@compiled_part
def _norm(v: float, b: float, a: float, root: float) -> tuple[float, float]:
    """Return (v^a + b^a)^(1/a) and its derivative in v, without overflow for any a > 1."""
    if b <= v:
        power = _power(b / v, a)
        norm = v * _power(1 + power, root)
        return norm, norm / (v * (1 + power))
    power = _power(v / b, a)
    if power < _TOLERANCE:
        return b, power * b / v
    norm = b * _power(1 + power, root)
    return norm, norm * power / (v * (1 + power))


@compiled_part
def _log_q(x: float, q: float) -> float:
    return math.expm1((q - 1) * math.log(x)) / (q - 1)


@compiled_part
def _power(x: float, exponent: float) -> float:
    """Return x^exponent, an order of magnitude faster at the exponents of q = 1.5 and q = 3."""
    if exponent == 1:
        return x
    if exponent == 0.5:
        return math.sqrt(x)
    if exponent == 2:
        return x * x
    return float(x**exponent)


@compiled_part
def _sort_descending(value: Floats, weight: Floats, action: NDArray[np.int64], count: int) -> None:
    """Sort in place by Shell sort, which is fast for the usual short rows."""
    distance = 1
    while distance < count // 3:
        distance = 3 * distance + 1
    while distance > 0:
        for i in range(distance, count):
            v, w, a = value[i], weight[i], action[i]
            j = i
            while j >= distance and value[j - distance] < v:
                k = j - distance
                value[j], weight[j], action[j] = value[k], weight[k], action[k]
                j = k
            value[j], weight[j], action[j] = v, w, a
        distance //= 3
