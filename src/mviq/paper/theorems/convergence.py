"""When the regularised recursion converges: Eq. (1), Theorem 3 and the lemma of Geist et al."""

from collections.abc import Callable

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import (
    Problem,
    contraction,
    draw_policies,
    draw_values,
    family_step,
    garnets,
    lock_in_problem,
    repeat,
)
from mviq.paper.theorems.statement import Statement, excess, largest, worst

_TEMPERATURE = 0.5


def _step_policy(q_values: Tensor, prior: Tensor, q: float, temperature: float) -> Tensor:
    """Return argmax ⟨π, Q⟩ − τ D_q(π‖μ), which is the policy of Q/(qτ) with the prior."""
    return tsallis.policy(q_values, q, q * temperature, prior)


def _step(problem: Problem, prior: Tensor, q: float) -> Callable[[Tensor], Tensor]:
    """Return the update Q ← r + γ P max ⟨π, Q⟩ − τ D_q(π‖μ)."""

    def step(q_values: Tensor) -> Tensor:
        policy = _step_policy(q_values, prior, q, _TEMPERATURE)
        penalty = _TEMPERATURE * tsallis.divergence(policy, prior, q)
        return problem.backup((policy * q_values).sum(-1) - penalty)

    return step


def recursion_concave() -> Statement:
    """Take the concave Ω = +S_2: its greedy step is a maximum over the corners."""
    problem = garnets()
    first, second = (problem.draw(5.0, seed) for seed in (40, 41))
    # S_2 is 0 in the corners and positive elsewhere: the corner of the best action is optimal.
    others = draw_policies(first.numel() // 4, 4, 2.0, seed=42).view_as(first)
    beyond = (others * first).sum(-1) - tsallis.entropy(others, 2.0) - first.amax(-1)
    ratio = contraction(lambda q_values: problem.backup(q_values.amax(-1)), first, second)
    corners = torch.eye(2, dtype=torch.float64)
    optimal = -tsallis.entropy(corners, 2.0)  # the objective at two equal values of 0
    middle = -tsallis.entropy(torch.full((2,), 0.5, dtype=torch.float64), 2.0)
    return Statement(
        reference="Eq. (1)",
        claim="the recursion of values and policies is guaranteed to converge if Ω is concave",
        where="Ω = S_2, which is concave",
        printed_residual=float((optimal == optimal.max()).sum() - 1),
        only_for="the values, which converge whether Ω is concave or not",
        evidence=f"of two equal actions, choosing either one is optimal, mixing them costs "
        f"{middle.abs():.2g}; contraction ratio of the values {ratio:.2f}",
        corrected="for any fixed bounded Ω the values converge (a γ-contraction); that the "
        "policy is unique needs a strictly convex Ω",
        residual=largest(ratio - problem.discount, excess(beyond)),
    )


def divergence_norm() -> Statement:
    """Evaluate the printed expression for the divergence at q = 2, and the right one."""
    policies, priors = draw_policies(500, 6, seed=42), draw_policies(500, 6, seed=43)
    ratio = policies / priors
    divergence = tsallis.divergence(policies, priors, 2.0)
    # If the two were proportional, their quotient would be constant; its spread is the error.
    quotient = (ratio.square().sum(-1) - 1) / divergence
    spread = float(quotient.max() / quotient.min() - 1)
    return Statement(
        reference="Appendix C",
        claim="at q = 2 the divergence is proportional to ‖π/μ‖₂² − 1",
        convention="ours",
        where="q = 2",
        printed_residual=spread,
        evidence=f"the quotient of the two varies by a factor of {spread + 1:.2g}",
        corrected="D_2(π‖μ) = ⟨μ, (π/μ)²⟩ − 1, the norm weighted with μ",
        residual=worst((priors * ratio.square()).sum(-1) - 1 - divergence),
        tolerance=1e-11,
    )


def strong_convexity() -> Statement:
    """Test the convexity inequality with modulus q between random policies, and above q = 2."""
    first, second = (draw_policies(1000, 6, 3.0, seed) for seed in (44, 45))
    prior = draw_policies(1000, 6, seed=46)
    shares = (0.1, 0.5, 0.9)
    violations = [
        _convexity(first, second, prior, q, share) for q in (1.0, 1.5, 2.0) for share in shares
    ]
    near = torch.tensor([[0.98, 0.02, 0.0], [0.98, 0.0, 0.02]], dtype=torch.float64)
    uniform = torch.full((3,), 1 / 3, dtype=torch.float64)
    above = float(_convexity(near[0], near[1], uniform, 5.0, 0.5).min())
    return Statement(
        reference="Theorem 3, appendix C",
        claim="D_2(·‖μ) and −S_2 are strongly convex",
        convention="ours",
        where="q = 2, and 1 ≤ q ≤ 2 with modulus q in the Euclidean norm",
        evidence=f"at q = 5 the inequality fails by {above:.1g} near a corner",
        corrected="both are strongly convex with modulus q for 1 ≤ q ≤ 2; above 2 they are "
        "strictly convex only",
        residual=largest(excess(*violations), float(not above > 0)),
    )


def _convexity(first: Tensor, second: Tensor, prior: Tensor, q: float, share: float) -> Tensor:
    """Return the violation of strong convexity with modulus q, of D_q(·‖μ) and of −S_q."""
    middle = share * first + (1 - share) * second
    bonus = q / 2 * share * (1 - share) * (first - second).square().sum(-1)

    def violation(at_middle: Tensor, at_first: Tensor, at_second: Tensor) -> Tensor:
        return at_middle + bonus - share * at_first - (1 - share) * at_second

    points = (middle, first, second)
    divergences = [tsallis.divergence(point, prior, q) for point in points]
    entropies = [-tsallis.entropy(point, q) for point in points]
    return torch.stack([violation(*divergences), violation(*entropies)])


def conjugate_gradient() -> Statement:
    """Differentiate the regularised maximum, and estimate the Lipschitz constant of the policy."""
    errors, stretches = [], {}
    for q in (1.0, 1.5, 2.0, 3.0, 5.0):
        values = draw_values(1000, 6, seed=47).requires_grad_()
        policy = tsallis.policy(values, q, _TEMPERATURE)
        bonus = _TEMPERATURE / q * tsallis.entropy(policy, q)
        maximum = (policy * values).sum(-1) + bonus
        (gradient,) = torch.autograd.grad(maximum.sum(), values)
        errors.append(gradient - policy.detach())
        stretches[q] = _stretch(q)
    below = largest(*(stretch for q, stretch in stretches.items() if q <= 2))
    return Statement(
        reference="Lemma 1, first part",
        claim="for a strongly convex Ω, the gradient of Ω* is the unique maximiser of "
        "⟨π, Q⟩ − Ω(π) and is Lipschitz",
        convention="ours",
        where="Ω = −(τ/q) S_q, 1 ≤ q ≤ 5; Lipschitz constant 1/τ for q ≤ 2",
        evidence=f"τ times the largest slope: {below:.2f} for q ≤ 2, {stretches[5.0]:.0f} at q = 5",
        corrected="the gradient is the policy for every q; it is Lipschitz for q ≤ 2 only, where "
        "Ω is strongly convex",
        residual=largest(worst(*errors), below - 1, float(not stretches[5.0] > 1)),
        tolerance=1e-11,
    )


def _stretch(q: float) -> float:
    """Return the largest τ ‖π − π′‖/‖Q − Q′‖ over pairs of nearby values."""
    values = draw_values(5000, 6, seed=48)
    nearby = values + draw_values(5000, 6, 1e-4, seed=49)
    change = tsallis.policy(nearby, q, _TEMPERATURE) - tsallis.policy(values, q, _TEMPERATURE)
    return _TEMPERATURE * float((change.norm(dim=-1) / (nearby - values).norm(dim=-1)).max())


def evaluation_contraction() -> Statement:
    """Apply the evaluation operator of fixed policies to pairs of values, and to its solution."""
    problem = garnets()
    states = problem.rewards.shape[1]
    policies = draw_policies(6 * states, 4, seed=50).view_as(problem.rewards)
    bonus = _TEMPERATURE / 2 * tsallis.entropy(policies, 2.0)

    def evaluate(state_values: Tensor) -> Tensor:
        return (policies * problem.backup(state_values)).sum(-1) + bonus

    first, second = (draw_values(6, states, 5.0, seed) for seed in (51, 52))
    ratio = contraction(evaluate, first, second)
    fixed = problem.value(policies, bonus)
    return Statement(
        reference="Lemma 1, second part",
        claim="the evaluation operator of a policy is a γ-contraction in the sup norm with one "
        "fixed point",
        where="six random problems, γ = 0.9",
        evidence=f"contraction ratio {ratio:.2f}",
        residual=largest(ratio - problem.discount, worst(evaluate(fixed) - fixed)),
    )


def regularised_optimum() -> Statement:
    """Compare the value of the regularised optimal policy with that of random policies."""
    problem, prior = garnets(), torch.full((4,), 0.25, dtype=torch.float64)

    def value(policy: Tensor) -> Tensor:
        return problem.value(policy, -_TEMPERATURE * tsallis.divergence(policy, prior, 2.0))

    optimal = repeat(_step(problem, prior, 2.0), problem.rewards).q_values
    best = _step_policy(optimal, prior, 2.0, _TEMPERATURE)
    better, advantages = [], []
    for seed in range(60, 100):
        rival = draw_policies(120, 4, 2.0, seed).view_as(best)
        for policy in (rival, 0.99 * best + 0.01 * rival):
            better.append(value(policy) - value(best))
            advantages.append((value(best) - value(policy)).amax(-1))
    return Statement(
        reference="Lemma 1, third part",
        claim="the greedy policy of the regularised optimal values is the unique regularised "
        "optimal policy",
        where="Ω = τ D_2(·‖uniform); 80 rivals on each of six problems, half of them close by",
        evidence=f"the closest rival loses {float(torch.stack(advantages).min()):.1g}",
        residual=excess(*better, *[1e-9 - advantage for advantage in advantages]),  # unique
        tolerance=1e-10,
    )


def theorem_3_fixed_prior() -> Statement:
    """Apply the operator with a fixed prior to pairs of values, and iterate it from two starts."""
    problem = garnets()
    prior = draw_policies(120, 4, seed=53).view_as(problem.rewards)
    first, second = problem.draw(5.0, 54), problem.draw(5.0, 55)
    ratios, distances = [], []
    for q in (0.5, 1.0, 2.0, 3.0):
        step = _step(problem, prior, q)
        ratios.append(contraction(step, first, second))
        ends = [repeat(step, start).q_values for start in (first, second)]
        distances.append(ends[0] - ends[1])
    return Statement(
        reference="Theorem 3",
        claim="with Ω = τ D_2(·‖μ) and a fixed μ the recursion converges to the unique "
        "regularised optimum",
        where="q = 0.5, 1, 2, 3: any q > 0, not only 2",
        evidence=f"contraction ratio {max(ratios):.2f} at γ = {problem.discount:g}",
        residual=largest(largest(*ratios) - problem.discount, worst(*distances)),
        tolerance=1e-10,
    )


def theorem_3_previous_policy() -> Statement:
    """Use the previous policy as prior on a chain with a small reward near and a large one far."""
    problem, temperature = lock_in_problem(), 0.03
    explicit = {q: _explicit_value(problem, q, temperature) for q in (1.0, 2.0)}
    mvi = tsallis.Family(q=2.0, temperature=temperature)
    implicit = mvi.policy(repeat(family_step(problem, mvi), problem.rewards, 500).q_values)
    reached = torch.stack([explicit[1.0], problem.value(implicit)[0]])
    best = 0.95**7 / (1 - 0.95)
    return Statement(
        reference="Theorem 3, Eq. (6)",
        claim="the recursion converges to the optimum also with μ = π_k, as the algorithm uses it",
        where="q = 2, eight states in a chain, γ = 0.95, τ = 0.03",
        printed_residual=worst(explicit[2.0] - best),
        only_for="q = 1",
        evidence=f"stays at V(s0) = {float(explicit[2.0]):.2f} of {best:.2f}; with KL "
        f"{float(explicit[1.0]):.2f}, with implicit MVI(2) {float(reached[1]):.2f}",
        corrected="for q > 1 an action once truncated never returns, so the recursion can stop "
        "short; KL and the implicit MVI(q) do reach the optimum here",
        residual=worst(reached - best),
        tolerance=1e-9,
    )


def _explicit_value(problem: Problem, q: float, temperature: float) -> Tensor:
    """Return V(s0) of the last policy of π_{k+1} = argmax ⟨π, Q_k⟩ − τ D_q(π‖π_k)."""
    q_values = torch.zeros_like(problem.rewards)
    policy = torch.full_like(q_values, 1 / q_values.shape[-1])
    for _ in range(300):
        previous, policy = policy, _step_policy(q_values, policy, q, temperature)
        penalty = temperature * tsallis.divergence(policy, previous, q)
        q_values = problem.backup((policy * q_values).sum(-1) - penalty)
    return problem.value(policy)[0]
