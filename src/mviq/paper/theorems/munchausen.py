"""The meaning of the Munchausen term: the derivations of section 4."""

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import INDICES, draw_policies, draw_values
from mviq.paper.theorems.statement import Statement, ascent, excess, largest, relative, worst
from mviq.tsallis import expectation

_ALPHA, _TEMPERATURE = 0.9, 0.5
_VALUES = draw_values(1000, 6, seed=90)
_PREVIOUS = draw_policies(1000, 6, seed=91)


def munchausen_advantage() -> Statement:
    """Compare the logarithm of softmax with the gap to its mean and to its soft value."""
    policy = tsallis.policy(_VALUES, 1.0, _TEMPERATURE)
    log = _TEMPERATURE * tsallis.log_q(policy, 1.0)
    gap = _VALUES - tsallis.soft_maximum(_VALUES, 1.0, _TEMPERATURE).unsqueeze(-1)
    entropy = _TEMPERATURE * tsallis.entropy(policy, 1.0).unsqueeze(-1)
    soft_value = tsallis.soft_value(_VALUES, 1.0, _TEMPERATURE).unsqueeze(-1)
    return Statement(
        reference="Section 4.1",
        claim="τ ln π = Q − ⟨π, Q⟩ for softmax, up to a constant shift",
        where="q = 1, τ = 0.5",
        printed_residual=worst(gap - log),
        evidence=f"the difference runs from {float(entropy.min()):.2g} to "
        f"{float(entropy.max()):.2g} over states",
        corrected="τ ln π = Q − τψ = Q − ⟨π, Q⟩ − τH(s): the shift is the entropy of each state",
        residual=worst(log - (_VALUES - soft_value), log - (gap - entropy)),
    )


def implicit_kl() -> Statement:
    """Evaluate both lines of the derivation under the next policy."""
    policy = tsallis.policy(_VALUES, 1.0, _TEMPERATURE)
    log, previous = tsallis.log_q(policy, 1.0), tsallis.log_q(_PREVIOUS, 1.0)
    weight, rest = _ALPHA * _TEMPERATURE, (1 - _ALPHA) * _TEMPERATURE
    shifted = _VALUES - weight * previous
    left = expectation(policy, _VALUES - _TEMPERATURE * log)
    middle = expectation(policy, shifted) - expectation(
        policy, weight * (log - previous) - rest * log
    )
    divergence = tsallis.divergence(policy, _PREVIOUS, 1.0)
    right = expectation(policy, shifted) - weight * divergence + rest * tsallis.entropy(policy, 1.0)
    return Statement(
        reference="Eq. (10)",
        claim="with Q′ = Q − ατ ln π, Munchausen VI is VI on Q′ with −ατ KL(π_{k+1}‖π_k) + "
        "(1−α)τ H(π_{k+1})",
        where="q = 1, α = 0.9, τ = 0.5",
        printed_residual=worst(left - middle),
        only_for="the result; the line before it has the sign of (1−α)τ ln π reversed",
        evidence=f"the line before the result is off by up to {worst(left - middle):.2g}",
        corrected="⟨π, Q − τ ln π⟩ = ⟨π, Q′⟩ − ατ KL(π‖π_k) + (1−α)τ H(π), exactly",
        residual=worst(left - right),
    )


def log_ratio() -> Statement:
    """Compare both sides of the decomposition of ln_q π_k."""
    policies = draw_policies(1000, 6, seed=92)
    errors = []
    for q in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0):
        ratio = tsallis.log_q_physics(_PREVIOUS / policies, q)
        inverse = tsallis.log_q_physics(1 / policies, q)
        log = tsallis.log_q_physics(_PREVIOUS, q)
        scale = 1 + ratio.abs() + inverse.abs() + ((1 - q) * log * inverse).abs()
        errors.append((ratio - inverse - (1 - q) * log * inverse - log) / scale)
    return Statement(
        reference="Section 4.2",
        claim="ln_q π_k = ln_q(π_k/π) − ln_q(1/π) − (1−q) ln_q π_k ln_q(1/π)",
        convention="physics",
        where="q from 0 to 3, full support",
        corrected="ours: the same with (q−1) for (1−q)",
        residual=worst(*errors),
    )


