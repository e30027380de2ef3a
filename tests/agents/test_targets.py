"""The one target: against published formulas, hand calculation, and its own scalar form."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import log_softmax, softmax

from mviq.agents import MVI, bellman_target
from mviq.agents.compiled import family_numbers
from mviq.agents.kernels.targets import bellman
from mviq.tsallis import FAMILY, Family
from problems import TableMDP

BATCH, ACTIONS = 16, 5


def batch(outcomes, seed=0):
    """Return outcomes at s' and s, rewards, actions and whether episodes terminated."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(2, BATCH, outcomes, ACTIONS, generator=generator) / 10
    rewards = torch.randn(BATCH, 1, generator=generator)
    actions = torch.randint(ACTIONS, (BATCH, 1), generator=generator)
    terminated = (torch.rand(BATCH, 1, generator=generator) < 0.3).float()
    return values, rewards, actions, terminated


def test_munchausen_dqn_of_vieillard_et_al():
    """Their formula written out: r + α clip(τ log π) + γ (1 − d) Σ π (Q − τ log π)."""
    tau, alpha, low, gamma = 0.03, 0.9, -1.0, 0.99
    values, rewards, actions, terminated = batch(1)
    following, current = (q.squeeze(1) for q in values)
    log_pi = log_softmax(current / tau, -1).gather(1, actions)
    pi, log_pi_next = softmax(following / tau, -1), log_softmax(following / tau, -1)
    soft = (pi * (following - tau * log_pi_next)).sum(-1, keepdim=True)
    expected = rewards + alpha * (tau * log_pi).clamp(low, 0) + gamma * (1 - terminated) * soft
    found = bellman_target(FAMILY["m-vi"], rewards, actions, terminated, gamma, *values)
    torch.testing.assert_close(found, expected)


FAMILIES = given(
    q=st.sampled_from([1.0, 1.5, 2.0, 3.0, 10.0, math.inf]),
    form=st.sampled_from(["gap", "log", "truncated_log"]),
    alpha=st.sampled_from([0.0, 0.9]),
    temperature=st.sampled_from([0.03, 1.0]),
    entropy_weight=st.sampled_from([0.0, 0.5, 1.0]),
    seed=st.integers(0, 100),
)


@settings(deadline=None, max_examples=30)
@FAMILIES
def test_compiled_targets_are_the_equations_of_the_family(
    q, form, alpha, temperature, entropy_weight, seed
):
    """One discount for all or one each."""
    clip = (-0.5, 0.01) if seed % 2 else None
    family = Family(q, temperature, alpha, form, clip, entropy_weight)
    samples = 1 + 4 * (seed % 3)
    values, rewards, actions, terminated = batch(samples, seed)
    discounts = torch.rand(BATCH, 1) if seed % 5 else torch.tensor(0.9)
    expected = bellman_target(family, rewards, actions, terminated, discounts, *values)
    columns = (values if alpha else values[:1]).permute(2, 3, 0, 1).reshape(samples * ACTIONS, -1)
    transitions = tuple(x.numpy().reshape(-1) for x in (rewards, terminated, discounts))
    found = torch.empty_like(expected)
    outcomes, chosen = columns.contiguous().numpy(), actions.numpy().reshape(-1)
    bellman(family_numbers(family), transitions, chosen, outcomes, found.numpy())
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("action", [ACTIONS, -1, 2**40])
def test_an_action_that_is_not_there_is_refused(action):
    values, rewards, actions, terminated = batch(1)
    actions[3] = action
    with pytest.raises(RuntimeError, match="out of bounds"):
        bellman_target(Family(), rewards, actions, terminated, 0.9, *values)


def test_one_flag_and_one_discount_for_all_and_a_gradient():
    values, rewards, actions, _ = batch(1)
    rest = Family(), rewards, actions
    all_alike = torch.zeros(BATCH, 1), torch.full((BATCH, 1), 0.9)
    found = bellman_target(*rest, torch.zeros(1, 1), torch.tensor(0.9), *values)
    torch.testing.assert_close(found, bellman_target(*rest, *all_alike, *values))
    learnt = values[1].clone().requires_grad_()
    assert bellman_target(*rest, *all_alike, values[0], learnt).requires_grad


@settings(deadline=None, max_examples=30)
@FAMILIES
def test_the_mean_quantile_target_is_the_scalar_target(
    q, form, alpha, temperature, entropy_weight, seed
):
    family = Family(q, temperature, alpha, form, entropy_weight=entropy_weight)
    values, *rest = batch(7, seed)
    quantile = bellman_target(family, *rest, 0.9, *values)
    scalar = bellman_target(family, *rest, 0.9, *values.mean(2, keepdim=True))
    assert quantile.shape == (BATCH, 7)
    torch.testing.assert_close(quantile.mean(1, keepdim=True), scalar)


