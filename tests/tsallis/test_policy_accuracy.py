"""The exact policy against arbitrary precision, a peer library and hand-computed numbers."""

import functools
import math

import entmax
import numpy as np
import pytest
import torch

import oracles
from mviq.tsallis import (
    normalizer,
    policy,
    policy_and_normalizer,
    soft_maximum,
    soft_value,
    support,
)
from mviq.tsallis.exact import solve_by_rows, solve_by_tensors

ALL_INDICES = (0.2, 0.7, 0.999, 1.0, 1.001, 1.3, 1.5, 1.99, 2.0, 2.01, 2.5, 3.0, 5.0, 10.0, 50.0)
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12}


@pytest.mark.parametrize(
    ("values", "q", "expected", "psi"),
    [
        ([1, 0.5, -0.2], 1.5, [0.649015, 0.308708, 0.042277], 1.388771),
        ([1, 0.5, -0.2], 2, [0.75, 0.25, 0], 1.25),
        ([1, 0.5, -0.2], 3, [1, 0, 0], 1),
        ([2, 1.9, 0, -1], 3, [0.6, 0.4, 0, 0], 2.32),
        ([2, 1.9, 0, -1], 5, [0.796128, 0.203872, 0, 0], None),
    ],
)
def test_numbers_of_the_specification(
    values: list[float], q: float, expected: list[float], psi: float | None
) -> None:
    result, normaliser = policy_and_normalizer(torch.tensor(values, dtype=torch.float64), q)
    assert result.tolist() == pytest.approx(expected, abs=1e-6)
    if psi is not None:
        assert normaliser.item() == pytest.approx(psi, abs=1e-6)


def problems(seed: int) -> list[tuple[np.ndarray, float]]:
    """Rows of 1 to 18 actions with ties, offsets of 1e4 and temperatures from 1e-3 to 1e3."""
    rng = np.random.default_rng(seed)
    rows = []
    for actions in (1, 2, 6, 18):
        for temperature in (1e-3, 0.03, 1.0, 1e3):
            for offset in (0.0, 1e4):
                values = rng.normal(size=actions) * rng.choice([temperature, 1.0]) + offset
                values[: rng.integers(0, actions + 1)] = values.max()
                rows.append((values, temperature))
    return rows


@functools.cache  # hundreds of digits are slow
def exact_policy(values: tuple[float, ...], q: float, temperature: float) -> list[float]:
    return oracles.exact_policy(values, q, temperature=temperature)[0]


@pytest.mark.parametrize("solve", [solve_by_rows, solve_by_tensors])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("q", ALL_INDICES)
def test_policy_is_exact(q: float, dtype: torch.dtype, solve: object) -> None:
    for values, temperature in problems(seed=int(100 * q)):
        tensor = torch.tensor(values, dtype=dtype)
        exact = exact_policy(tuple(tensor.tolist()), q, temperature)
        result = solve(tensor, q, temperature, None).policy  # type: ignore[operator]
        assert result.tolist() == pytest.approx(exact, abs=TOLERANCE[dtype], rel=0)


