"""The q-logarithm and the q-exponential: section 3.1, section 3.2 and appendix A."""

import torch
from torch import Tensor

from mviq import tsallis
from mviq.paper.theorems.samples import INDICES, Deformed, draw_policies, draw_values, slope
from mviq.paper.theorems.statement import Statement, excess, largest, relative, worst

_ABOUT_ONE = torch.logspace(-1, 1, 201, dtype=torch.float64)
_PHYSICS = (-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0)


def inverse() -> Statement:
    """Apply ln_q and exp_q after one another in both orders, and outside their domain."""
    back = [relative(tsallis.exp_q(tsallis.log_q(_ABOUT_ONE, q), q), _ABOUT_ONE) for q in INDICES]
    forth = [_round_trip(_inside(q), q) for q in INDICES]
    below = [tsallis.exp_q(-1 / (q - 1) - _ABOUT_ONE, q) for q in INDICES if q > 1]
    # For the physics index 1.5 the printed inequality allows x > 2; 3 is one such x.
    beyond = torch.tensor([3.0], dtype=torch.float64)
    printed = worst(_round_trip(beyond, float(tsallis.mirror_index(1.5))))
    return Statement(
        reference="Eq. (2)",
        claim="exp_q is the inverse of ln_q, and can be inverted for x > −1/(1−q)",
        convention="physics",
        where="every q > 0",
        printed_residual=printed,
        only_for="q < 1, which is our q > 1",
        evidence=f"at q = 1.5, x = 3 comes back as {3 - printed:.3g}",
        corrected="exp_q(ln_q x) = x for x > 0; ln_q(exp_q x) = x iff 1 + (q−1)x > 0, that is "
        "x > −1/(q−1) for q > 1 and x < 1/(1−q) for q < 1",
        residual=worst(*back, *forth, *below),
        tolerance=1e-11,
    )


def _round_trip(x: Tensor, q: float) -> Tensor:
    return tsallis.log_q(tsallis.exp_q(x, q), q) - x


def _inside(q: float) -> Tensor:
    """Return points with 0.1 ≤ 1 + (q−1)x ≤ 10, and [−2, 2] at q = 1."""
    if q == 1:
        return torch.linspace(-2, 2, 201, dtype=torch.float64)
    return (_ABOUT_ONE - 1) / (q - 1)


def limit_at_one() -> Statement:
    """Compare with the logarithm, exponential, softmax, entropy and KL divergence of torch."""
    x, values = _ABOUT_ONE, draw_values(500, 6)
    policies, priors = draw_policies(500, 6, seed=1), draw_policies(500, 6, seed=2)
    errors = []
    for q in (1 - 1e-8, 1.0, 1 + 1e-8):
        errors += [
            tsallis.log_q(x, q) - x.log(),
            tsallis.exp_q(x.log(), q) - x,
            tsallis.entropy(policies, q) + (policies * policies.log()).sum(-1),
            tsallis.divergence(policies, priors, q)
            - (policies * (policies / priors).log()).sum(-1),
            tsallis.policy(values, q) - values.softmax(-1),
            tsallis.normalizer(values, q) - values.logsumexp(-1),
        ]
    return Statement(
        reference="Section 3.1",
        claim="as q → 1, ln_q, exp_q, the entropy, the divergence and the policy become ln, exp, "
        "Shannon's entropy, the KL divergence and softmax",
        where="|q − 1| ≤ 1e-8; the distance is of first order in q − 1",
        residual=worst(*errors),
        tolerance=1e-6,
    )


def log_flatter() -> Statement:
    """Test whether the slope of ln_q falls with q, at the indices of figure 1."""
    x = torch.linspace(0.1, 4, 400, dtype=torch.float64)
    physics = torch.stack([slope(tsallis.log_q_physics, x, q) for q in range(1, 6)])
    ours = torch.stack([slope(tsallis.log_q, x, q) for q in range(1, 6)])
    above, below = x > 1, x < 1
    return Statement(
        reference="Figure 1, section 3.1",
        claim="ln_q becomes flatter as q grows",
        convention="physics",
        where="q = 1, …, 5 and 0.1 ≤ x ≤ 4",
        printed_residual=excess(physics.diff(dim=0)),
        only_for="x > 1; probabilities are below",
        evidence=f"the slope at x = 0.1 goes from {physics[0, 0]:.0f} at q = 1 "
        f"to {physics[4, 0]:.0f} at q = 5",
        corrected="the slope is x^(q−2): it falls with q for x < 1 and rises for x > 1 "
        "(x^(−q) in the physics convention: the other way round)",
        residual=excess(
            physics[:, above].diff(dim=0),
            -physics[:, below].diff(dim=0),
            ours[:, below].diff(dim=0),
            -ours[:, above].diff(dim=0),
        ),
    )


