"""Tsallis entropy and the Tsallis KL divergence: section 2, section 3.2 and appendix A."""

import math

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import INDICES, draw_policies
from mviq.paper.theorems.statement import Statement, excess, largest, relative, worst

_ACTIONS = 6
_POLICIES = draw_policies(500, _ACTIONS, seed=10)
_PRIORS = draw_policies(500, _ACTIONS, seed=11)


def _entropy(q: float) -> Tensor:
    return tsallis.entropy(_POLICIES, q)


def _entropy_physics(q: float) -> Tensor:
    """Return −⟨π^q, ln_q π⟩ with the physics logarithm, for any real q."""
    return -(_POLICIES.pow(q) * tsallis.log_q_physics(_POLICIES, q)).sum(-1)


def _divergence(q: float) -> Tensor:
    return tsallis.divergence(_POLICIES, _PRIORS, q)


def _divergence_physics(q: float) -> Tensor:
    """Return ⟨π, −ln_q(μ/π)⟩ with the physics logarithm, for any real q."""
    return -(_POLICIES * tsallis.log_q_physics(_PRIORS / _POLICIES, q)).sum(-1)


def f_divergence() -> Statement:
    """Insert the printed generator into ⟨μ, f(π/μ)⟩, and the correct one."""
    ratio = _POLICIES / _PRIORS
    printed = [(_PRIORS * -tsallis.log_q_physics(ratio, q)).sum(-1) for q in INDICES]
    fitting = [(_PRIORS * ratio * tsallis.log_q(ratio, q)).sum(-1) for q in INDICES]
    right = [_divergence(q) for q in INDICES]
    swapped = [tsallis.divergence(_PRIORS, _POLICIES, q) for q in INDICES]
    off = list(map(relative, printed, right))
    return Statement(
        reference="Section 2, section 3.2",
        claim="with D_f = ⟨μ, f(π/μ)⟩, the KL divergence of π from μ is f = −ln t and the "
        "Tsallis one f = −ln_q t",
        convention="physics",
        where="every q > 0",
        printed_residual=worst(*off),
        evidence=f"at q = 1 the printed f is off by up to {worst(off[1]):.2g}: it gives D(μ‖π)",
        corrected="f(t) = t ln_q t gives D_q(π‖μ); f = −ln_q t (physics) gives D_q(μ‖π)",
        residual=worst(*map(relative, fitting, right), *map(relative, printed, swapped)),
        tolerance=1e-11,
    )


def entropy_duality() -> Statement:
    """Compare the two forms of the entropy, with the index as printed and with the same one."""
    printed = [_entropy_physics(q) - _entropy(2 - q) for q in (0.5, 1.5)]
    same = [relative(_entropy_physics(q), _entropy(q)) for q in INDICES]
    return Statement(
        reference="Appendix A",
        claim="−⟨π^q, ln_q π⟩ (physics) equals −⟨π, ln_q* π⟩ (ours) with q* = 2 − q",
        where="every q > 0",
        printed_residual=worst(*printed),
        only_for="q = 1",
        evidence=f"S_1.5 and S_0.5 differ by up to {worst(printed[1]):.2g}",
        corrected="the index is the same in both: −⟨π^q, ln_q π⟩ (physics) = −⟨π, ln_q π⟩ (ours) "
        "= S_q",
        residual=worst(*same),
        tolerance=1e-11,
    )


def entropy_logarithm() -> Statement:
    """Take the mean of each logarithm under the policy."""

    def physics(q: float) -> Tensor:
        return -(_POLICIES * tsallis.log_q_physics(_POLICIES, q)).sum(-1)

    ours = [
        relative(-(_POLICIES * tsallis.log_q(_POLICIES, q)).sum(-1), _entropy(q)) for q in INDICES
    ]
    mirrored = [
        relative(physics(q), _entropy(float(tsallis.mirror_index(q)))) for q in (0.5, 1.0, 1.5)
    ]
    at_two = physics(2.0)
    return Statement(
        reference="Appendix A, Algorithm 1",
        claim="⟨π, ln_q π⟩ = −S_q(π), the entropy in the evaluation step",
        convention="physics",
        where="every q > 0",
        printed_residual=worst(at_two - _entropy(2.0)),
        only_for="q = 1",
        evidence=f"−⟨π, ln_2 π⟩ is {at_two.mean():.3g} for every policy of {_ACTIONS} actions",
        corrected="S_q(π) = −⟨π, ln_q π⟩ with our ln_q; the physics one gives S_{2−q}, which at "
        "q = 2 is n − 1 on full support",
        residual=worst(*ours, *mirrored, relative(at_two, torch.full_like(at_two, _ACTIONS - 1))),
        tolerance=1e-11,
    )


