"""Policies under the Tsallis KL divergence: Theorem 4, Eq. (8) and appendix D."""

import itertools
import math

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import draw_policies, draw_values
from mviq.paper.theorems.statement import Statement, excess, largest, relative, share, worst

_STEPS = 5


def kl_average() -> Statement:
    """Compare successive KL steps with the softmax of the sum of their values."""
    history = _history(seed=70)
    policies, _ = _explicit_steps(history, 1.0)
    return Statement(
        reference="Section 2, Theorem 4 at q = 1",
        claim="steps regularised by KL to the previous policy give the softmax of the sum of all "
        "values so far",
        where="q = 1, five steps from the uniform policy",
        residual=worst(policies[-1] - history.sum(0).softmax(-1)),
    )


def _history(seed: int) -> Tensor:
    """Return five steps of values for 200 states; times 0.4 or less, they truncate nothing."""
    return draw_values(_STEPS * 200, 4, seed=seed).view(_STEPS, 200, 4)


def _explicit_steps(history: Tensor, q: float) -> tuple[list[Tensor], Tensor]:
    """Return the policies of π_{k+1} = argmax ⟨π, Q_k⟩ − D_q(π‖π_k) and all x_k = Q_k/q − ψ_k.

    The first policy is uniform, and π_{k+1} = π_k exp_q(x_k).
    """
    policies, terms = [torch.full_like(history[0], 1 / history.shape[-1])], []
    for values in history:
        policy, psi = tsallis.policy_and_normalizer(values, q, q, policies[-1])
        policies.append(policy)
        terms.append(values / q - psi.unsqueeze(-1))
    return policies, torch.stack(terms)


def visitation_gradient() -> Statement:
    """Differentiate the divergence in the visitation measure and compare with the formula."""
    prior = draw_policies(20, 4, seed=71)
    errors = []
    for q in (0.5, 1.5, 2.0, 3.0):
        visits = draw_values(20, 4, seed=72).exp().requires_grad_()
        policy = visits / visits.sum(-1, keepdim=True)
        divergence = (visits * tsallis.log_q(policy / prior, q)).sum()
        (gradient,) = torch.autograd.grad(divergence, visits)
        ratio = (policy / prior).detach()
        mean = (policy.detach() * ratio.pow(q - 1)).sum(-1, keepdim=True)
        formula = q * tsallis.log_q(ratio, q) + 1 - mean
        errors.append(relative(gradient, formula))
    return Statement(
        reference="Appendix D",
        claim="the divergence as a function of the visitation ρ has the gradient "
        "q ln_q(π/μ) + 1 − Σ π(π/μ)^(q−1)",
        convention="ours",
        where="q = 0.5, 1.5, 2, 3",
        residual=worst(*errors),
        tolerance=1e-11,
    )


def optimality_conditions() -> Statement:
    """Insert the policy with prior into the printed optimality conditions."""
    values, prior = draw_values(2000, 6, 2.0, seed=73), draw_policies(2000, 6, seed=74)
    errors, multipliers = [], []
    for q in (0.5, 1.5, 2.0, 3.0):
        policy = tsallis.policy(values, q, q, prior)
        value = (policy * values).sum(-1) - tsallis.divergence(policy, prior, q)
        ratio = policy / prior
        mean = (policy * ratio.pow(q - 1)).nan_to_num(0.0).sum(-1)
        rest = (value + 1 - mean).unsqueeze(-1) + q * tsallis.log_q(ratio, q) - values
        errors.append(rest[policy > 0])
        multipliers.append(rest[policy == 0])
    truncated = torch.cat(multipliers)
    highest = float(truncated.max())
    return Statement(
        reference="Appendix D",
        claim="π = μ exp_q(Q/q − ψ) with ψ = (V + 1 − Σ π(π/μ)^(q−1))/q; the multipliers λ of "
        "π ≥ 0 are ≤ 0",
        convention="ours",
        where="q = 0.5, 1.5, 2, 3, one state, V = ⟨π, Q⟩ − D_q(π‖μ)",
        printed_residual=highest,
        only_for="the policy; the sign of λ is reversed",
        evidence=f"λ of the truncated actions goes up to {highest:.2g}",
        corrected="the same policy, and λ ≥ 0",
        residual=largest(worst(*errors), excess(-truncated)),
        tolerance=1e-11,
    )