def test_greedy_is_the_target_of_dqn():
    (following, _), rewards, actions, terminated = batch(1)
    found = bellman_target(FAMILY["vi"], rewards, actions, terminated, 0.9, following)
    best = following.amax(-1)
    assert torch.equal(found, rewards + (1 - terminated) * 0.9 * best)


def test_by_hand():
    """q = 2, τ = 1, Q = (1, ½, −⅕): π = (¾, ¼, 0), ⟨π,Q⟩ = ⅞, S = ⅜; α(½ − ⅞) = −⅜·0.8."""
    values = torch.tensor([[[1.0, 0.5, -0.2]]])
    one = torch.ones(1, 1)
    family = Family(2.0, 1.0, munchausen_alpha=0.8)
    found = bellman_target(family, 2 * one, one.long(), 0 * one, 0.5, values, values)
    torch.testing.assert_close(found, torch.tensor([[2 - 0.3 + 0.5 * (0.875 + 0.375)]]))


def test_a_terminated_state_has_no_future_but_a_munchausen_term():
    (following, current), rewards, actions, _ = batch(3)
    over = torch.ones(BATCH, 1)
    family = Family(q=2.0, temperature=0.5)
    found = bellman_target(family, rewards, actions, over, 0.99, following, current)
    now = current.mean(1)
    bonus = family.munchausen(now, family.evaluate(now)).gather(1, actions)
    torch.testing.assert_close(found, (rewards + bonus).expand(-1, 3))


def test_asks_for_the_states_that_munchausen_needs():
    (following, _), rewards, actions, terminated = batch(1)
    with pytest.raises(ValueError, match="needs the outcomes at s, got None"):
        bellman_target(Family(), rewards, actions, terminated, 0.9, following)


# Three-step returns by hand. q = 2, τ = 1, γ = ½, α = 0.8, and the target network has at states
# s0 … s4 the values below, so that at s0  π = (¾, ¼), ⟨π,Q⟩ = ⅞, and action 1 has m = ½ − ⅞ = −⅜;
# at s3 (2, 0): greedy, value 2, no entropy; at s4 (1, 1): uniform, value 1 + τ(1 − ½) = 1½.
N_STEP_VALUES = [[1.0, 0.5], [7.0, 7.0], [2.0, 0.0], [2.0, 0.0], [1.0, 1.0]]
N_STEP_TRANSITIONS = [  # s, a, r, s', done, truncated
    (0, 1, 1.0, 1, 0, 0),
    (1, 0, 2.0, 2, 0, 0),
    (2, 0, 4.0, 3, 0, 0),
    (3, 0, 9.0, 3, 0, 0),
]
MUNCHAUSEN = 0.8 * (0.5 - 0.875)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # nothing ends: r + γr' + γ²r'' + γ³ V(s3), with the Munchausen term of s0 only
        ([], 1 + 1 + 1 + MUNCHAUSEN + 0.125 * 2),
        # terminated at the second step: no future, and the third reward is of another episode
        ([(1, 0, 2.0, 4, 1, 0)], 1 + 1 + MUNCHAUSEN),
        # truncated at the second step: the future is that of the last observation, two steps on
        ([(1, 0, 2.0, 4, 1, 1)], 1 + 1 + MUNCHAUSEN + 0.25 * 1.5),
        # terminated at the first step, and truncated at it
        ([(0, 1, 1.0, 4, 1, 0)], 1 + MUNCHAUSEN),
        ([(0, 1, 1.0, 4, 1, 1)], 1 + MUNCHAUSEN + 0.5 * 1.5),
    ],
    ids=["whole", "terminated", "truncated", "terminated at once", "truncated at once"],
)
def test_three_step_returns_by_hand(change, expected):
    agent = MVI(
        "MlpPolicy",
        TableMDP(np.zeros((5, 2)), np.zeros((5, 2), int)),
        q=2.0,
        temperature=1.0,
        munchausen_alpha=0.8,
        gamma=0.5,
        n_steps=3,
        buffer_size=10,
        policy_kwargs={"net_arch": []},
        device="cpu",
    )
    one_hot = np.eye(5, dtype=np.float32)
    steps = {step[0]: step for step in N_STEP_TRANSITIONS + change}.values()
    for now, action, reward, then, done, truncated in steps:
        infos = [{"TimeLimit.truncated": bool(truncated)}]
        columns = (np.array([value]) for value in (action, reward, done))
        agent.replay_buffer.add(one_hot[[now]], one_hot[[then]], *columns, infos)
    samples = agent.replay_buffer._get_samples(np.array([0]))
    values = torch.tensor(N_STEP_VALUES)
    found = bellman_target(
        *(agent.family, samples.rewards, samples.actions, samples.dones, samples.discounts),
        *(
            (states @ values).unsqueeze(1)
            for states in (samples.next_observations, samples.observations)
        ),
    )
    assert found.item() == pytest.approx(expected, rel=1e-6)