def implicit_tkl() -> Statement:
    """Evaluate the last line, with the residual added as printed, and subtracted."""
    weight, rest = _ALPHA * _TEMPERATURE, (1 - _ALPHA) * _TEMPERATURE
    printed, exact = [], []
    for q in (1.5, 2.0, 3.0):
        policy = tsallis.policy(_VALUES, q, _TEMPERATURE)
        entropy = tsallis.entropy(policy, q)
        shifted = _VALUES - weight * tsallis.log_q_physics(_PREVIOUS, q)
        left = expectation(policy, _VALUES) + _TEMPERATURE * entropy
        divergence = tsallis.divergence(policy, _PREVIOUS, q)
        regularised = expectation(policy, shifted) + rest * entropy - weight * divergence
        residual = weight * _residual(policy, _PREVIOUS, q)
        printed.append(relative(regularised + residual, left))
        exact.append(relative(regularised - residual, left))
    return Statement(
        reference="Eq. (11)",
        claim="with Q′ = Q − ατ ln_q π, MVI(q) is VI on Q′ with (1−α)τ S_q − ατ D_q(π_{k+1}‖π_k) "
        "+ ατ R_q",
        convention="physics",
        where="q = 1.5, 2, 3, previous policy of full support",
        only_for="q = 1, where R_q = 0",
        evidence=f"off by up to {worst(printed[1]):.2g} at q = 2",
        printed_residual=worst(*printed),
        corrected="the residual is subtracted: (1−α)τ S_q − ατ D_q − ατ R_q; equivalently "
        "−⟨π, ln_q π_k⟩ (physics) = D_q + S_q + R_q",
        residual=worst(*exact),
        tolerance=1e-11,
    )


def residual_size() -> Statement:
    """Compute R_q for growing q, and compare it with the entropy for uniform policies."""
    policies = draw_policies(1000, 6, seed=93)
    indices = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0)
    residuals = torch.stack([_residual(policies, _PREVIOUS, q) for q in indices])
    uniform = [torch.full((n,), 1 / n, dtype=torch.float64) for n in range(2, 19)]
    quotients = [_residual(u, u, 2.0) / tsallis.entropy(u, 2.0) - (len(u) - 1) for u in uniform]
    certain = torch.eye(6, dtype=torch.float64)
    share = residuals[2] / (
        tsallis.entropy(policies, 2.0) + tsallis.divergence(policies, _PREVIOUS, 2.0)
    )
    return Statement(
        reference="Section 4.2, Figure 3",
        claim="the residual R_q is negligible at q = 2 and becomes larger with q",
        where="random policies of six actions, q from 1 to 5",
        printed_residual=float(share.median()),
        only_for="the growth with q; at q = 2 it is small only near certainty",
        evidence=f"R_2 is {share.median():.1f} times D_2 + S_2 in the median",
        corrected="R_q ≥ 0 grows with q; it is 0 for a certain action, and n − 1 times the "
        "entropy at q = 2 for uniform policies",
        residual=largest(
            excess(-residuals, -residuals.diff(dim=0)),
            worst(*quotients, _residual(certain, _PREVIOUS[:6], 2.0)),
        ),
        tolerance=1e-11,
    )


def _residual(policy: Tensor, previous: Tensor, q: float) -> Tensor:
    return tsallis.munchausen_residual(policy, previous, q, floor=1e-12)


def log_off_support() -> Statement:
    """Compare Q/τ − ψ with ln_q π on the support and with ln_q 0 off it."""
    errors, above_log_of_0 = [], []
    for q in (1.5, 2.0, 3.0, 5.0):
        policy, psi = tsallis.policy_and_normalizer(_VALUES, q, _TEMPERATURE)
        extended = _VALUES / _TEMPERATURE - psi.unsqueeze(-1)
        errors.append((tsallis.log_q(policy, q) - extended)[policy > 0])
        above_log_of_0.append(extended[policy == 0] + 1 / (q - 1))
    return Statement(
        reference="Section 4.2",
        claim="ln_q π is Q/τ − ψ on the support; off it, Q/τ − ψ is a negative extension",
        convention="ours",
        where="q = 1.5, 2, 3, 5: off the support it is at most ln_q 0 = −1/(q−1)",
        residual=largest(worst(*errors), excess(*above_log_of_0)),
        tolerance=1e-11,
    )


def gap_identity() -> Statement:
    """Compare the gap with the extended logarithm for every action."""
    errors, shifts = [], {}
    for q in (*INDICES, 50.0):
        policy, psi = tsallis.policy_and_normalizer(_VALUES, q, _TEMPERATURE)
        gap = _VALUES - tsallis.soft_maximum(_VALUES, q, _TEMPERATURE).unsqueeze(-1)
        extended = _VALUES - _TEMPERATURE * psi.unsqueeze(-1)
        shifts[q] = _TEMPERATURE * tsallis.entropy(policy, q)
        errors.append(gap - extended - shifts[q].unsqueeze(-1))
    low, high = float(shifts[2.0].min().abs()), float(shifts[2.0].max())  # abs: not −0
    return Statement(
        reference="Section 4.2, Figure 3",
        claim="the gap Q − ⟨π, Q⟩ approximates τ ln_q π up to a constant shift",
        convention="ours",
        where="q from 0.5 to 50, every action, on the support and off it",
        printed_residual=high - low,
        evidence=f"at q = 2 and τ = 0.5 the shift runs from {low:.2g} to {high:.2g} over states",
        corrected="Q − ⟨π, Q⟩ = τ(Q/τ − ψ) + τ S_q(π(·|s)) exactly, for every action and q",
        residual=worst(*errors),
        tolerance=1e-11,
    )