def yamano_two_points() -> Statement:
    """Compare both sides for small and for large arguments."""
    near, far = draw_values(2000, 2, 0.03, seed=75), draw_values(2000, 2, 3.0, seed=76)

    def error(pairs: Tensor, q: float) -> Tensor:
        x, y = pairs.unbind(-1)
        product = (tsallis.exp_q(x, q) * tsallis.exp_q(y, q)).pow(q - 1)
        return product - (tsallis.exp_q(x + y, q).pow(q - 1) + (q - 1) ** 2 * x * y)

    truncated = worst(error(far, 2.0))
    return Statement(
        reference="Theorem 4, proof",
        claim="(exp_q x · exp_q y)^(q−1) = exp_q(x + y)^(q−1) + (q−1)² xy",
        convention="ours",
        where="q = 0.5, 1.5, 2, 3, 5",
        printed_residual=truncated,
        only_for="arguments that are not truncated",
        evidence=f"at q = 2 off by up to {truncated:.2g} for x, y from N(0, 3²)",
        corrected="true where 1 + (q−1)x, 1 + (q−1)y and 1 + (q−1)(x+y) are positive: the product "
        "of two truncated factors is 0, not the product of two negative numbers",
        residual=worst(*[error(near, q) for q in (0.5, 1.5, 2.0, 3.0, 5.0)]),
    )


def _product_and_expansion(terms: Tensor, q: float) -> tuple[Tensor, Tensor]:
    """Return (Π exp_q x_j)^(q−1) and exp_q(Σ x_j)^(q−1) + Σ_{j≥2} (q−1)^j e_j(x)."""
    product = tsallis.exp_q(terms, q).prod(0).pow(q - 1)
    expansion = tsallis.exp_q(terms.sum(0), q).pow(q - 1)
    for count in range(2, len(terms) + 1):
        chosen = itertools.combinations(terms, count)
        symmetric = torch.stack([torch.stack(factors).prod(0) for factors in chosen]).sum(0)
        expansion = expansion + (q - 1) ** count * symmetric
    return product, expansion


def yamano_expansion() -> Statement:
    """Compute the symmetric sums of five terms, for small and for large arguments."""
    near, far = (draw_values(_STEPS, 1000, scale, seed=77) for scale in (0.03, 3.0))
    errors = []
    for physics in (1.5, 0.5, 0.0, -1.0):
        product, expansion = _product_and_expansion(near, float(tsallis.mirror_index(physics)))
        errors.append(product - expansion)
    product, expansion = _product_and_expansion(far, 2.0)
    return Statement(
        reference="Lemma 2, Theorem 4",
        claim="(Π exp_q x_j)^(1−q) = exp_q(Σ x_j)^(1−q) + Σ_{j≥2} (1−q)^j e_j(x), with e_j the "
        "sum of all products of j different terms",
        convention="physics",
        where="q = −1, 0, 0.5, 1.5, five terms",
        printed_residual=worst(relative(product, expansion)),
        only_for="arguments that are not truncated",
        evidence=f"off by up to {worst(product - expansion):.0f} at our q = 2 for terms from "
        "N(0, 3²)",
        corrected="ours: the same with q−1 for 1−q, where no 1 + (q−1)x_j and not "
        "1 + (q−1)Σ x_j is negative",
        residual=worst(*errors),
    )


