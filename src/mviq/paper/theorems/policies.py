"""The form of the Tsallis policy and its support: Theorem 1 and related claims."""

import math

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import INDICES, draw_values
from mviq.paper.theorems.statement import Statement, ascent, excess, largest, relative, share, worst


def sparsemax_projection() -> Statement:
    """Test the optimality of the projection π of z: ⟨z − π, p − π⟩ ≤ 0 for every policy p."""
    values = draw_values(2000, 6, seed=20)
    policy, psi = tsallis.policy_and_normalizer(values, 2.0)
    towards = values - policy
    beyond = towards.amax(-1) - (policy * towards).sum(-1)  # over all corners of the simplex
    form = policy - (1 + values - psi.unsqueeze(-1)).clamp(min=0.0)
    return Statement(
        reference="Section 3.1",
        claim="with weight 1/2, the policy of q = 2 is the Euclidean projection of the values "
        "onto the simplex, [values − constant]_+",
        convention="ours",
        where="q = 2; the printed constant is our ψ − 1",
        residual=largest(excess(beyond), worst(form)),
    )


def optimality(z: Tensor, policy: Tensor, q: float, weight: float) -> Tensor:
    """Return the violation of the optimality conditions of max ⟨p, z⟩ + weight · S_q(p)."""
    return ascent(z - weight * (q * tsallis.log_q(policy, q) + 1), policy)


def theorem_1_form() -> Statement:
    """Check the optimality conditions with the weight the text implies and the one needed."""
    z = draw_values(2000, 6, seed=21)
    printed, needed, scaled = [], [], []
    for q in INDICES:
        policy, psi = tsallis.policy_and_normalizer(z, q)
        printed.append(optimality(z, policy, q, weight=1.0))
        needed += [optimality(z, policy, q, weight=1 / q), policy.sum(-1) - 1]
        # π and exp_q(z − ψ) are compared by their ln_q, where neither loses digits.
        log = (z - psi.unsqueeze(-1)).clamp(min=-1 / (q - 1) if q > 1 else -math.inf)
        needed.append(relative(tsallis.log_q(policy, q), log))
        scaled.append(optimality(z, tsallis.policy(z / q, q), q, weight=1.0))
    mirrored = optimality(z, tsallis.policy(z, tsallis.mirror_index(1.5)), 1.5, weight=1 / 1.5)
    return Statement(
        reference="Theorem 1",
        claim="the policy that maximises ⟨π, Q⟩ + τ S_q(π) is exp_q(Q/τ − ψ)",
        convention="ours",
        where="every q > 0",
        printed_residual=worst(*printed),
        only_for="an entropy of weight 1/q (which the appendix assumes), or q = 1",
        evidence=f"the optimality conditions are off by up to {worst(*printed):.2g} with weight 1, "
        f"and by {worst(mirrored):.2g} with weight 1/q but the physics exp_1.5 for S_1.5",
        corrected="our exp_q(z − ψ) (the physics exp_{2−q}) maximises ⟨π, z⟩ + (1/q) S_q(π); with "
        "weight 1 the maximiser is the policy of z/q",
        residual=worst(*needed, *scaled),
        tolerance=1e-11,
    )


def theorem_1_root() -> Statement:
    """Evaluate the printed root at every threshold, literally, and in our convention."""
    z = draw_values(200, 6, seed=22)
    thresholds = z.amax(-1, keepdim=True) - torch.logspace(-3, 2, 200, dtype=torch.float64)
    above = (z.unsqueeze(-2) - thresholds.unsqueeze(-1)).clamp(min=0.0)
    # Physics' q = 2: the root of order −1 of −above. An action at the threshold has no value.
    mass = -torch.where(above > 0, 1 / above, 0.0).sum(-1)
    errors = []
    for q in (1.5, 2.0, 3.0, 5.0):
        policy, psi = tsallis.policy_and_normalizer(z, q)
        threshold = psi.unsqueeze(-1) - 1 / (q - 1)
        errors.append(policy.pow(q - 1) - (q - 1) * (z - threshold).clamp(min=0.0))
    return Statement(
        reference="Theorem 1",
        claim="the policy is the root of order 1−q of (1−q)[Q/τ − ψ̃]_+, for every q > 0",
        convention="physics",
        where="1.5 ≤ our q ≤ 5; physics' q = 2 at 200 thresholds per row",
        printed_residual=1 - float(mass.max()),
        only_for="q < 1, which is our q > 1",
        evidence="at q = 2 the root is negative: at every threshold the probabilities sum to "
        f"−{-float(mass.max()):.1g} or less",
        corrected="π^(q−1) = (q−1)[z − ψ̃]_+ with ψ̃ = ψ − 1/(q−1), for our q > 1",
        residual=worst(*errors),
    )


