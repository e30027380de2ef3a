"""The history: every measure against its definition, on problems small enough to see."""

import math

import numpy as np
import pytest
import torch

from mviq.tabular import (
    MDP,
    Diagnostics,
    algorithm,
    from_gym,
    garnet,
    greedy_policy,
    optimal_q_values,
    policy_values,
    solve,
)
from mviq.tabular.sweep import CHUNK
from mviq.tsallis import Family


def bandit(*rewards: float) -> MDP:
    """One state, one step."""
    count = len(rewards)
    transitions = np.zeros((2, count, 2))
    transitions[:, :, 1] = 1.0
    pay = np.array([rewards, [0.0] * count])
    return MDP.from_arrays(transitions, pay, 0.5, terminal=[False, True])


def test_a_bandit_by_hand() -> None:
    """Q = r; at q = 2, τ = 1 the policy of (1, .5, −.2) is (.75, .25, 0)."""
    point = Family(q=2.0, temperature=1.0, munchausen_alpha=0.0)
    watch = Diagnostics(values_every=1, optimum=np.array([[1.0, 0.5, -0.2], [0.0] * 3]))
    last = solve(bandit(1.0, 0.5, -0.2), point, diagnostics=watch).history[-1]
    assert last.bellman_residual == 0
    assert last.distance_to_optimum == 0
    assert last.greedy_value == pytest.approx(1.0)
    assert last.policy_value == pytest.approx(0.875)
    assert last.entropy == pytest.approx(1 - 0.75**2 - 0.25**2)
    assert last.divergence == pytest.approx(0.0, abs=1e-15)
    assert last.support_size == 2
    assert last.action_gap == pytest.approx(0.5)
    # R_2 = Σ π (1 − π)(1/π_k − 1), and π_k = π at the end.
    assert last.munchausen_residual == pytest.approx(0.25**2 + 0.75**2)


def test_the_first_divergence_is_from_the_first_policy() -> None:
    point = Family(q=2.0, temperature=1.0, munchausen_alpha=0.0)
    first = solve(bandit(1.0, 0.5, -0.2), point, diagnostics=Diagnostics()).history[0]
    chi_squared = 3 * (0.75**2 + 0.25**2) - 1  # from the uniform policy of Q = 0
    assert first.divergence == pytest.approx(chi_squared)
    assert first.bellman_residual == 1.0


def test_a_moving_prior_is_the_policy_before() -> None:
    history = solve(
        bandit(0.02, 0.0), algorithm("kl-vi", temperature=1.0), diagnostics=Diagnostics()
    ).history
    before = torch.tensor([0.5, 0.5], dtype=torch.float64)
    now = torch.tensor([0.02, 0.0], dtype=torch.float64).softmax(0)
    assert history[0].divergence == pytest.approx(float((now * (now / before).log()).sum()))


def test_costly_measures_are_computed_as_often_as_asked() -> None:
    mdp = garnet(20)
    watch = Diagnostics(every=3, values_every=5)
    history = solve(mdp, algorithm("mvi"), diagnostics=watch, max_iterations=17).history
    with_policies = [r.iteration for r in history if not math.isnan(r.entropy)]
    with_values = [r.iteration for r in history if not math.isnan(r.policy_value)]
    assert with_policies == [3, 6, 9, 12, 15, 17]  # the last one always
    assert with_values == [5, 10, 15, 17]
    plain = solve(mdp, algorithm("mvi"), max_iterations=17).history
    assert all(math.isnan(r.entropy) and math.isnan(r.policy_value) for r in plain)
    assert [r.bellman_residual for r in plain] == [r.bellman_residual for r in history]


def test_measures_do_not_depend_on_the_chunks() -> None:
    mdp = garnet(CHUNK + 100, actions=3, branching=2)
    watch = Diagnostics(optimum=optimal_q_values(mdp))
    run = solve(mdp, algorithm("mvi", temperature=1.0), diagnostics=watch, max_iterations=4)
    top = np.sort(run.q_values, axis=1)
    assert run.history[-1].action_gap == pytest.approx((top[:, -1] - top[:, -2]).mean())
    assert run.history[-1].support_size == pytest.approx((run.policy > 0).sum(axis=1).mean())


def test_without_a_second_action_there_is_no_gap() -> None:
    mdp = garnet(10, actions=1)
    history = solve(mdp, algorithm("vi"), diagnostics=Diagnostics()).history
    assert math.isnan(history[-1].action_gap)
    assert history[-1].support_size == 1


def test_the_distance_to_the_optimum_falls_to_zero_for_value_iteration() -> None:
    mdp = from_gym("FrozenLake-v1")
    watch = Diagnostics(every=0, values_every=10**9, optimum=optimal_q_values(mdp))
    last = solve(mdp, algorithm("vi"), tolerance=1e-12, diagnostics=watch).history[-1]
    assert last.distance_to_optimum < 1e-9
    assert last.greedy_value == pytest.approx(0.5420, abs=1e-4)


@pytest.mark.parametrize("states", [50, 2000])
def test_exact_evaluation_solves_the_bellman_equation(states: int) -> None:
    """Both the direct and the iterative method."""
    mdp = garnet(states, discount=0.99, seed=1)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), size=states)
    values = policy_values(mdp, policy)
    backed_up = mdp.rewards + 0.99 * (mdp.transitions @ values).reshape(states, 4)
    np.testing.assert_allclose((policy * backed_up).sum(axis=1), values, rtol=0, atol=1e-11)


@pytest.mark.parametrize("states", [50, 2000])
def test_the_optimum_satisfies_the_optimality_equation(states: int) -> None:
    mdp = garnet(states, discount=0.99, seed=2)
    best = optimal_q_values(mdp)
    backed_up = mdp.rewards + 0.99 * (mdp.transitions @ best.max(axis=1)).reshape(states, 4)
    np.testing.assert_allclose(best, backed_up, rtol=0, atol=1e-9)
    assert greedy_policy(best).sum() == states


def test_a_policy_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(ValueError, match=r"policy must have shape \(10, 4\), got \(4, 10\)"):
        policy_values(garnet(10), np.ones((4, 10)))
