"""What makes a policy the Tsallis policy, for any values, q, temperature and prior."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mviq.tsallis import divergence, entropy, exp_q, log_q, policy, policy_and_normalizer, support
from mviq.tsallis.exact import solve_by_rows, solve_by_tensors

indices = st.one_of(
    st.sampled_from([1.0, 1.5, 2.0, 3.0]), st.floats(0.1, 50.0), st.floats(0.999, 1.001)
)
temperatures = st.floats(-3, 3).map(lambda exponent: 10**exponent)
finite = st.floats(-20, 20).map(lambda x: round(x, 3))  # ties are common


@st.composite
def rows(draw: st.DrawFn, least: int = 1) -> torch.Tensor:
    size = draw(st.integers(least, 9))
    values = draw(st.lists(finite, min_size=size, max_size=size))
    return torch.tensor(values, dtype=torch.float64)


@st.composite
def rows_with_prior(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    values = draw(rows())
    weights = st.sampled_from([0.0, 0.01, 0.5, 1.0, 3.0])
    prior = torch.tensor(
        draw(st.lists(weights, min_size=len(values), max_size=len(values))), dtype=torch.float64
    )
    assume(prior.sum() > 0)
    return values, prior / prior.sum()


@settings(max_examples=200)
@given(values=rows(), q=indices, temperature=temperatures)
def test_policy_satisfies_the_optimality_conditions(
    values: torch.Tensor, q: float, temperature: float
) -> None:
    result, psi = policy_and_normalizer(values, q, temperature)
    z = values / temperature
    assert not result.signbit().any()  # which would print as -0
    assert result.sum().item() == pytest.approx(1, abs=1e-12)
    inside = result > 1e-300  # a subnormal number has lost digits
    scale = 1 + z.abs().max().item() + psi.abs().item()
    # Stationarity: one multiplier for all supported actions, and none other would gain.
    torch.testing.assert_close(
        (z - log_q(result, q))[inside], psi.expand(int(inside.sum())), rtol=0, atol=1e-11 * scale
    )
    # Off the support nothing is left, to rounding: of the base, whose root may be steep.
    outside = (1 + (q - 1) * (z - psi))[~inside]
    underflow = exp_q(z - psi, q)[~inside] < 1e-299
    assert ((outside <= 1e-11 * scale * q) | underflow).all()


@given(values=rows(2), q=indices, seed=st.integers(0, 2**31))
def test_no_other_distribution_has_a_larger_objective(
    values: torch.Tensor, q: float, seed: int
) -> None:
    best = policy(values, q)
    weights = torch.rand(20, len(values), generator=torch.Generator().manual_seed(seed))
    others = weights.double() / weights.double().sum(-1, keepdim=True)
    near = 0.99 * best + 0.01 * others
    for candidates in (others, near / near.sum(-1, keepdim=True)):
        objective = (candidates * values).sum(-1) + entropy(candidates, q) / q
        assert (objective <= (best * values).sum() + entropy(best, q) / q + 1e-10).all()


@given(problem=rows_with_prior(), q=indices, seed=st.integers(0, 2**31))
def test_prior_step_maximises_the_penalised_objective(
    problem: tuple[torch.Tensor, torch.Tensor], q: float, seed: int
) -> None:
    values, prior = problem
    best, psi = policy_and_normalizer(values, q, prior=prior)
    assert best.sum().item() == pytest.approx(1, abs=1e-11)
    assert (best[prior == 0] == 0).all()
    # π = μ exp_q(z − ψ), compared before the root that would magnify the rounding of ψ.
    inside = best > 0
    expected = log_q(best[inside] / prior[inside], q)
    scale = 1 + values.abs().max() + psi.abs()
    torch.testing.assert_close((values - psi)[inside] / scale, expected / scale, atol=1e-9, rtol=0)
    weights = torch.rand(20, len(values), generator=torch.Generator().manual_seed(seed)).double()
    others = weights * (prior > 0)
    others = 0.9 * best + 0.1 * others / others.sum(-1, keepdim=True)
    others = others / others.sum(-1, keepdim=True)
    objective = (others * values).sum(-1) - divergence(others, prior.expand_as(others), q) / q
    assert (objective <= (best * values).sum() - divergence(best, prior, q) / q + 1e-8).all()


@given(values=rows(), q=indices, shift=st.floats(-1e4, 1e4))
def test_translation_invariance(values: torch.Tensor, q: float, shift: float) -> None:
    exact_shift = round(shift * 1024) / 1024  # no rounding of the values themselves
    values = (values * 1024).round() / 1024
    result, psi = policy_and_normalizer(values, q)
    moved, moved_psi = policy_and_normalizer(values + exact_shift, q)
    torch.testing.assert_close(moved, result, atol=1e-12, rtol=0)
    assert moved_psi.item() == pytest.approx(psi.item() + exact_shift, abs=1e-10)


@given(values=rows(2), q=indices, gain=st.floats(0, 3), data=st.data())
def test_a_better_action_gets_no_less_and_the_others_no_more(
    values: torch.Tensor, q: float, gain: float, data: st.DataObject
) -> None:
    action = data.draw(st.integers(0, len(values) - 1))
    before = policy(values, q)
    raised = values.clone()
    raised[action] += gain
    change = policy(raised, q) - before
    assert change[action] >= -1e-13
    change[action] = 0
    assert (change <= 1e-13).all()


@given(values=rows(), q=indices)
def test_order_of_the_values_is_the_order_of_the_policy(values: torch.Tensor, q: float) -> None:
    order = values.argsort()
    assert (policy(values, q)[order].diff() >= -1e-13).all()
    tied = values.unsqueeze(0) == values.unsqueeze(1)
    result = policy(values, q)
    assert ((result.unsqueeze(0) - result.unsqueeze(1))[tied].abs() <= 1e-13).all()


@given(values=rows(), pair=st.tuples(indices, indices))
def test_support_shrinks_as_q_grows(values: torch.Tensor, pair: tuple[float, float]) -> None:
    small, large = sorted(pair)
    assert (support(values, small) | ~support(values, large)).all()


@given(values=rows())
def test_limits(values: torch.Tensor) -> None:
    softmax = values.softmax(-1)
    torch.testing.assert_close(policy(values, 1), softmax)
    torch.testing.assert_close(policy(values, 1 + 1e-9), softmax, atol=1e-6, rtol=0)
    torch.testing.assert_close(policy(values, 1 - 1e-9), softmax, atol=1e-6, rtol=0)
    best = values == values.max()
    greedy = best.double() / best.sum()
    torch.testing.assert_close(policy(values, math.inf), greedy)
    torch.testing.assert_close(policy(values, 1e5), greedy, atol=1e-3, rtol=0)  # gaps ≥ 1e-3
    assert policy_and_normalizer(values, math.inf)[1] == values.max()


@given(values=rows(2), q=indices, data=st.data())
def test_an_action_that_is_not_available_does_not_exist(
    values: torch.Tensor, q: float, data: st.DataObject
) -> None:
    missing = data.draw(st.integers(0, len(values) - 1))
    masked = values.clone()
    masked[missing] = -math.inf
    rest = torch.cat([values[:missing], values[missing + 1 :]])
    result, psi = policy_and_normalizer(masked, q)
    expected, expected_psi = policy_and_normalizer(rest, q)
    assert result[missing] == 0
    others = torch.cat([result[:missing], result[missing + 1 :]])
    torch.testing.assert_close(others, expected, rtol=1e-14, atol=0)
    torch.testing.assert_close(psi, expected_psi, rtol=1e-14, atol=1e-14)


@given(values=rows(), q=st.one_of(indices, st.just(math.inf)))
def test_both_solvers_agree(values: torch.Tensor, q: float) -> None:
    by_rows, by_tensors = (
        solve(values, q, 0.7, None) for solve in (solve_by_rows, solve_by_tensors)
    )
    torch.testing.assert_close(by_rows.policy, by_tensors.policy, atol=1e-12, rtol=0)
    torch.testing.assert_close(by_rows.psi, by_tensors.psi, atol=1e-10, rtol=1e-10)


@given(problem=rows_with_prior(), q=st.one_of(indices, st.just(math.inf)))
def test_both_solvers_agree_with_prior(
    problem: tuple[torch.Tensor, torch.Tensor], q: float
) -> None:
    values, prior = problem
    by_rows, by_tensors = (
        solve(values, q, 0.7, prior).policy for solve in (solve_by_rows, solve_by_tensors)
    )
    torch.testing.assert_close(by_rows, by_tensors, atol=1e-11, rtol=0)


def test_one_call_for_a_sweep_over_q_and_temperature() -> None:
    values = torch.randn(4, 5, dtype=torch.float64)
    q = torch.tensor([0.5, 1.0, 1.7, 2.0, 3.0, 20.0, math.inf], dtype=torch.float64)
    temperature = torch.rand(7, 1, dtype=torch.float64) + 0.1
    sweep = policy(values, q.unsqueeze(-1), temperature)
    assert sweep.shape == (7, 4, 5)
    for i, index in enumerate(q):
        one = policy(values, index.item(), temperature[i].item())
        torch.testing.assert_close(sweep[i], one, atol=1e-14, rtol=0)
    by_tensors = solve_by_tensors(
        values.expand(7, 4, 5), q.unsqueeze(-1).expand(7, 4), temperature.expand(7, 4), None
    )
    torch.testing.assert_close(sweep, by_tensors.policy)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("q", [0.5, 1.0, 1.5, 2.0, 5.0, math.inf])
def test_half_precision_is_rounded_once(dtype: torch.dtype, q: float) -> None:
    values = torch.randn(20, 6).to(dtype)
    assert torch.equal(policy(values, q), policy(values.float(), q).to(dtype))


@pytest.mark.parametrize("shape", [(3,), (1, 3), (0, 3), (2, 0, 3), (2, 4, 3), (5, 1)])
def test_any_batch_shape(shape: tuple[int, ...]) -> None:
    result, psi = policy_and_normalizer(torch.randn(shape), 2.5)
    assert result.shape == shape
    assert psi.shape == shape[:-1]
    torch.testing.assert_close(result.sum(-1), torch.ones(shape[:-1]))


def test_a_strided_tensor_is_read_as_it_is() -> None:
    values = torch.randn(6, 8)
    assert torch.equal(policy(values.t(), 3.0), policy(values.t().contiguous(), 3.0))