def theorem_4_product() -> Statement:
    """Compare explicit Tsallis-KL steps with the products of q-exponentials."""
    far = _history(seed=78)
    near = 0.4 * far

    def corrected(history: Tensor, q: float) -> Tensor:
        policies, terms = _explicit_steps(history, q)
        return policies[0] * tsallis.exp_q(terms, q).prod(0) - policies[-1]

    def printed(history: Tensor, q: float) -> Tensor:
        weights = tsallis.exp_q(history / q, q).prod(0)
        return weights / weights.sum(-1, keepdim=True) - _explicit_steps(history, q)[0][-1]

    errors = [corrected(near, q) for q in (0.5, 1.5, 2.0, 3.0)]
    errors += [corrected(far, q) for q in (1.5, 2.0)]
    off = [worst(printed(history, 2.0)) for history in (near, far)]
    return Statement(
        reference="Theorem 4, appendix D",
        claim="the policy after k steps is proportional to exp_q(Q_1) ⋯ exp_q(Q_k)",
        convention="ours",
        where="q = 0.5, 1.5, 2, 3, five steps, with and without truncation",
        printed_residual=largest(*off),
        only_for="q = 1",
        evidence=f"off by up to {off[0]:.1g} at q = 2 without truncation, {off[1]:.2g} with it",
        corrected="π_{k+1} = π_1 Π exp_q(Q_j/q − ψ_j): the normaliser stays inside, because "
        "exp_q(x − ψ) is not proportional to exp_q(x) for q ≠ 1",
        residual=worst(*errors),
    )


def theorem_4_expansion() -> Statement:
    """Expand the policy of explicit steps into the exponential of a sum and cross products."""
    far = _history(seed=79)
    truncated = worst(_expansion_error(far, 2.0))
    return Statement(
        reference="Theorem 4",
        claim="the product is the exponential of the sum of all values, as under KL, plus cross "
        "products of different values",
        convention="ours",
        where="q = 1.5, 2, 3, five steps; each value is Q_j/q − ψ_j",
        printed_residual=truncated,
        only_for="steps without truncation",
        evidence=f"with truncation the expansion is off by up to {truncated:.2g} at q = 2",
        corrected="(π_{k+1}/π_1)^(q−1) = exp_q(Σ x_j)^(q−1) + Σ_{j≥2} (q−1)^j e_j(x) with "
        "x_j = Q_j/q − ψ_j, without truncation",
        residual=worst(*[_expansion_error(0.08 * far, q) for q in (1.5, 2.0, 3.0)]),
    )


def _expansion_error(history: Tensor, q: float) -> Tensor:
    policies, terms = _explicit_steps(history, q)
    _, expansion = _product_and_expansion(terms, q)
    return (policies[-1] / policies[0]).pow(q - 1) - expansion


def weighted_average() -> Statement:
    """Multiply the weighted factors, for small and for large values."""
    near, far = (draw_values(_STEPS, 1000, scale, seed=80) for scale in (0.03, 3.0))
    indices = (0.5, 1.5, 2.0, 3.0, 5.0)
    truncated = _weighted_error(far, 2.0)
    broken = share(~(truncated.abs() < 1e-9))
    return Statement(
        reference="Eq. (8)",
        claim="exp_q(Σ Q_j) = Π exp_q(Q_j / (1 + (1−q) Σ_{i<j} Q_i))",
        convention="physics",
        where="q = −3, −1, 0, 0.5, 1.5, five values",
        printed_residual=broken,
        only_for="partial sums that are not truncated",
        evidence=f"wrong in {broken:.0%} of draws at our q = 2 with values from N(0, 3²)",
        corrected="ours: with (q−1) for (1−q), where 1 + (q−1) Σ_{i≤j} Q_i > 0 for every j",
        residual=worst(*[_weighted_error(near, q) for q in indices]),
    )


def _weighted_error(values: Tensor, q: float) -> Tensor:
    before = values.cumsum(0) - values
    product = tsallis.exp_q(values / (1 + (q - 1) * before), q).prod(0)
    return (product - tsallis.exp_q(values.sum(0), q)).nan_to_num(math.inf)