@pytest.mark.parametrize("q", [0.5, 1.0, 1.4, 2.0, 3.0, 12.0])
def test_policy_with_prior_is_exact(q: float) -> None:
    rng = np.random.default_rng(7)
    for actions in (1, 2, 5, 9):
        values, prior = rng.normal(size=actions) * 0.3, rng.dirichlet(np.full(actions, 0.3))
        exact, psi = oracles.exact_policy(list(values), q, list(prior))
        for solve in (solve_by_rows, solve_by_tensors):
            result = solve(torch.tensor(values), q, 1.0, torch.tensor(prior))
            assert result.policy.tolist() == pytest.approx(exact, abs=1e-12, rel=0)
            normaliser = (result.psi + result.maximum).item()
            assert normaliser == pytest.approx(psi, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("q", [0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("mass", [1e-8, 1e-12, 1e-20, 1e-30])
def test_a_good_action_with_hardly_any_prior(q: float, mass: float) -> None:
    values, prior = [0.0, 2 / (1 - q)], [1 - mass, mass]
    exact, _ = oracles.exact_policy(values, q, prior)
    for solve in (solve_by_rows, solve_by_tensors):
        tensors = (torch.tensor(x, dtype=torch.float64) for x in (values, prior))
        result = solve(next(tensors), q, 1.0, next(tensors))
        assert result.policy.tolist() == pytest.approx(exact, abs=1e-12, rel=0)


@pytest.mark.parametrize("q", [1.0, 1.01, 1.5, 2.0, 3.0, 50.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hundred_thousand_actions(q: float, dtype: torch.dtype) -> None:
    levels = torch.tensor([0.0, -1e-5, -3e-4, -0.2, -5.0], dtype=dtype)
    values = levels.repeat(20_000)[torch.randperm(100_000)]
    exact, _ = oracles.exact_policy(levels.tolist(), q, [20_000.0] * 5)
    share = dict(zip(levels.tolist(), exact, strict=True))
    result = policy(values, q).double()
    for level, mass in share.items():
        chosen = result[values == level]
        assert (chosen - mass / 20_000).abs().max() <= TOLERANCE[dtype]
        assert chosen.sum().item() == pytest.approx(mass, abs=TOLERANCE[dtype])


@pytest.mark.parametrize("solve", [solve_by_rows, solve_by_tensors])
@pytest.mark.parametrize("q", [0.05, 0.2, 0.999, 1.3, 1.75, 1.9999, 2.0, 2.0001, 3.0])
def test_many_nearly_equal_actions(q: float, solve: object) -> None:
    """Where each probability is small, ψ is near 1/(q−1), and 1 + (q−1)(z − ψ) would cancel."""
    levels = torch.tensor([0.0, 0.3, -1.2, 2.0], dtype=torch.float64)
    for temperature in (1e2, 1e5):
        exact, psi = oracles.exact_policy((levels / temperature).tolist(), q, [250.0] * 4)
        values = (levels / temperature).repeat(250)
        result = solve(values, q, 1.0, None)  # type: ignore[operator]
        assert abs(math.fsum(result.policy.tolist()) - 1) <= 3e-14
        for action, mass in enumerate(exact):
            assert result.policy[action].item() == pytest.approx(mass / 250, rel=5e-14, abs=1e-17)
        normaliser = (result.psi + result.maximum).item()
        assert abs(normaliser - psi) <= 8 * math.ulp(psi)


@pytest.mark.parametrize("actions", [1, 2, 6, 18, 300])
def test_agrees_with_entmax_where_entmax_is_right(actions: int) -> None:
    values = torch.randn(32, actions, dtype=torch.float64)
    torch.testing.assert_close(policy(values, 2), entmax.sparsemax(values, -1))
    torch.testing.assert_close(policy(values, 1.5), entmax.entmax15(values, -1))
    for q in (1.2, 1.7, 2.0):
        bisected = entmax.entmax_bisect(values, q, n_iter=100)
        torch.testing.assert_close(policy(values, q), bisected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("q", [0.5, 1.0, 1.5, 2.0, 3.0, 7.0, math.inf])
def test_derived_quantities(q: float) -> None:
    values, temperature = torch.randn(50, 6, dtype=torch.float64), 0.4
    chosen = policy(values, q, temperature)
    torch.testing.assert_close(soft_maximum(values, q, temperature), (chosen * values).sum(-1))
    psi = normalizer(values, q, temperature)
    torch.testing.assert_close(soft_value(values, q, temperature), temperature * psi)
    assert torch.equal(support(values, q, temperature), chosen > 0)


def test_closed_form_of_the_support() -> None:
    values = torch.randn(500, 7, dtype=torch.float64) * 0.4
    for q in (1.2, 1.5, 2.0, 2.6, 4.0, 9.0):
        differences = (q - 1) * (values.unsqueeze(-2) - values.unsqueeze(-1)).clamp(min=0.0)
        rule = differences.pow(1 / (q - 1)).sum(-1) < 1
        assert torch.equal(support(values, q), rule)


@pytest.mark.parametrize("q", [1.0, 1.5, 2.0, 3.0, 50.0])
def test_smallest_temperatures(q: float) -> None:
    for dtype in (torch.float32, torch.float64):
        values = torch.tensor([1.0, 1.0, 0.5], dtype=dtype)
        smallest = torch.finfo(dtype).tiny
        assert policy(values, q, smallest).tolist() == pytest.approx([0.5, 0.5, 0])
        scaled = torch.tensor([1.0, 0.5, -0.2], dtype=dtype) * smallest
        expected = policy(torch.tensor([1.0, 0.5, -0.2], dtype=dtype), q)
        torch.testing.assert_close(policy(scaled, q, smallest), expected)


def test_large_finite_values_and_indices() -> None:
    for q in (1.0, 1.5, 2.0, 3.0, 200.0, 1e6):
        result = policy(torch.tensor([3e38, 3e38, -3e38]), q)
        assert result.tolist() == pytest.approx([0.5, 0.5, 0.0])
    near_greedy = policy(torch.tensor([0.0, -1e-9], dtype=torch.float64), 1e6)
    assert near_greedy.sum().item() == pytest.approx(1)
