"""The paper's Taylor policy: its rule, where it is exact, and how far off it is elsewhere."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from mviq.tsallis import Family, log_q, normalizer, policy, taylor_policy


def by_the_rule(z: list[float], q: float) -> list[float]:
    """Follow the printed algorithm literally, one row in plain Python."""
    ordered = sorted(z, reverse=True)
    sizes = [
        i
        for i in range(1, len(z) + 1)
        if 1 + i * ordered[i - 1] > sum(ordered[:i]) + i * (1 - 1 / (q - 1))
    ]
    size = max(sizes)
    psi = (sum(ordered[:size]) - 1) / size + 1
    weights = [max(1 + (q - 1) * (x - psi), 0) ** (1 / (q - 1)) for x in z]
    return [w / sum(weights) for w in weights]


@pytest.mark.parametrize("q", [1.1, 1.5, 2.0, 2.5, 3.0, 5.0, 20.0])
def test_follows_the_printed_rule(q: float) -> None:
    values = torch.randn(40, 6, dtype=torch.float64)
    for row, result in zip(values / 0.7, taylor_policy(values, q, 0.7), strict=True):
        assert result.tolist() == pytest.approx(by_the_rule(row.tolist(), q), abs=1e-12)


def test_exact_at_two_only() -> None:
    values = torch.randn(200, 6, dtype=torch.float64)
    torch.testing.assert_close(taylor_policy(values, 2), policy(values, 2))
    for q in (1.5, 3.0, 5.0):
        assert (taylor_policy(values, q) - policy(values, q)).abs().max() > 0.05


def test_a_policy_at_every_q_above_one() -> None:
    values = torch.randn(500, 6, dtype=torch.float64) * 3
    q = torch.linspace(1.05, 40, 30, dtype=torch.float64).unsqueeze(-1)
    result = taylor_policy(values, q)
    assert result.shape == (30, 500, 6)
    assert (result >= 0).all()
    torch.testing.assert_close(result.sum(-1), torch.ones(30, 500, dtype=torch.float64))


def test_offset_and_unavailable_actions() -> None:
    values = torch.tensor([0.3, 0.1, -0.2])
    torch.testing.assert_close(taylor_policy(values + 8, 2.5), taylor_policy(values, 2.5))
    masked = torch.tensor([0.3, -math.inf, 0.1, -0.2])
    torch.testing.assert_close(taylor_policy(masked, 2.5)[[0, 2, 3]], taylor_policy(values, 2.5))
    assert taylor_policy(masked, 2.5)[1] == 0


def test_no_overflow_near_one() -> None:
    assert taylor_policy(torch.tensor([0.0, -300.0]), 1.001).tolist() == pytest.approx([1, 0])


def test_derivative() -> None:
    values = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    q = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    temperature = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    assert gradcheck(taylor_policy, (values, q, temperature))
    masked = torch.tensor([1.0, -math.inf, 0.7], dtype=torch.float64, requires_grad=True)
    output = taylor_policy(masked, q, temperature)[0]
    assert all(x.isfinite().all() for x in torch.autograd.grad(output, (masked, q, temperature)))


@pytest.mark.parametrize("q", [1.1, 1.5, 2.0, 2.5, 3.0, 5.0])
def test_the_log_form_is_the_logarithm_of_the_policy(q: float) -> None:
    """On the support m = τ ln_q π̂; off it, m goes on along the same line in Q."""
    values, tau = torch.randn(300, 6, dtype=torch.float64), 0.7
    family = Family(q, tau, 1.0, "log", policy_method="taylor")
    found, pi = family.munchausen(values, family.evaluate(values)), taylor_policy(values, q, tau)
    inside = pi > 0
    torch.testing.assert_close(found[inside], tau * log_q(pi, q)[inside])
    assert (found[~inside] <= -tau / (q - 1)).all()
    ordered, rank = values.sort(-1)
    slopes = found.gather(-1, rank).diff() / ordered.diff()
    torch.testing.assert_close(slopes, slopes[:, -1:].expand_as(slopes), rtol=1e-6, atol=1e-6)


def test_the_log_form_is_the_exact_one_at_two() -> None:
    values = torch.randn(200, 6, dtype=torch.float64)
    family = Family(2.0, 0.5, 1.0, "log", policy_method="taylor")
    expected = values - 0.5 * normalizer(values, 2.0, 0.5).unsqueeze(-1)
    torch.testing.assert_close(family.munchausen(values, family.evaluate(values)), expected)
