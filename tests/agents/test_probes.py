"""Learning itself, on problems whose answer is known."""

import math

import pytest
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from mviq.agents import MVI, QRMVI, PrioritizedReplayBuffer
from mviq.tsallis import Family
from problems import TableMDP, fixed_point, learnt

AGENTS = pytest.mark.parametrize("cls", [MVI, QRMVI])


def bandit():
    return TableMDP([[1.0, 0.5, 0.0]], [[-1, -1, -1]])


def assert_near(found, expected, tolerance=0.03):
    expected = torch.as_tensor(expected, dtype=found.dtype)
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@AGENTS
def test_a_bandit_without_regularisation_has_the_values_of_its_rewards(cls):
    found = learnt(cls, bandit(), q=math.inf, munchausen_alpha=0.0)
    assert_near(found, [[1.0, 0.5, 0.0]])


class Coin(TableMDP):
    """Pays 1 in three of ten cases."""

    def step(self, action):
        observation, reward, *end = super().step(action)
        return observation, reward * (self.np_random.random() < 0.3), *end


def test_importance_weights_undo_what_priorities_do_to_the_mean_of_rewards():
    """Without them, transitions drawn in proportion to |r − Q| have their balance at Q = 0.396."""
    arguments = {"exponent": 1.0, "beta": 1.0}
    options = {"replay_buffer_class": PrioritizedReplayBuffer, "replay_buffer_kwargs": arguments}
    coin = Coin([[1.0]], [[-1]])
    found = learnt(MVI, coin, q=math.inf, munchausen_alpha=0.0, **options)
    assert_near(found, [[0.3]], 0.04)


@AGENTS
def test_munchausen_widens_the_gaps_of_a_bandit_by_one_over_one_minus_alpha(cls):
    """At small τ the policy is greedy, Q = r* + (r − r*)/(1 − α)."""
    found = learnt(cls, bandit(), q=2.0, temperature=0.03, munchausen_alpha=0.5)
    assert_near(found, [[1.0, 0.0, -1.0]])


def test_two_steps_are_discounted_once():
    chain = TableMDP([[0.0, 0.0], [1.0, -1.0]], [[1, 1], [-1, -1]])
    found = learnt(MVI, chain, gamma=0.8, q=math.inf, munchausen_alpha=0.0)
    assert_near(found, [[0.8, 0.8], [1.0, -1.0]])


def test_n_step_returns_reach_the_same_values_on_a_chain_without_choice():
    chain = TableMDP([[1.0], [2.0], [4.0]], [[1], [2], [-1]])
    found = learnt(MVI, chain, gamma=0.5, n_steps=3, munchausen_alpha=0.0)
    assert_near(found, [[3.0], [4.0], [4.0]])


@pytest.mark.parametrize(("after", "limit", "value"), [(-1, None, 1.0), (0, 1, 5.0)])
def test_truncation_has_a_future_and_termination_none(after, limit, value):
    """A reward of 1 at every step: 1 if the end is real, 1/(1 − γ) if it is a time limit."""
    endless = TableMDP([[1.0]], [[after]], limit=limit)
    found = learnt(MVI, endless, gamma=0.8, munchausen_alpha=0.0)
    assert_near(found, [[value]])


@pytest.mark.parametrize(
    "family",
    [
        Family(q=1.0, temperature=0.5, munchausen_alpha=0.5, form="log"),
        Family(q=2.0, temperature=0.5, munchausen_alpha=0.5),
        Family(q=3.0, temperature=1.0, munchausen_alpha=0.3, entropy_weight=1 / 3),
        Family(q=2.0, temperature=0.5, munchausen_alpha=0.5, form="truncated_log"),
        Family(q=3.0, temperature=0.5, munchausen_alpha=0.5, policy_method="taylor"),
    ],
    ids=lambda family: f"{family.form}-{family.q:g}-{family.policy_method}",
)
def test_the_regularised_fixed_point_is_learnt(family):
    problem = TableMDP(
        [[1.0, 0.2], [0.0, 0.6], [-0.5, 0.3]], [[1, 2], [2, 0], [0, 1]], limit=20, start=None
    )
    expected = fixed_point(family, problem, gamma=0.8)
    options = vars(family)
    found = learnt(MVI, problem, gamma=0.8, updates=2500, **options)
    assert_near(found, expected, 0.05)
    # The regularisation is visible: without it the values are others.
    plain = fixed_point(Family(q=math.inf, munchausen_alpha=0.0), problem, gamma=0.8)
    assert (plain - expected).abs().max() > 0.2


@pytest.mark.learning
@AGENTS
def test_cartpole_is_learnt(cls):
    """Table 1's setting passes 195, CartPole-v0's mark, in a tenth of the paper's steps."""
    quantiles = {"n_quantiles": 20} if cls is QRMVI else {}
    agent = cls(
        "MlpPolicy",
        "CartPole-v1",
        q=2.0,
        temperature=0.03,
        munchausen_alpha=0.9,
        learning_rate=1e-3,
        batch_size=128,
        buffer_size=50_000,
        learning_starts=500,
        target_update_interval=100,
        exploration_initial_eps=0.01,
        exploration_final_eps=0.01,
        policy_kwargs={"net_arch": [256, 256]} | quantiles,
        seed=0,
        device="cpu",
    )
    env = make_vec_env("CartPole-v1", seed=1)
    while agent.num_timesteps < 25_000:
        agent.learn(2_500, reset_num_timesteps=False)
        if evaluate_policy(agent, env, n_eval_episodes=5)[0] > 195:
            return
    pytest.fail(f"not learnt within {agent.num_timesteps} steps")
