"""The exact statements about the family (the identities, the contractions) on random MDPs."""

import math
from itertools import islice, pairwise

import numpy as np
import pytest
import torch

from mviq.tabular import (
    Diagnostics,
    ExplicitKL,
    algorithm,
    begin,
    garnet,
    iterate,
    lock_in_chain,
    solve,
)
from mviq.tabular.sweep import sweep
from mviq.tsallis import Family, entropy, expectation, log_q, normalizer, policy, soft_value

QS = [1.0, 1.5, 2.0, 3.0, 7.0]
TEMPERATURE = 0.3


def action_values_on_the_way(family: Family, seed: int) -> list[torch.Tensor]:
    steps = iterate(garnet(30, seed=seed), family)
    return [next(steps).q_values for _ in range(25)][::6]


def random_q_values(states: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(states, 4, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("q", QS)
def test_the_bootstrap_is_the_normaliser(q: float) -> None:
    """Identity 1: ⟨π, Q − τ ln_q π⟩ = τ ψ_q(Q/τ)."""
    family = Family(q=q, temperature=TEMPERATURE)
    for q_values in action_values_on_the_way(family, seed=1):
        backed_up = family.bootstrap(family.evaluate(q_values))
        torch.testing.assert_close(backed_up, soft_value(q_values, q, TEMPERATURE))
        pi = policy(q_values, q, TEMPERATURE)
        log = torch.where(pi > 0, log_q(pi, q), 0.0)
        torch.testing.assert_close(backed_up, (pi * (q_values - TEMPERATURE * log)).sum(-1))


@pytest.mark.parametrize("q", QS)
def test_the_gap_is_the_extended_logarithm_and_the_entropy(q: float) -> None:
    """Identity 2: Q − ⟨π,Q⟩ = τ(Q/τ − ψ_q) + τ S_q(π) for every action."""
    for q_values in action_values_on_the_way(Family(q=q, temperature=TEMPERATURE), seed=2):
        pi = policy(q_values, q, TEMPERATURE)
        left = q_values - expectation(pi, q_values)[:, None]
        psi = normalizer(q_values, q, TEMPERATURE)[:, None]
        extended = TEMPERATURE * (q_values / TEMPERATURE - psi)
        torch.testing.assert_close(left, extended + TEMPERATURE * entropy(pi, q)[:, None])


@pytest.mark.parametrize("q", QS)
def test_the_fixed_point_of_the_log_form(q: float) -> None:
    """Identity 3: extended log with weight α has the policy of Tsallis-VI at (1−α)τ."""
    mdp, alpha = garnet(40, seed=3), 0.8
    munchausen = Family(q=q, temperature=TEMPERATURE, munchausen_alpha=alpha, form="log")
    plain = algorithm("tsallis-vi", q=q, temperature=(1 - alpha) * TEMPERATURE)
    one, two = (solve(mdp, it, tolerance=1e-12) for it in (munchausen, plain))
    np.testing.assert_allclose(one.policy, two.policy, atol=1e-9)
    np.testing.assert_allclose(one.values, two.values, atol=1e-9)


def omega(pi: torch.Tensor, q: float) -> torch.Tensor:
    """Ω = −S_q/q."""
    return -entropy(pi, q) / q


def bregman(pi: torch.Tensor, mu: torch.Tensor, q: float) -> torch.Tensor:
    """D_Ω(π‖μ) = Ω(π) − Ω(μ) − ⟨∇Ω(μ), π − μ⟩, where ∇Ω is ln_q up to a constant."""
    return omega(pi, q) - omega(mu, q) - (log_q(mu, q) * (pi - mu)).sum(-1)


@pytest.mark.parametrize("q", [1.5, 2.0, 3.0])
def test_the_truncated_log_is_exactly_bregman_regularised(q: float) -> None:
    """Identity 4: π_{k+1} maximises ⟨π,Q'⟩ − ατ D_Ω(π‖π_k) − (1−α)τ Ω(π), Q' = Q − ατ ln_q π_k."""
    alpha = 0.6
    family = Family(q=q, temperature=TEMPERATURE, munchausen_alpha=alpha, form="truncated_log")
    steps = [state.q_values for state in islice(iterate(garnet(30, seed=4), family), 8)]
    generator = torch.Generator().manual_seed(0)
    for before, now in pairwise(steps):
        previous, chosen = family.policy(before), family.policy(now)
        unregularised = now - alpha * TEMPERATURE * log_q(previous, q)

        def objective(pi: torch.Tensor, previous=previous, target=unregularised) -> torch.Tensor:
            return (
                (pi * target).sum(-1)
                - alpha * TEMPERATURE * bregman(pi, previous, q)
                - (1 - alpha) * TEMPERATURE * omega(pi, q)
            )

        best = objective(chosen)
        for mix in (1.0, 0.1, 0.001):
            noise = torch.rand(chosen.shape, generator=generator, dtype=torch.float64)
            other = (1 - mix) * chosen + mix * noise / noise.sum(-1, keepdim=True)
            assert (objective(other) <= best + 1e-12).all()


def test_at_two_the_bregman_divergence_is_half_the_squared_distance() -> None:
    pi, mu = random_q_values(9, 1).softmax(-1), random_q_values(9, 2).softmax(-1)
    torch.testing.assert_close(bregman(pi, mu, 2.0), 0.5 * (pi - mu).square().sum(-1))


def test_limits_in_q() -> None:
    """Identity 5: q → 1 is the softmax algorithm, q → ∞ the greedy one."""
    mdp = garnet(40, seed=5)

    def q_values(q: float) -> np.ndarray:
        return solve(mdp, Family(q=q, temperature=TEMPERATURE, munchausen_alpha=0.5)).q_values

    np.testing.assert_allclose(q_values(1 + 1e-9), q_values(1.0), atol=1e-6)
    np.testing.assert_allclose(q_values(1e9), q_values(math.inf), atol=1e-6)


CONTRACTIONS = [
    *(Family(q=q, temperature=TEMPERATURE, munchausen_alpha=0.0) for q in (*QS, math.inf)),
    *(ExplicitKL(q=q, temperature=TEMPERATURE, prior="fixed") for q in QS),
]


@pytest.mark.parametrize("point", CONTRACTIONS, ids=lambda p: f"{type(p).__name__}-{p.q}")
def test_contraction(point: Family | ExplicitKL) -> None:
    """α = 0 at every q, and (Theorem 3) the explicit divergence from a fixed prior: ratio ≤ γ."""
    mdp = garnet(40, discount=0.9, seed=6)
    ratios = []
    for seed in range(20):
        one, two = random_q_values(40, 2 * seed), random_q_values(40, 2 * seed + 1)
        prior = random_q_values(40, 1000 + seed).softmax(-1) if "Explicit" in repr(point) else None
        after = [sweep(mdp, point, start, prior).q_values for start in (one, two)]
        ratios.append(float((after[0] - after[1]).abs().max() / (one - two).abs().max()))
    assert max(ratios) <= 0.9 + 1e-12
    assert max(ratios) > 0.3  # the bound is of the right size


@pytest.mark.parametrize("q", QS)
def test_a_fixed_prior_converges_to_one_answer(q: float) -> None:
    mdp, point = garnet(40, seed=7), ExplicitKL(q=q, temperature=TEMPERATURE, prior="fixed")
    answers = [
        solve(mdp, point, state=begin_at(mdp, point, seed), tolerance=1e-11) for seed in (1, 2)
    ]
    np.testing.assert_allclose(answers[0].q_values, answers[1].q_values, atol=1e-9)


def begin_at(mdp, point, seed: int):
    return begin(mdp, point, q_values=10 * random_q_values(mdp.states, seed))


@pytest.mark.parametrize(
    ("point", "reached"),
    [
        (algorithm("tkl-vi"), 2.0),
        (algorithm("tkl-vi", q=3.0), 2.0),
        (algorithm("kl-vi"), 13.97),
        (algorithm("mvi", q=2.0), 13.97),
        (algorithm("mvi", q=3.0), 13.97),
        (algorithm("vi"), 13.97),
    ],
    ids=lambda p: getattr(p, "__class__", p).__name__ if not isinstance(p, float) else str(p),
)
def test_the_lock_in_chain(point: Family | ExplicitKL, reached: float) -> None:
    """γ = .95, τ = .03: the moving-prior Tsallis-KL policy never gets back what it dropped."""
    solution = solve(lock_in_chain(), point, diagnostics=Diagnostics(values_every=10**9))
    assert solution.status.value == "converged"
    assert solution.history[-1].policy_value == pytest.approx(reached, abs=0.005)
    assert solution.history[-1].greedy_value == pytest.approx(reached, abs=0.005)


def test_a_fixed_prior_does_not_lock_in() -> None:
    point = algorithm("tkl-vi", prior="fixed")
    solution = solve(lock_in_chain(), point, diagnostics=Diagnostics(values_every=10**9))
    assert solution.history[-1].greedy_value == pytest.approx(13.97, abs=0.005)