def soft_value() -> Statement:
    """Evaluate the policy with each logarithm, and differentiate the result."""
    errors, slopes = [], []
    for q in INDICES:
        values = _VALUES.clone().requires_grad_()
        soft = tsallis.soft_value(values, q, _TEMPERATURE)
        (gradient,) = torch.autograd.grad(soft.sum(), values)
        policy = tsallis.policy(_VALUES, q, _TEMPERATURE)
        evaluated = expectation(policy, _VALUES - _TEMPERATURE * tsallis.log_q(policy, q))
        errors.append(evaluated - soft.detach())
        shares = torch.where(policy > 0, policy.clamp(min=1e-300).pow(2 - q), 0.0)
        slopes.append(gradient - shares / shares.sum(-1, keepdim=True))
    policy = tsallis.policy(_VALUES, 2.0, _TEMPERATURE)
    physics = tsallis.log_q_physics(policy.clamp(min=1e-300), 2.0)
    literal = expectation(policy, _VALUES - _TEMPERATURE * torch.where(policy > 0, physics, 0.0))
    off = worst(literal - tsallis.soft_value(_VALUES, 2.0, _TEMPERATURE))
    return Statement(
        reference="Algorithm 1, evaluation",
        claim="the next state is worth ⟨π, Q − τ ln_q π⟩",
        convention="physics",
        where="q from 0.5 to 5",
        printed_residual=off,
        only_for="q = 1",
        evidence=f"with the physics ln_2 off the soft value by up to {off:.2g} at τ = 0.5",
        corrected="⟨π, Q − τ ln_q π⟩ = τψ_q(Q/τ) with our ln_q; its gradient π^(2−q)/Σπ^(2−q) "
        "is a distribution, so it is a sup-norm non-expansion",
        residual=worst(*errors, *slopes),
        tolerance=1e-11,
    )


def bregman_step() -> Statement:
    """Differentiate the Bregman-regularised objective at the policy of MVI(q)."""
    violations = []
    for q in (1.0, 1.5, 2.0, 3.0):
        previous = tsallis.policy(draw_values(1000, 6, seed=94), q, _TEMPERATURE)
        violations.append(_bregman_violation(previous, q))
    other = draw_policies(1000, 6, seed=95)
    euclidean = _bregman(other, _PREVIOUS, 2.0) - (other - _PREVIOUS).square().sum(-1) / 2
    kl = _bregman(other, _PREVIOUS, 1.0) - tsallis.divergence(other, _PREVIOUS, 1.0)
    tsallis_kl = tsallis.divergence(other, _PREVIOUS, 2.0) / 2
    off = worst(_bregman(other, _PREVIOUS, 2.0) - tsallis_kl)
    return Statement(
        reference="Section 4.2",
        claim="the Munchausen term ατ ln_q π_k regularises by the Tsallis KL divergence, up to R_q",
        convention="ours",
        where="q = 1, 1.5, 2, 3, truncated previous policies, α = 0.9, τ = 0.5",
        printed_residual=off,
        only_for="q = 1",
        evidence=f"at q = 2 what it adds differs from D_2/2 by up to {off:.2g}",
        corrected="exactly: π_{k+1} = argmax ⟨π, Q′⟩ − ατ D_Ω(π‖π_k) − (1−α)τΩ(π) with the "
        "Bregman divergence of Ω = −S_q/q: KL at q = 1, ½‖π − π_k‖² at q = 2",
        residual=worst(*violations, euclidean, kl),
        tolerance=1e-11,
    )


def _bregman(policy: Tensor, previous: Tensor, q: float) -> Tensor:
    """Return Ω(π) − Ω(π_k) − ⟨∇Ω(π_k), π − π_k⟩ of Ω = −S_q/q, whose gradient is ln_q π + 1/q."""
    linear = ((tsallis.log_q(previous, q) + 1 / q) * (policy - previous)).sum(-1)
    return (tsallis.entropy(previous, q) - tsallis.entropy(policy, q)) / q - linear


def _bregman_violation(previous: Tensor, q: float) -> Tensor:
    """Return how far the policy of Q is from the optimum of the objective in Q′."""
    policy = tsallis.policy(_VALUES, q, _TEMPERATURE).requires_grad_()
    shifted = _VALUES - _ALPHA * _TEMPERATURE * tsallis.log_q(previous, q)
    objective = (
        expectation(policy, shifted)
        - _ALPHA * _TEMPERATURE * _bregman(policy, previous, q)
        + (1 - _ALPHA) * _TEMPERATURE * tsallis.entropy(policy, q) / q
    )
    (gradient,) = torch.autograd.grad(objective.sum(), policy)
    return ascent(gradient, policy.detach())
