"""The O(N log N) loss against sb3-contrib's pairwise one, in value and gradient."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib.common.utils import quantile_huber_loss as sb3_contrib_loss

from mviq.agents import quantile_huber_loss
from mviq.agents.losses import on_any_device


def midpoints(quantiles):
    """The usual fractions, not rounded to single precision."""
    return ((torch.arange(quantiles, dtype=torch.float64) + 0.5) / quantiles).unsqueeze(0)


def pairwise(predicted, target, fractions=None):
    """sb3-contrib's loss."""
    fractions = midpoints(predicted.shape[1]) if fractions is None else fractions
    return sb3_contrib_loss(predicted, target, fractions.unsqueeze(-1))


def gradient(loss, predicted):
    return torch.autograd.grad(loss, predicted)[0]


@settings(deadline=None, max_examples=60)
@given(
    batch=st.integers(1, 5),
    predicted=st.integers(1, 40),
    targets=st.integers(1, 40),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    offset=st.sampled_from([0.0, 1e3]),
    seed=st.integers(0, 1000),
    ties=st.booleans(),
)
def test_equals_the_pairwise_loss(batch, predicted, targets, scale, offset, seed, ties):
    generator = torch.Generator().manual_seed(seed)
    theta = scale * torch.randn(batch, predicted, generator=generator, dtype=torch.float64)
    y = scale * torch.randn(batch, targets, generator=generator, dtype=torch.float64)
    if ties:  # also exactly at the kinks, where |y − θ| is 0 or 1
        theta, y = theta.round(), y.round()
    theta, y = (theta + offset).requires_grad_(), y + offset
    expected = pairwise(theta, y)
    for value, slope in (
        ((found := quantile_huber_loss(theta, y)), gradient(found, theta)),
        on_any_device(theta, y, midpoints(predicted)),
    ):
        torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(slope, gradient(pairwise(theta, y), theta), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 6])
def test_fractions_of_all_or_of_each_prediction_may_be_given(rows, dtype):
    torch.manual_seed(0)
    theta, y = torch.randn(6, 8, dtype=dtype, requires_grad=True), torch.randn(6, 5, dtype=dtype)
    fractions = torch.rand(rows, 8)
    ours, theirs = quantile_huber_loss(theta, y, fractions), pairwise(theta, y, fractions)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, theta), gradient(theirs, theta))


def test_single_precision_is_as_exact_as_the_pairwise_loss():
    torch.manual_seed(0)
    theta, y = torch.randn(32, 200, requires_grad=True), 100 + torch.randn(32, 200)
    expected = gradient(pairwise(theta.double(), y.double()), theta)
    assert (gradient(quantile_huber_loss(theta, y), theta) - expected).abs().max() < 1e-9


def test_equals_sb3_contrib_as_it_is():
    torch.manual_seed(0)
    theta, y = torch.randn(8, 50, requires_grad=True), 2 * torch.randn(8, 50)
    ours, theirs = quantile_huber_loss(theta, y), sb3_contrib_loss(theta, y)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, theta), gradient(theirs, theta))


def test_scales_with_the_incoming_gradient():
    theta, y = torch.zeros(2, 3, requires_grad=True), torch.ones(2, 3)
    twice = gradient(2 * quantile_huber_loss(theta, y), theta)
    assert torch.equal(twice, 2 * gradient(quantile_huber_loss(theta, y), theta))


def test_names_wrong_shapes():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(4, 3\)"):
        quantile_huber_loss(torch.zeros(2, 3), torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"\(2, 3\), or one row of it, got \(2, 4\)"):
        quantile_huber_loss(torch.zeros(2, 3), torch.zeros(2, 3), torch.rand(2, 4))


@pytest.mark.parametrize("wrong", [float("inf"), -float("inf"), float("nan")])
def test_targets_that_are_no_numbers_make_no_loss_that_is_one(wrong):
    predicted, target = torch.randn(3, 8), torch.randn(3, 5)
    target[1] = wrong
    assert not quantile_huber_loss(predicted, target).isfinite()
    assert not quantile_huber_loss(target, predicted).isfinite()
