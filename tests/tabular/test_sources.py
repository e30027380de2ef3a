"""Generators and Gymnasium: seeded, valid, and with the answers they were made for."""

import gymnasium
import numpy as np
import pytest

from mviq.tabular import (
    MDP,
    chain,
    deep_sea,
    from_gym,
    garnet,
    greedy_policy,
    grid_world,
    lock_in_chain,
    optimal_q_values,
    policy_values,
)


def optimal_value(mdp: MDP) -> float:
    q_values = optimal_q_values(mdp)
    return float(mdp.start @ policy_values(mdp, greedy_policy(q_values)))


@pytest.mark.parametrize("make", [garnet, grid_world])
def test_a_seed_decides_everything(make) -> None:
    first, again, other = make(seed=1), make(seed=1), make(seed=2)
    assert (first.transitions != again.transitions).nnz == 0
    np.testing.assert_array_equal(first.rewards, again.rewards)
    assert (first.transitions != other.transitions).nnz > 0


@pytest.mark.parametrize(("states", "branching"), [(5, 5), (30, 5), (1000, 5), (200_000, 2)])
def test_a_garnet_has_the_branching_asked_for(states: int, branching: int) -> None:
    mdp = garnet(states, actions=2, branching=branching)
    columns = mdp.transitions.indices.reshape(-1, branching)
    assert (np.diff(columns, axis=1) > 0).all()
    assert 0.9 * states < np.unique(columns).size
    assert abs(mdp.rewards.mean()) < 5 / np.sqrt(mdp.rewards.size)


def test_the_answers_of_the_small_ones() -> None:
    assert optimal_value(lock_in_chain()) == pytest.approx(0.95**7 * 20)  # 13.97
    # Deep sea: nine steps right cost 0.001 each, the last one too, and then the treasure.
    cost = sum(0.99**step * 0.001 for step in range(10))
    assert optimal_value(deep_sea(10)) == pytest.approx(0.99**9 - cost)
    assert optimal_value(chain(2, slip=0.0, discount=0.5)) == pytest.approx(1.0)
    assert optimal_value(grid_world(2, 2, slip=0.0, walls=0.0)) == pytest.approx(0.95)


def test_walls_leave_a_way_and_are_not_entered() -> None:
    mdp = grid_world(8, 8, walls=0.4, seed=5)
    assert mdp.grid is not None
    walls = np.array(list(mdp.grid.letters)) == "#"
    assert walls.any()
    assert optimal_value(mdp) > 0
    assert not walls[mdp.transitions.indices].any()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: garnet(4), "branching must be at most"),
        (lambda: garnet(0), "states must be a whole number ≥ 1, got 0"),
        (lambda: chain(slip=2.0), "slip must be a probability"),
        (lambda: grid_world(walls=0.9), "walls must be a fraction"),
        (lambda: from_gym("Blackjack-v1"), "Blackjack-v1 is not tabular"),
        (lambda: from_gym("CartPole-v1"), "CartPole-v1 is not tabular"),
        (lambda: from_gym("NoSuchThing-v1"), "cannot make 'NoSuchThing-v1'"),
        (lambda: from_gym("FrozenLake-v1", ice=1), "cannot make 'FrozenLake-v1'"),
    ],
)
def test_mistakes_are_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("name", "states"), [("FrozenLake-v1", 16), ("CliffWalking-v1", 48), ("Taxi-v4", 501)]
)
def test_the_greedy_policy_earns_its_value_in_the_environment(name: str, states: int) -> None:
    """Play the optimal policy in Gymnasium itself: the discounted return is what we computed."""
    mdp = from_gym(name)
    assert mdp.states == states
    policy = optimal_q_values(mdp).argmax(axis=1)
    environment = gymnasium.make(name, max_episode_steps=2000)
    returns = [episode(environment, policy, mdp.discount, seed) for seed in range(300)]
    error = np.std(returns) / np.sqrt(len(returns))
    assert abs(np.mean(returns) - optimal_value(mdp)) < 4 * error + 1e-9


def episode(environment, policy, discount: float, seed: int) -> float:
    state, _ = environment.reset(seed=seed)
    total, weight, done = 0.0, 1.0, False
    while not done:
        state, reward, terminated, truncated, _ = environment.step(int(policy[state]))
        total, weight, done = total + weight * reward, weight * discount, terminated or truncated
    return total


def test_an_environment_already_made_is_accepted() -> None:
    made = gymnasium.make("FrozenLake-v1", map_name="8x8", is_slippery=False)
    assert from_gym(made).states == 64


def test_chains_of_many_states_are_sparse() -> None:
    for make in (chain, lock_in_chain):
        assert make(states=100_000).transitions.nnz <= 400_000
