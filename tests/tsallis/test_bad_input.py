"""Bad input is refused in one line that names the argument, the value and what is allowed."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

from mviq import tsallis
from mviq.tsallis import (
    Family,
    divergence,
    entropy,
    exp_q,
    exp_q_physics,
    expectation,
    log_q,
    log_q_physics,
    munchausen_residual,
    named,
    policy,
    taylor_policy,
)
from mviq.tsallis.exact import solve_by_rows, solve_by_tensors

VALUES = torch.tensor([1.0, 0.5])
PRIOR = torch.tensor([0.5, 0.5])
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: policy(torch.tensor([1.0, NAN]), 2), "values must be finite.*got nan"),
        (lambda: policy(torch.tensor([1.0, INF]), 2), "values must be finite.*got inf"),
        (lambda: policy(torch.tensor([1.0, NAN]), 1), "values must be finite.*got nan"),
        (lambda: policy(torch.full((2,), -INF), 2), "values must have an available action"),
        (lambda: policy(torch.full((2,), -INF), 1), "values must have an available action"),
        (lambda: policy(torch.empty(3, 0), 2), r"values must have at least one.*\(3, 0\)"),
        (lambda: policy(torch.tensor(1.0), 2), r"values must have at least one.*\(\)"),
        (lambda: policy(torch.tensor([1, 2]), 2), "values must have a floating.*int64"),
        (lambda: policy([1.0, 2.0], 2), "values must be a torch tensor, got list"),  # type: ignore[arg-type]
        (lambda: policy(VALUES, 0), "q must be a number > 0, infinity included, got 0"),
        (lambda: policy(VALUES, -1.5), "q must be a number > 0.*got -1.5"),
        (lambda: policy(VALUES, NAN), "q must be a number > 0.*got nan"),
        (lambda: policy(VALUES, "two"), "q must be a number > 0.*got 'two'"),  # type: ignore[arg-type]
        (lambda: policy(VALUES, torch.tensor([2.0, 0.0])), "q must be a number > 0.*got 0"),
        (lambda: policy(VALUES, torch.tensor(2)), "q must have a floating-point dtype.*int64"),
        (lambda: policy(VALUES, 2, 0.0), "temperature must be a finite number > 0, got 0"),
        (lambda: policy(VALUES, 2, INF), "temperature must be a finite number > 0, got inf"),
        (lambda: policy(VALUES, 2, torch.tensor([-1.0])), "temperature must be.*got -1"),
        (lambda: policy(VALUES, 2, prior=torch.tensor([1.5, -0.5])), "prior must be non-neg.*-0.5"),
        (
            lambda: policy(VALUES, 2, prior=torch.tensor([0.5, 0.4])),
            "prior must sum.*0.89999",
        ),
        (lambda: policy(VALUES, 2, prior=torch.tensor([NAN, 1.0])), "prior must be non-negative"),
        (lambda: policy(VALUES, 2, prior=torch.ones(1)), "prior must have the 2 actions.*got 1"),
        (
            lambda: policy(torch.tensor([-INF, 1.0]), 2, prior=torch.tensor([1.0, 0.0])),
            "available action with a positive prior",
        ),
        (
            lambda: policy(torch.rand(3, 2), torch.tensor([1.0, 2.0])),
            r"shapes must broadcast, got values \(3,\), q \(2,\)",
        ),
        (lambda: taylor_policy(VALUES, 1), "q must be > 1 for the Taylor policy, got 1"),
        (lambda: taylor_policy(VALUES, INF), "q must be a finite number > 0, got inf"),
        (lambda: taylor_policy(torch.tensor([NAN, 1.0]), 2), "values must be finite.*got nan"),
        (lambda: log_q(torch.tensor([-1.0]), 2), "x must be non-negative, got -1"),
        (lambda: log_q(VALUES, 0.0), "q must be a number > 0"),
        (lambda: log_q(torch.tensor([1]), 2), "x must have a floating-point dtype"),
        (lambda: log_q_physics(VALUES, INF), "q must be a finite number, got inf"),
        (lambda: exp_q(torch.tensor([NAN]), 2), "x must not contain NaN"),
        (lambda: entropy(torch.tensor([0.5, 0.6]), 2), "policy must sum to one.*1.1"),
        (lambda: divergence(PRIOR, torch.tensor([2.0, -1.0]), 2), "prior must be non-negative.*-1"),
        (lambda: munchausen_residual(PRIOR, PRIOR, INF), "q must be a finite number"),
        (lambda: Family(q=0.5), "q must be at least 1.*got 0.5"),
        (lambda: Family(temperature=-1), "temperature must be a finite number > 0, got -1"),
        (lambda: Family(munchausen_alpha=-0.1), "munchausen_alpha must be.*got -0.1"),
        (lambda: Family(form="logs"), "form must be one of.*got 'logs'"),  # type: ignore[arg-type]
        (lambda: Family(clip=(0.0, -1.0)), "clip must be .low, high."),
        (lambda: Family(q=1.0, policy_method="taylor"), "q must be finite and > 1"),
        (lambda: Family(q=INF, form="naive_log"), "q must be finite for the form naive_log"),
        (lambda: named("dqn"), "algorithm must be one of vi, .*got 'dqn'"),
        (lambda: named("m-vi", q=2.0), "q of m-vi must be 1.0, got 2.0"),
        (lambda: named("mvi", tau=1.0), "a setting of mvi must be one of clip, .*got 'tau'"),
        (lambda: Family(munchausen_alpha="a"), "munchausen_alpha must be a number, got 'a'"),  # type: ignore[arg-type]
        (lambda: Family(q=torch.tensor([1.0, 2.0])), "q must be a number"),  # type: ignore[arg-type]
        (lambda: Family(clip=(1.0,)), "clip must be .low, high."),  # type: ignore[arg-type]
        (lambda: Family(clip=1.0), "clip must be .low, high."),  # type: ignore[arg-type]
        (lambda: Family(clip=("a", "b")), "clip must be .low, high."),  # type: ignore[arg-type]
        (lambda: Family(temperature=10**400), "temperature must be a number"),
        (lambda: policy(VALUES, 10**400), "q must be a number > 0.*too large"),
        (lambda: policy(VALUES, 2, 1e-50), r"temperature must be in \[1.18e-38.*got 1e-50"),
        (lambda: policy(VALUES, 2, torch.tensor(INF)), "temperature must be a finite.*got inf"),
        (lambda: log_q_physics(VALUES, torch.tensor(INF)), "q must be a finite number, got inf"),
        (lambda: taylor_policy(VALUES, torch.tensor(INF)), "q must be a finite number > 0"),
        (lambda: divergence(PRIOR, torch.ones(1), 2), "prior must have the 2 actions.*got 1"),
        (lambda: munchausen_residual(PRIOR, torch.ones(1), 2), "previous must have the 2 actions"),
        (
            lambda: munchausen_residual(PRIOR, PRIOR, 2, floor=0),
            "floor must be in .*got 0",
        ),
        (lambda: expectation(PRIOR, torch.ones(1)), "policy must have the 1 actions of values"),
        (lambda: entropy(torch.full((64,), 1 / 128).bfloat16(), 2), "policy must sum to one.*0.5"),
        (lambda: log_q(torch.ones(3), torch.ones(2)), r"shapes must broadcast, got x \(3,\), q"),
        (lambda: exp_q_physics(torch.tensor([NAN]), 2), "x must not contain NaN"),
    ],
)
def test_the_message_names_argument_value_and_what_is_allowed(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("solve", [solve_by_rows, solve_by_tensors])
@pytest.mark.parametrize("bad", [[NAN, 1.0], [1.0, NAN], [INF, 0.0], [-INF, -INF]])
def test_a_bad_row_among_good_ones_is_found_by_both_solvers(solve: Any, bad: list[float]) -> None:
    values = torch.tensor([[1.0, 2.0], bad, [0.0, 1.0]])
    for prior in (None, PRIOR.expand(3, 2)):
        with pytest.raises(ValueError, match="values must"):
            solve(values, 2.5, 1.0, prior)


def test_the_message_says_where() -> None:
    with pytest.raises(ValueError, match=r"got nan at \[1, 0\]"):
        policy(torch.tensor([[1.0, 2.0], [NAN, 0.0]]), 2)


@pytest.mark.parametrize("q", [np.int64(2), np.float32(2), np.float64(2), Fraction(2), 2])
def test_every_kind_of_number_is_a_number(q: Any) -> None:
    assert torch.equal(policy(VALUES, q), policy(VALUES, 2.0))


def test_every_public_function_is_documented_with_an_example() -> None:
    for name in tsallis.__all__:
        item = getattr(tsallis, name)
        if callable(item) and name != "Evaluation":
            assert ">>>" in (item.__doc__ or ""), name
