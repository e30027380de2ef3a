"""Entropy, divergence and the Munchausen residual: definitions, bounds, limits, derivatives."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.distributions import Categorical, kl_divergence

from mviq.tsallis import divergence, entropy, log_q, munchausen_residual

indices = st.one_of(st.sampled_from([0.5, 1.0, 2.0, 3.0]), st.floats(0.05, 30.0))


@st.composite
def distributions(draw: st.DrawFn, count: int = 1) -> list[torch.Tensor]:
    size = draw(st.integers(1, 8))
    weights = st.lists(st.floats(1e-3, 1.0), min_size=size, max_size=size)
    rows = [torch.tensor(draw(weights), dtype=torch.float64) for _ in range(count)]
    return [row / row.sum() for row in rows]


@given(pair=distributions(1), q=indices)
def test_entropy_is_its_definition_between_zero_and_uniform(
    pair: list[torch.Tensor], q: float
) -> None:
    (policy,) = pair
    result = entropy(policy, q)
    if abs(q - 1) > 1e-3:
        torch.testing.assert_close(result, (1 - (policy**q).sum()) / (q - 1), rtol=1e-9, atol=1e-11)
    uniform = torch.full_like(policy, 1 / len(policy))
    assert -1e-14 <= result <= entropy(uniform, q) + 1e-12
    torch.testing.assert_close(entropy(uniform, q), -log_q(uniform[0], q))


@given(pair=distributions(2), q=indices)
def test_divergence_is_its_definition_and_not_negative(pair: list[torch.Tensor], q: float) -> None:
    policy, prior = pair
    result = divergence(policy, prior, q)
    if abs(q - 1) > 1e-3:
        written_out = ((policy**q * prior ** (1 - q)).sum() - 1) / (q - 1)
        torch.testing.assert_close(result, written_out, rtol=1e-9, atol=1e-11)
    assert result >= -1e-12
    assert divergence(policy, policy, q).abs() <= 1e-14
    if (policy - prior).abs().max() > 1e-3:
        assert result > 0


def test_limits_and_special_cases() -> None:
    policy, prior = torch.rand(2, 5, dtype=torch.float64).softmax(-1)
    shannon = Categorical(policy).entropy()
    kl = kl_divergence(Categorical(policy), Categorical(prior))
    torch.testing.assert_close(entropy(policy, 1), shannon)
    torch.testing.assert_close(entropy(policy, 1 + 1e-9), shannon)
    torch.testing.assert_close(divergence(policy, prior, 1), kl)
    torch.testing.assert_close(divergence(policy, prior, 1 - 1e-9), kl)
    chi_squared = ((policy - prior) ** 2 / prior).sum()
    torch.testing.assert_close(divergence(policy, prior, 2), chi_squared)
    assert entropy(policy, math.inf) == 0
    assert divergence(policy, prior, math.inf) == math.inf
    assert divergence(policy, policy, math.inf) == 0


@pytest.mark.parametrize("q", [0.5, 1.0, 2.0, 5.0])
def test_zero_probabilities(q: float) -> None:
    certain, even = torch.tensor([1.0, 0.0]), torch.tensor([0.5, 0.5])
    assert entropy(certain, q) == 0
    assert divergence(even, certain, q) == math.inf
    assert divergence(certain, certain, q) == 0
    assert divergence(certain, even, q).isfinite()


def test_index_broadcasts_over_the_batch() -> None:
    policy, prior = torch.rand(2, 4, 5, dtype=torch.float64).softmax(-1)
    q = torch.tensor([1.0, 2.0, 3.5], dtype=torch.float64).unsqueeze(-1)
    assert entropy(policy, q).shape == (3, 4)
    torch.testing.assert_close(divergence(policy, prior, q)[2], divergence(policy, prior, 3.5))
    torch.testing.assert_close(
        munchausen_residual(policy, prior, q)[1], munchausen_residual(policy, prior, 2.0)
    )


@pytest.mark.parametrize("q", [0.6, 1.0, 1.7, 2.0, 4.0])
def test_derivatives(q: float) -> None:
    logits = torch.randn(2, 3, 4, dtype=torch.float64)
    index = torch.tensor(q, dtype=torch.float64, requires_grad=True)
    first, second = (row.detach().requires_grad_() for row in logits)

    def of_logits(
        x: torch.Tensor, y: torch.Tensor, index: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        policy, prior = x.softmax(-1), y.softmax(-1)
        return entropy(policy, index), divergence(policy, prior, index)

    assert gradcheck(of_logits, (first, second, index))


def test_derivative_of_entropy_at_probability_zero() -> None:
    policy = torch.tensor([1.0, 0.0], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(entropy(policy, 3.0), policy)
    assert gradient.tolist() == [(1 - 3) / 2, 1 / 2]  # (1 − q π^(q−1))/(q−1)


def test_half_precision_is_computed_in_single_precision() -> None:
    policy = torch.full((64,), 1 / 64, dtype=torch.bfloat16)
    assert entropy(policy, 1).dtype == torch.bfloat16
    assert entropy(policy, 1).item() == pytest.approx(math.log(64), rel=2**-8)


def test_half_precision_divergence_does_not_overflow() -> None:
    policy, prior = torch.tensor([0.99, 0.01]).half(), torch.tensor([0.001, 0.999]).half()
    exact = (policy.double() ** 2 / prior.double()).sum().item() - 1
    assert divergence(policy, prior, 2).item() == pytest.approx(exact, rel=1e-3)


def test_residual_is_its_definition() -> None:
    policy = torch.tensor([0.7, 0.3, 0.0], dtype=torch.float64)
    previous = torch.tensor([0.2, 0.8, 0.0], dtype=torch.float64)
    for q in (1.5, 2.0, 5.0):
        floored = previous.clamp(min=1e-3)
        terms = (1 - policy ** (q - 1)) * (floored ** (1 - q) - 1) / (q - 1)
        torch.testing.assert_close(munchausen_residual(policy, previous, q), (policy * terms).sum())
    assert munchausen_residual(policy, previous, 1) == 0
