"""The q-logarithm and the q-exponential, accurate for every q, with derivatives in x and in q."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.compiler import is_compiling

from mviq.tsallis.checks import (
    Scalar,
    check_finite,
    check_floating,
    check_positive,
    common_shape,
    require,
    wide_dtype,
)
from mviq.tsallis.exact import is_transformed


def log_q(x: Tensor, q: Scalar) -> Tensor:
    """Return ln_q x = (x^(q−1) − 1)/(q−1), and ln x at q = 1.

    ``q`` broadcasts with ``x`` elementwise. For q > 1, ln_q 0 = −1/(q−1); for q ≤ 1 it is −∞.

    >>> log_q(torch.tensor([0.0, 1.0, 3.0]), q=2)
    tensor([-1.,  0.,  2.])
    >>> log_q(torch.tensor(1.0), q=1)
    tensor(0.)
    """
    _check_non_negative(x)
    return _elementwise(_LOG_Q, x, check_positive("q", q, infinity=True))


def exp_q(x: Tensor, q: Scalar) -> Tensor:
    """Return exp_q x = [1 + (q−1)x]_+^(1/(q−1)), and exp x at q = 1: the inverse of ln_q.

    ``q`` broadcasts with ``x`` elementwise. For q > 1 the result is 0 for x ≤ −1/(q−1);
    for q < 1 it is ∞ for x ≥ 1/(1−q).

    >>> exp_q(torch.tensor([-3.0, 0.0, 2.0]), q=2)
    tensor([0., 1., 3.])
    """
    _check_not_nan(x)
    return exp_q_unchecked(x, check_positive("q", q, infinity=True))


def exp_q_unchecked(x: Tensor, q: Scalar) -> Tensor:
    """Return exp_q x without checking the arguments."""
    return _elementwise(_EXP_Q, x, q)


def mirror_index(q: Scalar) -> Scalar:
    """Translate an index from the physics convention to ours or back: 2 − q, its own inverse.

    Entropy and divergence are the same functions of the same index in both conventions; the
    logarithm and the exponential are not. Of the other public functions, only ``log_q_physics`` and
    ``exp_q_physics`` take the physics index.

    >>> mirror_index(0.0)  # physics' 0 is our 2: sparsemax
    2.0
    """
    return 2 - q


def log_q_physics(x: Tensor, q: Scalar) -> Tensor:
    """Return the physics logarithm (x^(1−q) − 1)/(1−q) = ln_(2−q) x, for any finite real q.

    >>> log_q_physics(torch.tensor([0.5, 2.0]), q=2)  # 1 − 1/x
    tensor([-1.0000,  0.5000])
    """
    _check_non_negative(x)
    return _elementwise(_LOG_Q, x, mirror_index(check_finite("q", q)))


def exp_q_physics(x: Tensor, q: Scalar) -> Tensor:
    """Return the physics exponential [1 + (1−q)x]_+^(1/(1−q)) = exp_(2−q) x, for any finite real q.

    >>> exp_q_physics(torch.tensor([-1.0, 0.0, 0.5]), q=2)  # 1/(1 − x)
    tensor([0.5000, 1.0000, 2.0000])
    """
    _check_not_nan(x)
    return exp_q_unchecked(x, mirror_index(check_finite("q", q)))


def xlog_q(x: Tensor, q: Scalar) -> Tensor:
    """Return x ln_q x with 0 ln_q 0 = 0: the summand of entropy and divergence, unchecked."""
    return _elementwise(_XLOG_Q, x, q)


def potential(x: Tensor, q: Scalar) -> Tensor:
    """Return x ln_q x / q, a summand of Ω = −S_q/q, as if x were constant in first derivatives.

    Second derivatives include x, because the derivative in q is a function of it.
    """
    return _elementwise(_POTENTIAL, x, q)


def _check_non_negative(x: Tensor) -> None:
    check_floating("x", x)
    require(x >= 0, x, "x must be non-negative")  # also catches NaN


def _check_not_nan(x: Tensor) -> None:
    check_floating("x", x)
    require(~x.isnan(), x, "x must not contain NaN")


def log_q_slope(x: Tensor, q: Scalar) -> Tensor:
    """Return ∂ ln_q x/∂q = (ln x)² φ((q−1) ln x), φ(y) = (e^y (y−1) + 1)/y² and φ(0) = 1/2."""
    index = torch.as_tensor(q, dtype=x.dtype, device=x.device)
    positive, above_one = x > 0, index > 1
    log_x = torch.where(positive, x, 1.0).log()
    slope = log_x.square() * _phi((q - 1) * log_x)
    at_zero = torch.where(above_one, torch.where(above_one, index - 1, 1.0).pow(-2.0), math.inf)
    # At q = ∞ the derivative is 0 (x ≤ 1) or undefined (x > 1); nothing depends on q there.
    return torch.where(index == math.inf, 0.0, torch.where(positive, slope, at_zero))


def _phi(y: Tensor) -> Tensor:
    # The closed form loses all digits at y = 0, its Taylor series Σ y^j/(j!(j+2)) none.
    small = y.abs() < 1
    y_small = torch.where(small, y, 0.0)
    y_large = torch.where(small, 1.0, y).clamp(min=-1e30)  # finite, as −inf·0 is NaN
    series = torch.zeros_like(y)
    for j in reversed(range(19)):
        series = series * y_small + 1 / (math.factorial(j) * (j + 2))
    return torch.where(small, series, (y_large.exp() * (y_large - 1) + 1) / y_large.square())


def _log_q(x: Tensor, q: Tensor) -> Tensor:
    log_x = x.log()
    y = (q - 1) * log_x
    # expm1 avoids the cancellation near x^(q−1) = 1, the power the rounding of a large exponent.
    power = torch.where(y.abs() < 0.5, y.expm1(), x.pow(q - 1) - 1) / (q - 1)
    greedy = torch.where(x <= 1, 0.0, math.inf)
    return torch.where(q == 1, log_x, torch.where(q == math.inf, greedy, power))


def _exp_q(x: Tensor, q: Tensor) -> Tensor:
    t = (q - 1) * x
    # log1p avoids the cancellation for q near 1, the power the rounding of a large exponent.
    power = torch.where(
        t.abs() < 0.5, (t.log1p() / (q - 1)).exp(), (1 + t).clamp(min=0.0).pow(1 / (q - 1))
    )
    greedy = torch.where(x < 0, 0.0, 1.0)
    return torch.where(q == 1, x.exp(), torch.where(q == math.inf, greedy, power))


@dataclass(frozen=True)
class _Rule:
    """An elementwise function of x and q with its two derivatives, which also take its result."""

    value: Callable[[Tensor, Tensor], Tensor]
    slope: Callable[[Tensor, Tensor, Tensor], Tensor]
    slope_in_q: Callable[[Tensor, Tensor, Tensor], Tensor]


def _exp_q_slope(x: Tensor, q: Tensor, result: Tensor) -> Tensor:
    positive = (result > 0) & (q < math.inf)  # at q = ∞ it is a step, with slope 0
    return torch.where(positive, torch.where(positive, result, 1.0).pow(2 - q), 0.0)


def _exp_q_slope_in_q(x: Tensor, q: Tensor, result: Tensor) -> Tensor:
    inside = torch.where((result > 0) & (q < math.inf), result, 1.0)
    return -_exp_q_slope(x, q, result) * log_q_slope(inside, q)


def _xlog_q_slope(x: Tensor, q: Tensor, result: Tensor) -> Tensor:
    log = _elementwise(_LOG_Q, x, q)
    # The first form is defined at q = ∞, the second at x = 0 for q < 1.
    return torch.where(q > 1, log + x.pow(q - 1), q * log + 1)


def _xlog_q_slope_in_q(x: Tensor, q: Tensor, result: Tensor) -> Tensor:
    inside = torch.where(x > 0, x, 1.0)
    return torch.where(x > 0, inside * log_q_slope(inside, q), 0.0)


def _potential_slope_in_q(x: Tensor, q: Tensor, result: Tensor) -> Tensor:
    # Not from the result, whose derivative in x is 0.
    return (_xlog_q_slope_in_q(x, q, result) - xlog_q(x, q) / q) / q


_LOG_Q = _Rule(_log_q, lambda x, q, _: x.pow(q - 2), lambda x, q, _: log_q_slope(x, q))
_EXP_Q = _Rule(_exp_q, _exp_q_slope, _exp_q_slope_in_q)
_XLOG_Q = _Rule(
    lambda x, q: torch.where(x > 0, x * _log_q(x, q), 0.0),
    _xlog_q_slope,
    _xlog_q_slope_in_q,
)
_POTENTIAL = _Rule(
    lambda x, q: _XLOG_Q.value(x, q) / q,
    lambda x, q, _: torch.zeros_like(x),
    _potential_slope_in_q,
)


def _elementwise(rule: _Rule, x: Tensor, q: Scalar) -> Tensor:
    dtype = wide_dtype(x)
    index = (
        q.to(dtype) if isinstance(q, Tensor) else torch.full((), q, dtype=dtype, device=x.device)
    )
    shape = common_shape(x=x.shape, q=index.shape)
    arguments = x.to(dtype).expand(shape), index.expand(shape)
    recorded = torch.is_grad_enabled() and any(argument.requires_grad for argument in arguments)
    if not recorded and not is_transformed():
        return rule.value(*arguments).to(x.dtype)
    # torch.compile does not support autograd functions with a jvp.
    function = _Backwards if is_compiling() else _BothWays
    return cast(Tensor, function.apply(*arguments, rule)).to(x.dtype)  # type: ignore[no-untyped-call]


class _Backwards(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, q: Tensor, rule: _Rule) -> Tensor:
        return rule.value(x, q)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Tensor) -> None:
        x, q, ctx.rule = inputs
        ctx.save_for_backward(x, q, output)
        ctx.save_for_forward(x, q, output)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor | None, None]:
        in_q = ctx.needs_input_grad[1]
        at = ctx.saved_tensors
        grad_q = _product(grads[0], ctx.rule.slope_in_q(*at)) if in_q else None
        return _product(grads[0], ctx.rule.slope(*at)), grad_q, None


class _BothWays(_Backwards):
    @staticmethod
    def jvp(ctx: Any, x: Tensor | None, q: Tensor | None, rule: None) -> Tensor:
        refuse_nested_forward_mode()
        at = ctx.saved_tensors
        push = torch.zeros_like(at[2]) if x is None else _product(x, ctx.rule.slope(*at))
        return push if q is None else push + _product(q, ctx.rule.slope_in_q(*at))


def _product(grad: Tensor, slope: Tensor) -> Tensor:
    nothing = (slope == 0) | ((grad == 0) & slope.isinf())  # 0 · ∞ is 0 here, not NaN
    return torch.where(nothing, 0.0, grad * slope)


def refuse_nested_forward_mode() -> None:
    """Raise an error for nested forward-mode derivatives, for which PyTorch returns zeros."""
    levels = [level.key() for level in torch._C._functorch.get_interpreter_stack() or ()]
    if levels.count(torch._C._functorch.TransformType.Jvp) > 1:
        raise RuntimeError(
            "jvp of jvp and jacfwd of jacfwd do not work with a torch.autograd.Function: "
            "use torch.func.hessian, or jacrev for one of the two"
        )