def exp_steeper() -> Statement:
    """Test whether the slope of exp_q rises with q, on both sides of zero."""
    x = torch.linspace(-1.3, 1.3, 261, dtype=torch.float64)
    indices = (0.25, 0.5, 1.0, 1.25, 1.5, 1.75)
    slopes = torch.stack([slope(tsallis.exp_q, x, 2 - q) for q in indices])
    at = int((x + 1).abs().argmin())
    return Statement(
        reference="Figure 1, section 3.1",
        claim="exp_q becomes steeper as q grows",
        convention="physics",
        where="0.25 ≤ q ≤ 1.75 and |x| ≤ 1.3",
        printed_residual=excess(-slopes.diff(dim=0)),
        only_for="x ≥ 0; a policy uses x < 0",
        evidence=f"the slope at x = −1 goes from {slopes[2, at]:.2f} at q = 1 "
        f"to {slopes[5, at]:.2f} at q = 1.75",
        corrected="for x ≥ 0 the slope exp_q(x)^(2−q) falls with our q "
        "(it rises with the physics index)",
        residual=excess(-slopes[:, x >= 0].diff(dim=0)),
    )


def log_convexity() -> Statement:
    """Compare the function at the midpoint of random pairs with its mean at the ends."""
    ends = draw_values(2000, 2, seed=3).exp()
    bends = {q: _bend(tsallis.log_q_physics, ends, q) for q in _PHYSICS}
    pairs = draw_values(2000, 2, scale=2.0, seed=4)
    kink, inside = _bend(tsallis.exp_q, pairs, 2.0), _bend(tsallis.exp_q, ends - 1, 2.0)
    return Statement(
        reference="Section 3.2",
        claim="ln_q is convex for q ≤ 0 and concave for q > 0; at q = 0 both ln_q and exp_q "
        "are linear",
        convention="physics",
        where=f"q from {min(_PHYSICS):g} to {max(_PHYSICS):g}",
        printed_residual=worst(kink),
        only_for="ln_q; exp_0 has a kink at −1, where it becomes 0",
        evidence=f"the middle of exp_0 is off the mean of the ends by up to {worst(kink):.2g}",
        corrected="ours: ln_q is concave for q ≤ 2, convex for q ≥ 2 and linear at 2; "
        "exp_2 x = [1 + x]_+ is linear for x ≥ −1 only",
        residual=excess(
            *[bend if q <= 0 else -bend for q, bend in bends.items()],
            bends[0.0].abs(),
            inside.abs(),
        ),
    )


def _bend(function: Deformed, ends: Tensor, q: float) -> Tensor:
    """Return f(mean) − mean of f, relative: negative for a convex function."""
    at_ends = function(ends, q).mean(-1)
    return relative(function(ends.mean(-1), q), at_ends)


def log_monotone() -> Statement:
    """Test the sign of the increments on a grid."""
    x = torch.logspace(-2, 2, 401, dtype=torch.float64)
    falls = [-tsallis.log_q_physics(x, q).diff() for q in _PHYSICS]
    falls += [-tsallis.log_q(x, q).diff() for q in INDICES]
    return Statement(
        reference="Section 3.2",
        claim="ln_q increases",
        where=f"q from {min(_PHYSICS):g} to {max(_PHYSICS):g}, 0.01 ≤ x ≤ 100",
        evidence=f"the smallest increase on the grid is {-max(float(f.max()) for f in falls):.1g}",
        residual=0.0 if all(bool((fall < 0).all()) for fall in falls) else 1.0,
        tolerance=0.0,
    )


def pseudo_additivity() -> Statement:
    """Compare the logarithm of products with those of the factors, in both conventions."""
    x, y = draw_values(2000, 2, seed=5).exp().unbind(-1)

    def error(log: Deformed, q: float, weight: float) -> Tensor:
        a, b = log(x, q), log(y, q)
        return relative(log(x * y, q), a + b + weight * a * b)

    printed = worst(*[error(tsallis.log_q_physics, q, 1 - q) for q in _PHYSICS])
    ours = worst(*[error(tsallis.log_q, q, q - 1) for q in INDICES])
    mixed = worst(error(tsallis.log_q, 2.0, 1 - 2.0))
    return Statement(
        reference="Eq. (5)",
        claim="ln_q(xy) = ln_q x + ln_q y + (1−q) ln_q x ln_q y",
        convention="physics",
        where=f"q from {min(_PHYSICS):g} to {max(_PHYSICS):g}",
        printed_residual=printed,
        evidence=f"with our ln_2 and the printed sign off by up to {mixed:.0f} times the value",
        corrected="ours: ln_q(xy) = ln_q x + ln_q y + (q−1) ln_q x ln_q y",
        residual=largest(printed, ours),
        tolerance=1e-11,
    )
