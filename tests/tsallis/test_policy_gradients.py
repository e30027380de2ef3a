"""Derivatives of the exact policy: against finite differences, theory, and where both are hard."""

import math

import mpmath as mp
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import oracles
from mviq.tsallis import (
    entropy,
    normalizer,
    policy,
    policy_and_normalizer,
    soft_maximum,
    soft_value,
)
from mviq.tsallis.derivative import pull_back

INDICES = (0.3, 0.9, 1.0, 1.0 + 1e-7, 1.2, 1.5, 2.0, 2.5, 3.0, 5.0, 20.0)


def random_values(spread: float = 0.1) -> torch.Tensor:
    values = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    return (spread * values).requires_grad_()


def number(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("q", INDICES)
def test_values_temperature_and_q(q: float) -> None:
    arguments = random_values(), number(q), number(0.8)
    assert gradcheck(policy_and_normalizer, arguments, rtol=1e-3)
    assert gradgradcheck(policy_and_normalizer, arguments, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("q", INDICES)
@pytest.mark.parametrize("spread", [0.1, 1.0])
def test_values_alone(q: float, spread: float) -> None:
    """The path of training: q and temperature are numbers; at the larger spread much is cut."""

    def of_values(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return policy_and_normalizer(values, q, 0.8)

    assert gradcheck(of_values, (random_values(spread),), rtol=1e-3)
    if q <= 5:  # beyond, the finite differences of the first derivative are the worse ones
        assert gradgradcheck(of_values, (random_values(spread),), atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("q", INDICES)
def test_prior(q: float) -> None:
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)

    def of_logits(*arguments: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        values, index, logits = arguments
        return policy_and_normalizer(values, index, 0.8, logits.softmax(-1))

    arguments = random_values(), number(q), logits
    assert gradcheck(of_logits, arguments, rtol=1e-3)
    if q <= 5:  # beyond, the finite differences of the first derivative are the worse ones
        assert gradgradcheck(of_logits, arguments, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0])
def test_a_number_and_a_tensor_give_the_same_gradient(q: float) -> None:
    values, weights = random_values(1.0), torch.randn(3, 5, dtype=torch.float64)
    by_rows, by_tensors = (
        torch.autograd.grad((policy(values, index, 0.5) * weights).sum(), values)[0]
        for index in (q, torch.tensor(q, dtype=torch.float64))
    )
    torch.testing.assert_close(by_rows, by_tensors)


@pytest.mark.parametrize("q", [0.5, 1.0, 1.5, 2.0, 3.0, 8.0])
def test_jacobian_is_the_one_of_theory(q: float) -> None:
    values = torch.tensor([0.3, 0.25, 0.2, -0.5], dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda x: policy(x, q), values)
    chosen = policy(values, q)
    w = torch.where(chosen > 0, chosen.clamp(min=1e-300).pow(2 - q), 0.0)
    torch.testing.assert_close(jacobian, torch.diag(w) - torch.outer(w, w) / w.sum())
    gradient = torch.autograd.functional.jacobian(lambda x: soft_value(x, q, 1.0), values)
    torch.testing.assert_close(gradient, w / w.sum())


def test_off_the_support_nothing_moves() -> None:
    values = torch.tensor([1.0, 0.9, -5.0], dtype=torch.float64, requires_grad=True)
    for q in (1.5, 2.0, 3.0):
        chosen, psi = policy_and_normalizer(values, q)
        for output in (*chosen, psi):
            (gradient,) = torch.autograd.grad(output, values, retain_graph=True)
            assert gradient[2] == 0
        assert torch.autograd.grad(chosen[2], values)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("lowest", [-10.0, -math.inf])
def test_entropy_of_a_policy_that_underflows(q: float, lowest: float) -> None:
    values = torch.tensor([1.0, lowest, 0.99], dtype=torch.float64, requires_grad=True)
    for index in (q, torch.tensor(q, dtype=torch.float64)):
        disorder = entropy(policy(values, index, 0.03), q)
        (gradient,) = torch.autograd.grad(disorder, values, create_graph=True)
        (second,) = torch.autograd.grad(gradient[0], values)
        rest = values.detach()[[0, 2]].requires_grad_()
        (alone,) = torch.autograd.grad(entropy(policy(rest, q, 0.03), q), rest)
        torch.testing.assert_close(gradient.detach()[[0, 2]], alone)
        assert gradient[1].abs() < 1e-100
        assert second.isfinite().all()


@pytest.mark.parametrize("q", [50.0, 200.0])
def test_slopes_beyond_the_largest_number(q: float) -> None:
    gap = 0.9999999 / (q - 1)
    values = torch.tensor([0.0, -gap, -gap], dtype=torch.float64, requires_grad=True)
    for index in (q, torch.tensor(q, dtype=torch.float64)):
        (gradient,) = torch.autograd.grad(policy(values, index)[0], values)
        torch.testing.assert_close(gradient[1:], -gradient[:1] / 2 * torch.ones(2).double())
        assert gradient.isfinite().all()


def test_unavailable_actions_leave_gradients_finite() -> None:
    values = torch.tensor([1.0, -math.inf, 0.7], dtype=torch.float64, requires_grad=True)
    for q in (0.5, 1.0, 2.0, 3.0):
        index, temperature = number(q), number(0.5)
        total = soft_maximum(values, index, temperature) + normalizer(values, index, temperature)
        leaves = (values, index, temperature)
        gradients = torch.autograd.grad(total, leaves, create_graph=True)
        second = torch.autograd.grad(gradients[2], leaves)
        assert all(gradient.isfinite().all() for gradient in second)
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert gradients[0][1] == 0


def test_first_grain_of_prior() -> None:
    """The derivative in a prior of zero is what the first grain of it would change."""
    values, prior = torch.tensor([0.2, 0.1]).double(), torch.tensor([1.0, 0.0]).double()
    prior.requires_grad_()
    for q in (1.0, 1.5, 2.0, 3.0):
        grain = 1e-7
        moved = torch.tensor([1 - grain, grain]).double()
        change = (policy(values, q, prior=moved)[1] / grain).item()
        gradient = torch.autograd.grad(policy(values, q, prior=prior)[1], prior)[0]
        assert (gradient[1] - gradient[0]).item() == pytest.approx(change, rel=1e-4)


@pytest.mark.parametrize("q", [5.0, 20.0, 50.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_q_where_one_slope_dwarfs_the_others(q: float, dtype: torch.dtype) -> None:
    """For two actions the Jacobian is w1 w2/(w1 + w2), though w1 and w2 are far apart."""
    gap = 0.5 / (q - 1)
    values = torch.tensor([0.0, -gap], dtype=dtype, requires_grad=True)
    chosen, _ = oracles.exact_policy(values.tolist(), q)
    w1, w2 = (mp.mpf(p) ** (2 - mp.mpf(q)) for p in chosen)
    exact = float(w1 * w2 / (w1 + w2))
    (gradient,) = torch.autograd.grad(policy(values, q)[0], values)
    assert gradient.tolist() == pytest.approx([exact, -exact], rel=200 * torch.finfo(dtype).eps)
    tensor = torch.tensor(q, dtype=dtype)
    (again,) = torch.autograd.grad(policy(values, tensor)[0], values)
    assert again.tolist() == pytest.approx([exact, -exact], rel=200 * torch.finfo(dtype).eps)


def test_greedy_policy_is_constant_and_its_normaliser_the_maximum() -> None:
    for q in (math.inf, torch.tensor(math.inf, dtype=torch.float64)):
        values = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64, requires_grad=True)
        chosen, psi = policy_and_normalizer(values, q)
        assert torch.autograd.grad(chosen[1], values, retain_graph=True)[0].tolist() == [0, 0, 0]
        assert torch.autograd.grad(psi, values)[0].tolist() == [0, 1, 0]


@given(
    q=st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 30.0, math.inf]),
    seed=st.integers(0, 10_000),
    psi=st.booleans(),
)
def test_compiled_gradient_is_the_written_out_one(q: float, seed: int, psi: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(4, 6, dtype=torch.float64, generator=generator, requires_grad=True)
    chosen, normaliser = policy_and_normalizer(values, q, 0.9)
    outer = torch.randn(4, 6, dtype=torch.float64, generator=generator)
    inner = torch.randn(4, dtype=torch.float64, generator=generator) if psi else torch.zeros(4)
    (compiled,) = torch.autograd.grad([chosen, normaliser], values, [outer, inner.double()])
    written_out, _ = pull_back(outer, inner.double(), chosen.detach(), None, q)
    torch.testing.assert_close(compiled, written_out / 0.9)


def test_no_graph_is_kept_where_no_gradient_is_asked() -> None:
    values = torch.randn(3, 4)
    for q in (1.0, 1.5, 2.0, 3.0, torch.tensor(2.5)):
        assert policy(values, q).grad_fn is None
        assert soft_value(values, q).grad_fn is None
        with torch.no_grad():
            assert policy(values.clone().requires_grad_(), q).grad_fn is None
        assert policy(values.clone().requires_grad_(), q).grad_fn is not None


def test_half_precision_gradient() -> None:
    values = torch.tensor([1.0, 0.5, -0.2], dtype=torch.bfloat16, requires_grad=True)
    (gradient,) = torch.autograd.grad(policy(values, 2)[0], values)
    assert gradient.dtype == torch.bfloat16
    assert gradient.tolist() == [0.5, -0.5, 0]


def test_function_transforms_work_with_q_as_a_tensor() -> None:
    values, q = random_values(1.0).detach(), torch.tensor(3.0, dtype=torch.float64)

    def total(x: torch.Tensor) -> torch.Tensor:
        return soft_maximum(x, q).sum()

    leaf = values.clone().requires_grad_()
    (expected,) = torch.autograd.grad(total(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(total)(values), expected)
