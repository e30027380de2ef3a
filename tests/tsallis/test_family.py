"""The family: its Munchausen forms, the identities that tie them, and its peers' formulas."""

import math

import numpy as np
import pytest
import torch

from mviq.tsallis import (
    FAMILY,
    Family,
    entropy,
    log_q,
    log_q_physics,
    named,
    normalizer,
    policy,
    soft_value,
    taylor_policy,
)

Q_VALUES = 3 * torch.randn(200, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
INDICES = [1.0, 1.3, 2.0, 3.0, 10.0, math.inf]


@pytest.mark.parametrize("q", INDICES)
@pytest.mark.parametrize("temperature", [0.03, 1.0, 10.0])
def test_gap_exceeds_the_log_by_the_entropy_for_every_action(q: float, temperature: float) -> None:
    gap, log = (Family(q, temperature, 1.0, form) for form in ("gap", "log"))
    at = gap.evaluate(Q_VALUES)
    difference = gap.munchausen(Q_VALUES, at) - log.munchausen(Q_VALUES, at)
    bonus = temperature * entropy(policy(Q_VALUES, q, temperature), q)
    torch.testing.assert_close(difference, bonus.unsqueeze(-1).expand_as(difference))
    psi = normalizer(Q_VALUES, q, temperature).unsqueeze(-1)
    torch.testing.assert_close(
        log.munchausen(Q_VALUES, at), Q_VALUES - temperature * psi, rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("q", INDICES)
@pytest.mark.parametrize("temperature", [0.03, 1.0, 10.0])
def test_bootstrap_is_the_soft_value(q: float, temperature: float) -> None:
    family = Family(q, temperature)
    expected = soft_value(Q_VALUES, q, temperature)
    torch.testing.assert_close(family.bootstrap(family.evaluate(Q_VALUES)), expected)


@pytest.mark.parametrize("q", [1.0, 2.0, 4.0])
def test_entropy_weight_of_one_over_q_is_the_conjugate(q: float) -> None:
    """⟨π,Q⟩ + (τ/q) S_q(π) is the maximum of the objective of the greedy step."""
    family = Family(q, 0.7, entropy_weight=1 / q)
    maximum = family.bootstrap(family.evaluate(Q_VALUES))
    others = torch.rand(200, 6, dtype=torch.float64).softmax(-1)
    objective = (others * Q_VALUES).sum(-1) + 0.7 / q * entropy(others, q)
    assert (objective <= maximum + 1e-12).all()
    (gradient,) = torch.autograd.grad(
        family.bootstrap(family.evaluate(leaf := Q_VALUES.clone().requires_grad_())).sum(), leaf
    )
    torch.testing.assert_close(gradient, policy(Q_VALUES, q, 0.7))  # Danskin


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0])
def test_logarithms_agree_on_the_support_and_differ_off_it(q: float) -> None:
    log, truncated = (Family(q, 1.5, 1.0, form) for form in ("log", "truncated_log"))
    at = log.evaluate(Q_VALUES)
    inside = at.policy > 0
    extended, cut = log.munchausen(Q_VALUES, at), truncated.munchausen(Q_VALUES, at)
    torch.testing.assert_close(extended[inside], cut[inside], rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(cut[inside], 1.5 * log_q(at.policy, q)[inside], rtol=1e-7, atol=1e-7)
    if q > 1:
        assert (cut[~inside] == -1.5 / (q - 1)).all()
        assert (extended[~inside] <= cut[~inside] + 1e-12).all()


def test_naive_log_is_the_physics_logarithm_of_a_floored_policy() -> None:
    family = Family(2.0, 0.5, 1.0, "naive_log")
    at = family.evaluate(Q_VALUES)
    expected = 0.5 * log_q_physics(at.policy.clamp(min=1e-8), 2.0)
    assert torch.equal(family.munchausen(Q_VALUES, at), expected)
    assert expected.min() < -1e7  # the reason why it does not learn


def test_m_vi_is_the_formula_of_its_authors() -> None:
    """Vieillard et al.: r + α clip(τ ln π(a|s), l0, 0) + γ Σ π (q − τ ln π), with stable logs."""
    family = named("m-vi", temperature=0.03)
    at = family.evaluate(Q_VALUES)
    shifted = Q_VALUES - Q_VALUES.max(-1, keepdim=True).values
    log_policy = shifted - 0.03 * torch.logsumexp(shifted / 0.03, -1, keepdim=True)
    torch.testing.assert_close(family.munchausen(Q_VALUES, at), 0.9 * log_policy.clamp(-1, 0))
    softmax = torch.softmax(Q_VALUES / 0.03, -1)
    torch.testing.assert_close(family.bootstrap(at), (softmax * (Q_VALUES - log_policy)).sum(-1))


def test_greedy_members() -> None:
    vi, advantage = FAMILY["vi"], FAMILY["advantage-learning"]
    at = vi.evaluate(Q_VALUES)
    maximum = Q_VALUES.max(-1).values
    assert torch.equal(vi.bootstrap(at), maximum)
    assert (vi.munchausen(Q_VALUES, at) == 0).all()
    expected = 0.9 * (Q_VALUES - maximum.unsqueeze(-1))
    torch.testing.assert_close(advantage.munchausen(Q_VALUES, at), expected)


def test_taylor_method_and_clip() -> None:
    family = Family(3.0, 1.0, 0.5, clip=(-0.1, 0.0), policy_method="taylor")
    at = family.evaluate(Q_VALUES)
    assert torch.equal(at.policy, taylor_policy(Q_VALUES, 3.0))
    term = family.munchausen(Q_VALUES, at)
    assert term.min() >= -0.05
    assert term.max() <= 0


def test_unavailable_actions_stay_out() -> None:
    q_values = torch.tensor([1.0, -math.inf, 0.9])
    for name, family in FAMILY.items():
        at = family.evaluate(q_values)
        assert at.policy[1] == 0, name
        assert family.bootstrap(at).isfinite(), name
        assert not family.munchausen(q_values, at).isnan().any(), name
        assert family.munchausen(q_values, at)[[0, 2]].isfinite().all(), name


def test_numbers_of_numpy_and_whole_numbers_are_numbers() -> None:
    assert Family(q=np.int64(2), temperature=np.float32(1)) == Family(q=2, temperature=1)  # type: ignore[arg-type]
    assert repr(Family(q=2)) == repr(Family(q=2.0))
