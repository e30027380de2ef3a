"""Answers by other means: arbitrary precision, and a bracketing search on the threshold."""

from collections.abc import Sequence

import mpmath as mp


def exact_policy(
    z: Sequence[float], q: float, weights: Sequence[float] | None = None, temperature: float = 1.0
) -> tuple[list[float], float]:
    """Return π = μ exp_q(z − ψ) and ψ, exact to double precision, for finite z.

    The root is taken in the threshold, with enough digits for any root to be steep: the digits
    that double precision lacks are the reason why the library uses another unknown.
    """
    with mp.workdps(max(60, int(20 * (q + 1)))):
        values = [mp.mpf(float(x)) / mp.mpf(float(temperature)) for x in z]
        top = max(values)
        gaps = [x - top for x in values]
        mass = [mp.mpf(1) if weights is None else mp.mpf(float(w)) for w in weights or z]
        psi = _log_normalizer(gaps, mass) if q == 1 else _search(gaps, mass, mp.mpf(float(q)))
        policy = [w * _exp_q(x - psi, mp.mpf(float(q))) for x, w in zip(gaps, mass, strict=True)]
        return [float(p) for p in policy], float(psi + top)


def log_q(x: float, q: float) -> mp.mpf:
    """Return ln_q x in arbitrary precision."""
    if q == 1:
        return mp.log(x)
    return (mp.mpf(x) ** (mp.mpf(q) - 1) - 1) / (mp.mpf(q) - 1)


def exp_q(x: float, q: float) -> mp.mpf:
    """Return exp_q x in arbitrary precision."""
    return _exp_q(mp.mpf(x), mp.mpf(q))


def _exp_q(x: mp.mpf, q: mp.mpf) -> mp.mpf:
    if q == 1:
        return mp.exp(x)
    base = 1 + (q - 1) * x
    if base <= 0:
        return mp.mpf(0) if q > 1 else mp.inf
    return base ** (1 / (q - 1))


def _log_normalizer(gaps: list[mp.mpf], mass: list[mp.mpf]) -> mp.mpf:
    return mp.log(sum(w * mp.exp(x) for x, w in zip(gaps, mass, strict=True)))


def _search(gaps: list[mp.mpf], mass: list[mp.mpf], q: mp.mpf) -> mp.mpf:
    """Bracket Σ μ exp_q(z − ψ) = 1 between one action taking all and all sharing evenly."""

    def excess(psi: mp.mpf) -> mp.mpf:
        return sum(w * _exp_q(x - psi, q) for x, w in zip(gaps, mass, strict=True)) - 1

    low = max(x - log_q(1 / w, q) for x, w in zip(gaps, mass, strict=True) if w > 0)
    high = -log_q(1 / sum(mass), q)
    if excess(low) <= 0:
        return low
    if excess(high) >= 0:
        return high
    return mp.findroot(
        excess,
        (low, high),
        solver="anderson",
        tol=mp.mpf(10) ** -mp.mp.dps,
        maxsteps=10000,
        verify=False,
    )