def entropy_bounded() -> Statement:
    """Compare the entropy of policies, corners included, with that of the uniform policy."""
    corners = torch.eye(_ACTIONS, dtype=torch.float64)
    policies = torch.cat([_POLICIES, draw_policies(500, _ACTIONS, 5.0, seed=12), corners])
    count = torch.tensor(float(_ACTIONS), dtype=torch.float64)
    uniform = torch.full((_ACTIONS,), 1 / _ACTIONS, dtype=torch.float64)
    violations, tight = [], []
    for q in INDICES:
        entropy, bound = tsallis.entropy(policies, q), tsallis.log_q_physics(count, q)
        violations += [-entropy, entropy - bound]
        tight += [bound - tsallis.entropy(uniform, q), bound + tsallis.log_q(1 / count, q)]
    negative = _entropy_physics(-1.0) - tsallis.log_q_physics(count, -1.0)
    literal = tsallis.entropy(uniform, 0.5) - tsallis.log_q(count, 0.5)
    return Statement(
        reference="Section 3.2, appendix A",
        claim="0 ≤ S_q(π) ≤ ln_q n for every q",
        convention="physics",
        where="q from −1 to 5",
        printed_residual=excess(*violations, negative),
        only_for="q ≥ 0, and with the physics ln_q",
        evidence=f"exceeded by {excess(negative):.0f} at q = −1, and by {excess(literal):.2g} at "
        "q = 0.5 with our ln_q",
        corrected="0 ≤ S_q(π) ≤ S_q(uniform) = −ln_q(1/n) for q > 0",
        residual=largest(excess(*violations), worst(*tight)),
    )


def entropy_flatter() -> Statement:
    """Compute the entropy and its summands for growing q."""
    indices = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 50.0, 1e4)
    entropies = torch.stack([_entropy(q) for q in indices])
    bounds = [_entropy(q) - 1 / (q - 1) for q in indices if q > 1]
    summands = torch.stack([-_POLICIES * tsallis.log_q(_POLICIES, q) for q in indices])
    return Statement(
        reference="Figure 1, appendix B",
        claim="the entropy becomes flatter as q grows and vanishes as q → ∞",
        where="q from 0.25 to 10 000; S_q ≤ 1/(q−1)",
        evidence=f"the largest entropy is {entropies[-1].max():.1g} at q = 10 000",
        residual=excess(entropies.diff(dim=0), summands.diff(dim=0), *bounds),
    )


def divergence_forms() -> Statement:
    """Compare the two forms of the divergence, with the index as printed and with the same one."""
    ratio = _POLICIES / _PRIORS

    def ours(q: float) -> Tensor:
        return (_POLICIES * tsallis.log_q(ratio, q)).sum(-1)

    printed = [relative(ours(2 - q), _divergence_physics(q)) for q in (0.5, 1.5)]
    same = [relative(ours(q), _divergence_physics(q)) for q in INDICES]
    operator = [relative(_divergence(q), ours(q)) for q in INDICES]
    return Statement(
        reference="Appendix A",
        claim="⟨π, −ln_q(μ/π)⟩ (physics) equals ⟨π, ln_q*(π/μ)⟩ (ours) with q* = 2 − q",
        where="every q > 0",
        printed_residual=worst(*printed),
        only_for="q = 1",
        evidence=f"at q = 1.5 the two sides differ by up to {worst(printed[1]):.2g}",
        corrected="the index is the same in both: D_q(π‖μ) = ⟨π, −ln_q(μ/π)⟩ (physics) "
        "= ⟨π, ln_q(π/μ)⟩ (ours)",
        residual=worst(*same, *operator),
        tolerance=1e-11,
    )


def divergence_nonnegative() -> Statement:
    """Look for negative values, also at a negative index."""
    negative = -_divergence_physics(-1.0)
    violations = [-_divergence(q) for q in INDICES]
    return Statement(
        reference="Section 3.2, appendix A",
        claim="D_q(π‖μ) ≥ 0 for every q",
        where="q from −1 to 5",
        printed_residual=excess(*violations, negative),
        only_for="q ≥ 0",
        evidence=f"D_(−1) goes down to −{excess(negative):.2g}",
        corrected="D_q(π‖μ) ≥ 0 for q > 0; for q < 0 it is ≤ 0",
        residual=excess(*violations, -negative),
    )


