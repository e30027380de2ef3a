"""Derivatives that once were wrong: strided values, zeros, priors at q = 1."""

import math

import pytest
import torch

from mviq.tsallis import (
    divergence,
    entropy,
    munchausen_residual,
    policy,
    policy_and_normalizer,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0])
def test_the_gradient_does_not_depend_on_the_layout(q):
    z = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = torch.arange(3.0, dtype=torch.float64)
    found = []
    for values in (z.T.contiguous().requires_grad_(), z.clone().requires_grad_()):
        rows = values if values.shape == (4, 3) else values.T
        (policy(rows, q) * weights).sum().backward()
        found.append(values.grad if values.shape == (4, 3) else values.grad.T)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("q", [0.7, 1.0, 1.5, 2.0])
def test_the_divergence_of_a_policy_with_zeros_has_a_gradient_in_the_prior(q):
    chosen = torch.tensor([0.75, 0.25, 0.0], dtype=torch.float64)

    def of_logits(logits):
        return divergence(chosen, logits.softmax(-1), q)

    logits = torch.tensor([0.1, -0.3, 0.4], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(of_logits, logits)
    forward = torch.func.jacfwd(of_logits)(logits.detach())
    torch.testing.assert_close(forward, torch.func.jacrev(of_logits)(logits.detach()))


@pytest.mark.parametrize(("q", "small", "expected"), [(2.0, 1e-20, 1e20), (1.5, 1e-30, 2e15)])
def test_a_large_divergence_is_not_infinite(q, small, expected):
    found = divergence(torch.tensor([1.0, 0.0]), torch.tensor([small, 1.0]), q)
    assert float(found) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("q", [0.5, 1.0])
def test_forward_and_reverse_mode_in_q_agree_for_a_certain_action(q):
    def of_q(x):
        return entropy(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64), x)

    at = torch.tensor(q, dtype=torch.float64)
    assert float(torch.func.jacfwd(of_q)(at)) == float(torch.func.jacrev(of_q)(at)) == 0


def test_the_residual_of_an_action_that_is_not_taken_is_zero():
    chosen = torch.tensor([1.0, 0.0])
    found = munchausen_residual(chosen, torch.tensor([0.5, 0.5]), 15.0, floor=1e-3)
    assert math.isfinite(munchausen_residual(chosen, chosen, 15.0))
    assert float(found) == 0


@pytest.mark.parametrize("values", [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0]])
def test_a_greedy_policy_follows_its_prior_where_values_are_equal(values):
    z = torch.tensor(values, dtype=torch.float64)

    def of_prior(prior):
        return policy_and_normalizer(z, math.inf, prior=prior)

    prior = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64, requires_grad=True)
    pi, psi = of_prior(prior)
    tied = z == z.max()
    expected = torch.where(tied, prior, 0.0) / prior[tied].sum()
    torch.testing.assert_close(pi, expected)
    weights = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    (found,) = torch.autograd.grad(((pi * weights).sum() + psi).sum(), prior)
    (theory,) = torch.autograd.grad((expected * weights).sum(), prior)
    torch.testing.assert_close(found, theory)
    jacobians = (
        torch.func.jacfwd(of_prior)(prior.detach()),
        torch.func.jacrev(of_prior)(prior.detach()),
    )
    torch.testing.assert_close(*jacobians)
