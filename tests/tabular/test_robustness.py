"""Statements about solving that once were false: layouts of arrays, priors, resumes, noise."""

import gymnasium as gym
import numpy as np
import pytest

from mviq.tabular import MDP, Noise, Status, algorithm, from_gym, solve
from mviq.tabular.generators import chain, garnet, grid_world


def test_the_layout_of_rewards_does_not_matter():
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(6), (6, 3)), rng.random((3, 6))
    by_rows, by_columns = (
        solve(MDP.from_arrays(transitions, given, 0.9), algorithm("vi"))
        for given in (rewards.T.copy(), rewards.T)
    )
    np.testing.assert_array_equal(by_rows.q_values, by_columns.q_values)


@pytest.mark.parametrize("name", ["kl-vi", "tkl-vi"])
def test_a_moving_prior_has_not_converged_before_its_policy(name):
    bandit = MDP.from_arrays(np.ones((1, 2, 1)), np.array([[1.0, 0.0]]), 0.0)
    run = solve(bandit, algorithm(name, temperature=10.0), tolerance=1e-8)
    assert run.status is Status.CONVERGED
    np.testing.assert_allclose(run.policy, [[1.0, 0.0]], atol=1e-6)


def test_a_slow_prior_is_not_called_diverged():
    run = solve(chain(), algorithm("kl-vi", temperature=3000.0), max_iterations=2_000)
    assert run.status is Status.LIMIT
    assert np.isfinite(run.values).all()


def test_a_solution_can_be_refined():
    problem = garnet(states=10, actions=2, branching=2, discount=0.9, seed=0)
    rough = solve(problem, algorithm("vi"), tolerance=0.5)
    fine = solve(problem, algorithm("vi"), tolerance=1e-10, state=rough.state)
    whole = solve(problem, algorithm("vi"), tolerance=1e-10)
    assert rough.status is fine.status is Status.CONVERGED
    np.testing.assert_array_equal(fine.q_values, whole.q_values)
    assert fine.iterations == whole.iterations > rough.iterations


def test_a_noisy_iteration_does_not_converge_by_luck():
    run = solve(
        chain(discount=0.5), algorithm("vi"), noise=Noise(1.0, kind="outliers"), max_iterations=300
    )
    assert run.status is Status.LIMIT


@pytest.mark.parametrize("wrong", [{"kind": "heavytailed"}, {"scale": -1.0}])
def test_noise_that_there_is_not_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Noise(**{"scale": 1.0, **wrong})


class Table(gym.Env):
    def __init__(self, table, starts):
        self.P, self.initial_state_distrib = table, np.array(starts)


def test_an_episode_may_end_where_it_began():
    table = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(0.5, 0, 10.0, True), (0.5, 1, 0.0, False)]}}
    run = solve(from_gym(Table(table, [1.0, 0.0]), discount=0.9), algorithm("vi"), tolerance=1e-12)
    at_one = 0.5 * 10 / (1 - 0.45)
    assert run.values[:2] == pytest.approx([0.9 * at_one, at_one])


def test_what_is_entered_only_from_a_state_of_both_kinds_goes_on():
    ends = [(1.0, 3, 5.0, True)]
    table = {
        0: {0: [(1.0, 1, 0.0, False)], 1: [(1.0, 1, 0.0, True)]},
        1: {0: [(1.0, 2, 0.0, False)], 1: [(1.0, 2, 0.0, True)]},
        2: {0: ends, 1: ends},
        3: {0: [(1.0, 3, 0.0, True)], 1: [(1.0, 3, 0.0, True)]},
    }
    run = solve(from_gym(Table(table, [1.0, 0, 0, 0]), discount=0.9), algorithm("vi"))
    assert run.values[0] == pytest.approx(0.81 * 5)


def test_walls_without_a_way_are_a_mistake():
    with pytest.raises(ValueError, match="had a way to the goal"):
        grid_world(rows=2, columns=200, walls=0.4)
