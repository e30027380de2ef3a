"""The q-logarithm and the q-exponential against arbitrary precision and their own definitions."""

import math

import mpmath as mp
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck, gradgradcheck

import oracles
from mviq.tsallis import exp_q, exp_q_physics, log_q, log_q_physics, mirror_index
from mviq.tsallis.deformed import log_q_slope

indices = st.one_of(
    st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]),
    st.floats(0.05, 60.0),
    st.floats(-1e-3, 1e-3).map(lambda d: 1 + d),  # where the textbook formula cancels
)


def double(x: float) -> torch.Tensor:
    return torch.tensor(x, dtype=torch.float64)


@given(q=indices, exponent=st.floats(-6, 3))
def test_logarithm_is_accurate_at_every_q(q: float, exponent: float) -> None:
    x = 10.0**exponent
    with mp.workdps(60):
        exact = oracles.log_q(x, q)
        error = abs(mp.mpf(log_q(double(x), q).item()) - exact)
        assert error <= 1e-14 * (1 + abs(q * mp.log(x))) * abs(exact)


@given(q=indices, x=st.floats(-20, 5))
def test_exponential_is_accurate_at_every_q(q: float, x: float) -> None:
    with mp.workdps(60):
        exact = oracles.exp_q(x, q)
        result = exp_q(double(x), q).item()
        if not mp.isfinite(exact) or exact > 1e300:
            return
        # The condition of the problem: a relative error ε of x becomes ε |x| exp_q^(1−q).
        condition = 1 + abs(x) * exact ** (1 - mp.mpf(q)) if exact > 0 else mp.mpf(1)
        assert abs(mp.mpf(result) - exact) <= 1e-14 * condition * max(exact, mp.mpf(1e-300))


@given(q=indices, x=st.floats(1e-6, 50.0))
def test_exponential_inverts_the_logarithm(q: float, x: float) -> None:
    log = log_q(double(x), q)
    if abs((q - 1) * log.item() + 1) > 1e-6:  # where ln_q has not lost x to rounding
        assert exp_q(log, q).item() == pytest.approx(x, rel=1e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_lower_precision_is_rounded_double_precision(dtype: torch.dtype) -> None:
    x = torch.linspace(0.01, 4, 50).to(dtype)
    for q in (0.5, 1.0, 1.0001, 2.0, 7.3):
        exact = log_q(x.double(), q)
        assert log_q(x, q).dtype == dtype
        torch.testing.assert_close(
            log_q(x, q).double(), exact, rtol=4 * torch.finfo(dtype).eps, atol=1e-6
        )


def test_values_at_the_edges() -> None:
    zero, one, two = double(0.0), double(1.0), double(2.0)
    assert log_q(zero, 3.0) == -0.5
    assert log_q(zero, 1.0) == -math.inf
    assert log_q(zero, 0.5) == -math.inf
    assert exp_q(double(-0.5), 3.0) == 0
    assert exp_q(double(2.0), 0.5) == math.inf
    assert [log_q(x, math.inf).item() for x in (zero, one, two)] == [0, 0, math.inf]
    assert [exp_q(x, math.inf).item() for x in (-one, zero, one)] == [0, 1, 1]


def test_index_broadcasts() -> None:
    x, q = torch.rand(4, 1).double(), torch.tensor([0.5, 1.0, 2.0, math.inf]).double()
    rows = torch.stack([log_q(x[:, 0], index.item()) for index in q], dim=-1)
    torch.testing.assert_close(log_q(x, q), rows)


def test_physics_is_the_mirror_image() -> None:
    x = torch.linspace(0.1, 3, 7).double()
    for q in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0):
        written_out = x.log() if q == 1 else (x ** (1 - q) - 1) / (1 - q)
        torch.testing.assert_close(log_q_physics(x, q), written_out)
        assert mirror_index(mirror_index(q)) == q
        torch.testing.assert_close(exp_q_physics(log_q_physics(x, q), q), x)
    torch.testing.assert_close(log_q_physics(x, 0.5), log_q(x, mirror_index(0.5)))


@pytest.mark.parametrize("q", [0.5, 1.0, 1.0 + 1e-9, 1.3, 2.0, 4.0])
def test_derivatives_in_x_and_q(q: float) -> None:
    x = torch.tensor([0.05, 0.4, 1.0, 1.3], dtype=torch.float64, requires_grad=True)
    index = double(q).requires_grad_()
    for function, argument in ((log_q, x), (exp_q, (x - 0.5).detach().requires_grad_())):
        assert gradcheck(function, (argument, index))
        assert gradgradcheck(function, (argument, index), atol=1e-4)


@given(q=indices, x=st.floats(1e-4, 20.0))
def test_slope_in_q_is_accurate(q: float, x: float) -> None:
    with mp.workdps(50):
        exact = mp.diff(lambda index: oracles.log_q(x, index), mp.mpf(q), h=mp.mpf("1e-15"))
        assert log_q_slope(double(x), q).item() == pytest.approx(float(exact), rel=1e-9, abs=1e-12)


def test_exponential_has_no_slope_where_it_is_cut_off() -> None:
    x = torch.tensor([-3.0, -1.5], dtype=torch.float64, requires_grad=True)
    q = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    exp_q(x, q).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0]
    assert q.grad == 0