def theorem_1_support() -> Statement:
    """Compare the supports of (q, τ) and (2, τ/(q−1)) for two actions and for six."""
    violations, printed = 0, {}
    for q in (1.2, 1.5, 2.5, 3.0, 5.0, 50.0):
        pairs, rows = (draw_values(5000, n, 1 / (q - 1), seed=23) for n in (2, 6))
        violations += int((tsallis.support(pairs, q) ^ _stand_in(pairs, q)).sum())
        exact, other = tsallis.support(rows, q), _stand_in(rows, q)
        printed[q] = share((exact ^ other).any(-1))
        violations += int((exact & ~other if q > 2 else other & ~exact).sum())
    return Statement(
        reference="Theorem 1",
        claim="for q > 1, the support of (q, τ) is the support of (2, τ/(q−1))",
        convention="ours",
        where="q from 1.2 to 50, two and six actions, (q−1)z from N(0, 1)",
        printed_residual=largest(*printed.values()),
        only_for="two actions (or q = 2)",
        evidence=f"of six actions another support in {printed[1.5]:.0%} of draws at q = 1.5, "
        f"{printed[3.0]:.0%} at 3, {printed[50.0]:.0%} at 50",
        corrected="equal for two actions; in general the support is contained in that of "
        "(2, τ/(q−1)) for q > 2 and contains it for 1 < q < 2",
        residual=float(violations),
        tolerance=0.0,
    )


def _stand_in(values: Tensor, q: float) -> Tensor:
    return tsallis.support(values, 2.0, temperature=1 / (q - 1))


def support_shrinks() -> Statement:
    """Compute the support for growing q, and compare it with its closed form."""
    z = draw_values(5000, 6, seed=25)
    indices = (1.1, 1.5, 2.0, 2.5, 3.0, 5.0, 10.0, 50.0)
    supports = torch.stack([tsallis.support(z, q) for q in indices])
    grown = int((supports[1:] & ~supports[:-1]).sum())
    above = (z.unsqueeze(-2) - z.unsqueeze(-1)).clamp(min=0.0)  # z_j − z_i where z_j > z_i
    rules = torch.stack([((q - 1) * above).pow(1 / (q - 1)).sum(-1) < 1 for q in indices])
    sizes = supports.sum(-1, dtype=torch.float64).mean(-1)
    return Statement(
        reference="Theorem 1, Figure 2",
        claim="the larger q, the more actions are truncated",
        convention="ours",
        where="q from 1.1 to 50; in the physics convention it is the other way round",
        evidence=f"mean support of six actions: {sizes[1]:.2f} at q = 1.5, {sizes[2]:.2f} at 2, "
        f"{sizes[-1]:.2f} at 50",
        corrected="supports are nested; i is in iff Σ_{j: z_j > z_i} ((q−1)(z_j − z_i))^(1/(q−1)) "
        "< 1",
        residual=float(grown + int((supports ^ rules).sum())),
        tolerance=0.0,
    )


def greedy_limit() -> Statement:
    """Raise q until only the best action is left, and add a second one of equal value."""
    z = draw_values(2000, 6, seed=26)
    best, second = z.topk(2, dim=-1).values.unbind(-1)
    needed = 1 / (best - second)
    alone = tsallis.policy(z, 1 + needed * (1 + 1e-9))
    not_yet = tsallis.support(z, 1 + needed * (1 - 1e-9)).sum(-1)
    greedy = (z == best.unsqueeze(-1)).double()
    tied = torch.cat([z, best.unsqueeze(-1)], -1)
    policies = [tsallis.policy(tied, q) for q in (1e6, math.inf)]
    half = (tied == best.unsqueeze(-1)).double() / 2
    return Statement(
        reference="Appendix B",
        claim="as q → ∞ one action has probability 1 and all others 0",
        convention="ours",
        where="random values, with and without a tie",
        printed_residual=1 - float(policies[1].amax(-1).min()),
        only_for="a single best action",
        evidence=f"two equally good actions get {policies[1].amax(-1).max():.2g} each at q = ∞",
        corrected="uniform over the maximisers at q = ∞; a single best action is alone as soon as "
        "(q−1)(z_1 − z_2) ≥ 1, not only in the limit",
        residual=worst(alone - greedy, (not_yet < 2).double(), *[p - half for p in policies]),
    )


def closed_form() -> Statement:
    """Solve the quadratic equation that q = 3/2 leaves on every candidate support."""
    z = draw_values(2000, 6, seed=27)
    ordered = z.sort(-1, descending=True).values / 2
    sizes = torch.arange(1, 7, dtype=torch.float64)
    mean = ordered.cumsum(-1) / sizes
    spread = ordered.square().cumsum(-1) - sizes * mean.square()
    threshold = mean - ((1 - spread) / sizes).clamp(min=0.0).sqrt()
    size = (ordered > threshold).sum(-1, keepdim=True)
    solution = (z / 2 - threshold.gather(-1, size - 1)).clamp(min=0.0).square()
    error = worst(solution - tsallis.policy(z, 1.5), solution.sum(-1) - 1)
    return Statement(
        reference="Section 3.1",
        claim="the threshold has no closed form unless q is 1, 2 or ∞",
        convention="ours",
        where="q = 3/2 (physics: 1/2)",
        printed_residual=float(error <= 1e-12),
        evidence="at q = 1.5 sorting and a quadratic equation give the policy to rounding",
        corrected="also q = 3/2 has one: with x = z/2 sorted and its k largest in the support, "
        "π = [x − t]_+², t = mean − √((1 − Σ(x − mean)²)/k)",
        residual=error,
    )
