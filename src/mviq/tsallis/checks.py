"""Argument checks: the error names the bad value and what is allowed, before any computation."""

import math
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor

Scalar: TypeAlias = float | Tensor
"""One number, or a tensor of numbers that broadcasts over the batch (not over the actions)."""

_SUM_TOLERANCE = 1e-6  # as in torch.distributions
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def check_floating(name: str, x: Tensor) -> None:
    """Require a tensor of floating-point numbers."""
    if not isinstance(x, Tensor):
        raise ValueError(f"{name} must be a torch tensor, got {type(x).__name__}")
    if x.dtype not in _DTYPES:
        raise ValueError(f"{name} must have a floating-point dtype, got {x.dtype}")


def check_last_axis(name: str, x: Tensor) -> None:
    """Require a tensor of floating-point numbers with at least one action on its last axis."""
    check_floating(name, x)
    if x.dim() == 0 or x.shape[-1] == 0:
        raise ValueError(
            f"{name} must have at least one action on its last axis, got shape {tuple(x.shape)}"
        )


def check_positive(name: str, x: Scalar, *, infinity: bool) -> Scalar:
    """Require numbers > 0, ∞ only with ``infinity``, and return them."""
    if infinity:
        return _check_number(name, x, 0.0, True, "a number > 0, infinity included")
    return _check_number(name, x, 0.0, False, "a finite number > 0")


def check_finite(name: str, x: Scalar) -> Scalar:
    """Require finite numbers, and return them."""
    return _check_number(name, x, -math.inf, False, "a finite number")


def _check_number(name: str, x: Scalar, above: float, infinity: bool, allowed: str) -> Scalar:
    if isinstance(x, Tensor):
        check_floating(name, x)
        good = (x > above) & (infinity | (x < math.inf))  # false for NaN
        require(good, x, f"{name} must be {allowed}")
        return x
    given: object = x  # callers may ignore the annotation
    if isinstance(given, bool) or not isinstance(given, Real):
        raise ValueError(f"{name} must be {allowed}, got {given!r}")
    try:
        number = float(given)
    except OverflowError:
        raise ValueError(f"{name} must be {allowed}, got one too large for a float") from None
    if not (number > above and (infinity or number < math.inf)):
        raise ValueError(f"{name} must be {allowed}, got {number:g}")
    return number


def check_temperature(temperature: Scalar, dtype: torch.dtype) -> None:
    """Require a positive temperature to be a normal number in the dtype of the values."""
    smallest, largest = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    if isinstance(temperature, Tensor):
        good = (temperature >= smallest) & (temperature <= largest)
        require(good, temperature, _temperatures(dtype))
    elif not smallest <= temperature <= largest:
        raise ValueError(f"{_temperatures(dtype)}, got {temperature:g}")


def _temperatures(dtype: torch.dtype) -> str:
    smallest, largest = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    return f"temperature must be in [{smallest:.3g}, {largest:.3g}] for values in {dtype}"


def check_same_actions(name: str, x: Tensor, other_name: str, other: Tensor) -> None:
    """Require as many actions on the last axis of ``x`` as on that of ``other``."""
    if x.shape[-1] != other.shape[-1]:
        raise ValueError(
            f"{name} must have the {other.shape[-1]} actions of {other_name}, got {x.shape[-1]}"
        )


def common_shape(**shapes: tuple[int, ...]) -> torch.Size:
    """Return the shape that named shapes broadcast to."""
    try:
        # torch.broadcast_shapes would import SymPy, which takes half a second.
        same = torch.broadcast_tensors(*(torch.zeros(()).expand(s) for s in shapes.values()))  # type: ignore[no-untyped-call]
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"shapes must broadcast, got {listed}") from None
    return torch.Size(same[0].shape)


def check_available(values: Tensor, prior: Tensor | None = None) -> None:
    """Require values below +inf, and in every row an action with a value above −inf."""
    allowed = "finite, or -inf for an action that is not available"
    require(values < math.inf, values, f"values must be {allowed}")  # also catches NaN
    possible = values if prior is None else torch.where(prior > 0, values, -math.inf)
    where = "" if prior is None else " with a positive prior"
    best = possible.amax(-1)
    require(best > -math.inf, best, f"values must have an available action{where} in every row")


def check_maximum(maximum: Tensor, values: Tensor, prior: Tensor | None = None) -> None:
    """Check the values only if a row maximum is not finite, to keep the usual call fast."""
    if not math.isfinite(maximum.sum().item()):
        check_available(values, prior)


def check_distribution(name: str, p: Tensor) -> None:
    """Require rows that are non-negative and sum to one."""
    check_last_axis(name, p)
    require(p >= 0, p, f"{name} must be non-negative")  # also catches NaN
    total = p.to(wide_dtype(p)).sum(-1)
    tolerance = max(_SUM_TOLERANCE, torch.finfo(p.dtype).eps)  # each rounded by at most eps/2
    good = (total - 1).abs() <= tolerance
    require(good, total, f"{name} must sum to one over its last axis")


def require(good: Tensor, x: Tensor, statement: str) -> None:
    """Raise a ValueError unless ``good`` holds everywhere, naming the first bad entry of ``x``."""
    if torch.compiler.is_compiling():  # no values yet: the graph asserts at run time
        torch._assert_async(good.all(), statement)
    elif not unwrapped(good).all():
        found = "" if unwrapped(good) is not good else f", got {first_where(~good, x)}"
        raise ValueError(statement + found)


def unwrapped(x: Tensor) -> Tensor:
    """Return the plain tensor inside the wrapper that a torch.func transform passes."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return x


def first_where(mask: Tensor, x: Tensor) -> str:
    """Return the first element of ``x`` where ``mask`` holds, with its index, for a message."""
    place = mask.nonzero()[0].tolist()
    value = x.expand(mask.shape)[tuple(place)].item()
    return f"{value:.9g} at {place}" if place else f"{value:.9g}"


def wide_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which to compute: half precision is computed in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
