"""Exact Tsallis policies on any device: for every row, the ψ that makes Σ μ exp_q(z − ψ) one.

Inside this file the actions are the *first* axis: tensors have shape (actions, rows). z itself
is never formed from values/temperature: differences of values are exact where values are close,
so a common offset of the values costs no accuracy. ψ is returned relative to max z.

All iterations are Newton's method on a convex function, started on the side from which it
converges monotonically, so they need neither a bracket nor a line search.

====== ============================================================================
 q      unknown and function
====== ============================================================================
 ≤ 2    u = 1 + (1−q)ψ, in ln_q Σ μ (u + (q−1)z)_+^(1/(q−1)) = 0: a weighted norm of
        affine functions of u
 near 1 ψ in the same function, unless a small prior makes u small
 1      closed form
 > 2    the smallest ratio v = π/μ on the support, which is computed first; from ψ,
        π = (…)^(1/(q−1)) would lose all digits where the root is steep
 ∞      closed form
====== ============================================================================

On the CPU, ``kernels`` does the same row by row, which is faster.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

_MOST_STEPS = 100  # safety limit: Newton's method below takes only a few steps


class Rows(NamedTuple):
    """One problem per column: values (actions, rows); q, temperature (1, rows); prior or None."""

    values: Tensor
    q: Tensor
    temperature: Tensor
    prior: Tensor | None

    def available(self) -> Tensor:
        """Return the values, −inf where the prior forbids the action."""
        if self.prior is None:
            return self.values
        return torch.where(self.prior > 0, self.values, -math.inf)

    def columns(self, chosen: Tensor) -> "Rows":
        """Return the problems in some columns."""
        prior = None if self.prior is None else self.prior[:, chosen]
        return Rows(self.values[:, chosen], self.q[:, chosen], self.temperature[:, chosen], prior)

    def weighted(self, x: Tensor) -> Tensor:
        """Return μ x."""
        return x if self.prior is None else x * self.prior


def solve(rows: Rows) -> tuple[Tensor, Tensor]:
    """Return the policy (actions, rows) and ψ − max z (1, rows)."""
    policy, psi = torch.empty_like(rows.values), torch.empty_like(rows.q)
    closed_form, above_two = (rows.q == 1) | (rows.q == math.inf), rows.q > 2
    near_one = ((rows.q - 1).abs() < 0.25) & (_first_base(rows) >= 0.5)
    methods = (
        (closed_form, _solve_closed_form),
        (near_one & ~closed_form, _solve_near_one),
        (~near_one & ~above_two, _solve_by_base),
        (above_two & ~closed_form, _solve_above_two),
    )
    for mask, method in methods:
        columns = mask.flatten().nonzero().flatten()
        if columns.numel():
            policy[:, columns], psi[:, columns] = method(rows.columns(columns))
    return policy, psi


def _gaps(rows: Rows) -> Tensor:
    """Return z − max z ≤ 0."""
    values = rows.available()
    return (values - values.amax(0, keepdim=True)) / rows.temperature


def _solve_closed_form(rows: Rows) -> tuple[Tensor, Tensor]:
    """Solve q = 1 and q = ∞, where only the best actions (gap 0) have weight."""
    gaps = _gaps(rows)
    ratio = torch.where(rows.q == 1, gaps.exp(), (gaps == 0).to(gaps.dtype))
    weights = rows.weighted(ratio)
    total = weights.sum(0, keepdim=True)
    return weights / total, torch.where(rows.q == 1, total.log(), 0.0)


def _solve_near_one(rows: Rows) -> tuple[Tensor, Tensor]:
    """Find ψ from below, where Σ μ exp_q(z − ψ) ≥ 1; log1p(t), as 1 + t would lose digits of t."""
    gaps, a = _gaps(rows), rows.q - 1
    psi, last = _start(gaps, rows), math.inf
    for _ in range(_MOST_STEPS):
        t = (a * (gaps - psi)).clamp(min=-1.0)
        ratio = (t.log1p() / a).exp()
        total = rows.weighted(ratio).sum(0, keepdim=True)
        excess = float((total - 1).abs().amax())
        if excess <= _tolerance(gaps) or excess >= last:
            break
        # exp_q′ = exp_q^(2−q) = exp_q/(1 + t), with 0/0 = 0 off the support.
        slope = rows.weighted(torch.where(ratio > 0, ratio / (1 + t), 0.0)).sum(0, keepdim=True)
        psi = psi + torch.expm1(a * total.log()) / a / (total.pow(a - 1) * slope)
        last = excess
    return rows.weighted(ratio), psi


def _start(gaps: Tensor, rows: Rows) -> Tensor:
    """Return the largest ψ at which a single action has probability one."""
    if rows.prior is None:
        return torch.zeros_like(rows.q)
    a = rows.q - 1
    log_ratio = torch.expm1(-a * rows.prior.log()) / a  # ln_q(1/μ)
    alone = torch.where(rows.prior > 0, gaps - log_ratio, -math.inf)
    return alone.amax(0, keepdim=True)


def _first_base(rows: Rows) -> Tensor:
    """Return the starting u, the nearest to the root that gives one action probability one."""
    if rows.prior is None:
        return torch.ones_like(rows.q)
    alone = rows.prior.pow(1 - rows.q) + (1 - rows.q) * _gaps(rows)
    below = alone.nan_to_num(0.0).amax(0, keepdim=True)
    return torch.where(rows.q < 1, below, alone.nan_to_num(math.inf).amin(0, keepdim=True))


def _solve_by_base(rows: Rows) -> tuple[Tensor, Tensor]:
    """Find u = 1 + (1−q)ψ, the base of the best action, starting where Σ ≥ 1.

    u is small for q > 1 with many actions, and for q < 1 with a small prior on a good action: then
    1 + (q−1)(z − ψ) suffers from cancellation, and u + (q−1)z does not.
    """
    gaps, a = _gaps(rows), rows.q - 1
    base, last = _first_base(rows), math.inf
    for _ in range(_MOST_STEPS):
        own = (base + a * gaps).clamp(min=0.0)
        ratio = torch.where(own > 0, own.pow(1 / a), 0.0)
        total = rows.weighted(ratio).sum(0, keepdim=True)
        excess = float((total - 1).abs().amax())
        if excess <= _tolerance(gaps) or excess >= last:
            break
        slope = rows.weighted(torch.where(own > 0, ratio / own, 0.0)).sum(0, keepdim=True)
        base = base + (1 - total.pow(a)) * total.pow(1 - a) / slope
        last = excess
    return rows.weighted(ratio), (1 - base) / a


def _solve_above_two(rows: Rows) -> tuple[Tensor, Tensor]:
    """Find v = min π/μ on the support from above, by solving Σ μ ‖(v, b)‖_(q−1) = 1."""
    values, a = rows.available(), rows.q - 1
    floor = _lowest_supported(rows)
    supported = values >= floor
    weight = rows.weighted(supported.to(values.dtype))
    mass = weight.sum(0, keepdim=True)
    # b is the ratio π/μ that an action would have if v were 0; v and b are in units of 1/mass.
    gaps = torch.where(supported, values - floor, 0.0) / rows.temperature
    b = (a * gaps).pow(1 / a) * mass
    v, last = torch.ones_like(mass), math.inf
    for _ in range(_MOST_STEPS):
        norm, slope = _norm(v, b, a)
        total = (weight * norm).sum(0, keepdim=True) / mass
        excess = float((total - 1).amax())
        if excess <= _tolerance(values) or excess >= last:
            break
        v = v - (total - 1) * mass / (weight * slope).sum(0, keepdim=True)
        v = v.clamp(min=torch.finfo(v.dtype).tiny)
        last = excess
    psi = (floor - values.amax(0, keepdim=True)) / rows.temperature
    return weight * norm / mass, psi - torch.expm1(a * (v / mass).log()) / a


def _lowest_supported(rows: Rows) -> Tensor:
    """Return the smallest value in the support, by bisection over the sorted values.

    Action i is in the support iff Σ_j μ_j ((q−1)(z_j − z_i))_+^(1/(q−1)) < 1.
    """
    values, a = rows.available(), rows.q - 1
    ordered, order = values.sort(0, descending=True)
    weight = None if rows.prior is None else rows.prior.gather(0, order)
    inside = torch.zeros_like(rows.q, dtype=torch.long)
    outside = inside + values.shape[0]
    for _ in range(values.shape[0].bit_length()):
        middle = (inside + outside) // 2
        # The gaps to an unavailable action are infinite (or NaN, replaced by ∞): it fails the test.
        gaps = (ordered - ordered.gather(0, middle)).clamp(min=0.0).nan_to_num(math.inf, math.inf)
        terms = (a * (gaps / rows.temperature)).pow(1 / a)
        total = (terms if weight is None else terms * weight).sum(0, keepdim=True)
        test = total < 1
        inside = torch.where(test, middle, inside)
        outside = torch.where(test, outside, middle)
    return ordered.gather(0, inside)


def _norm(v: Tensor, b: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
    """Return (v^a + b^a)^(1/a) and its derivative in v, without overflow for any a > 1."""
    high = torch.maximum(v, b)
    power = (torch.minimum(v, b) / high).pow(a)
    norm = high * (1 + power).pow(1 / a)
    return norm, norm / (v * (1 + power)) * torch.where(b > v, power, 1.0)


def _tolerance(x: Tensor) -> float:
    return 4 * torch.finfo(x.dtype).eps