def divergence_zero() -> Statement:
    """Compare the divergence with the squared distance of the policies (Pinsker's inequality)."""
    near = _POLICIES + 1e-3 * (_PRIORS - _POLICIES)
    violations, at_equal = [], []
    for q in INDICES:
        at_equal.append(tsallis.divergence(_POLICIES, _POLICIES, q))
        for prior in (_PRIORS, near):
            distance = (_POLICIES - prior).abs().sum(-1)
            bound = min(q, 2.0) / 2 * distance.square()
            violations.append(bound - tsallis.divergence(_POLICIES, prior, q))
    at_zero = _divergence_physics(0.0)
    return Statement(
        reference="Section 3.2, appendix A",
        claim="for every q, D_q(π‖μ) = 0 iff π = μ",
        where="every q > 0; at q = 0 the divergence is 0 for all policies of one support",
        printed_residual=float(worst(at_zero) < 1e-12),
        only_for="q > 0",
        evidence="D_0 of different policies of full support is 0 to rounding",
        corrected="D_q(π‖π) = 0 and D_q(π‖μ) ≥ min(q, 2)/2 · ‖π − μ‖₁² for q > 0",
        residual=largest(excess(*violations), worst(*at_equal)),
    )


def divergence_infinite() -> Statement:
    """Let the prior of one of two actions vanish, three decades at a time."""
    policy = torch.tensor([0.5, 0.5], dtype=torch.float64)
    grains = 10.0 ** -torch.arange(3, 61, 3, dtype=torch.float64)
    priors = torch.stack([1 - grains, grains], -1)
    bounded = [tsallis.divergence(policy, priors, q) - 1 / (1 - q) for q in (0.25, 0.5, 0.9)]
    rises = [tsallis.divergence(policy, priors, q).diff() for q in INDICES if q >= 1]
    slowest = 0.49 * 3 * math.log(10)  # three decades at q = 1: ½ ln 1000, less what μ → 1 gains
    last = float(tsallis.divergence(policy, priors[-1], 0.5))
    return Statement(
        reference="Section 3.2, appendix A",
        claim="for every q, D_q(π‖μ) → ∞ where π > 0 and μ → 0",
        where="every q > 0; a prior down to 1e-60",
        printed_residual=float(excess(*bounded) == 0.0),
        only_for="q ≥ 1",
        evidence=f"D_0.5 stops at {last:.3g} for a prior of 1e-60",
        corrected="for q ≥ 1 it grows without bound as μ → 0; for q < 1 it stays below 1/(1−q), "
        "and ∞ at μ = 0 is a convention (which mviq follows)",
        residual=largest(excess(*bounded), excess(*[slowest - rise for rise in rises])),
    )


def divergence_grows() -> Statement:
    """Compute the divergence for growing q."""
    indices = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
    values = torch.stack([_divergence(q) for q in indices])
    return Statement(
        reference="Figure 2, section 3.2",
        claim="the larger q, the more large ratios π/μ are penalised",
        where="q from 0.25 to 5: D_q(π‖μ) does not fall as q grows",
        evidence=f"the largest value is {values[2].max():.2g} at q = 1, {values[6].max():.2g} at 5",
        residual=excess(-values.diff(dim=0)),
    )


def divergence_relatives() -> Statement:
    """Compare with the α-divergence and Rényi's divergence, computed as sums."""
    errors, off = [], {}
    for q in (0.5, 1.5, 2.0, 3.0):
        moment = (_POLICIES.pow(q) * _PRIORS.pow(1 - q)).sum(-1)
        alpha, renyi = (moment - 1) / (q * (q - 1)), moment.log() / (q - 1)
        ours = _divergence(q)
        errors += [relative(q * alpha, ours), ((q - 1) * ours).log1p() / (q - 1) - renyi]
        off[q] = worst(relative(alpha, ours))
    return Statement(
        reference="Section 3.2",
        claim="the α-divergence at α = 2 is the Tsallis KL divergence; Rényi's has the same "
        "power of π/μ inside a logarithm",
        where="q = 0.5, 1.5, 2, 3; the α-divergence with its usual factor 1/(α(α−1))",
        printed_residual=off[2.0],
        only_for="Rényi's",
        evidence=f"at α = 2 they differ by up to {off[2.0]:.2g} of the value",
        corrected="D_q = q · (α-divergence at α = q) for every q, and Rényi's divergence is "
        "ln(1 + (q−1)D_q)/(q−1)",
        residual=worst(*errors),
        tolerance=1e-11,
    )
