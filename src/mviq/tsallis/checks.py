"""Argument checks: a bad value is named, with what is allowed, before any work starts."""

import math
import sys
from typing import TypeAlias

import torch
from torch import Tensor

Scalar: TypeAlias = float | Tensor
"""One number, or a tensor of numbers that broadcasts over the batch (not over the actions)."""

_SUM_TOLERANCE = 1e-6  # as torch.distributions
_LARGEST = sys.float_info.max
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


def check_positive(name: str, x: Scalar, *, infinity: bool) -> None:
    """Require numbers > 0; ``infinity`` says whether infinity is one of them."""
    if infinity:
        _check_number(name, x, 0.0, math.inf, "a number > 0, infinity included")
    else:
        _check_number(name, x, 0.0, _LARGEST, "a finite number > 0")


def check_finite(name: str, x: Scalar) -> None:
    """Require finite numbers."""
    _check_number(name, x, -math.inf, _LARGEST, "a finite number")


def _check_number(name: str, x: Scalar, above: float, up_to: float, allowed: str) -> None:
    if isinstance(x, Tensor):
        check_floating(name, x)
        good = (x > above) & (x <= up_to)  # false for NaN
        if not good.all():
            raise ValueError(f"{name} must be {allowed}, got {first_where(~good, x):g}")
    elif isinstance(x, bool) or not isinstance(x, int | float):
        raise ValueError(f"{name} must be {allowed}, got {x!r}")
    elif not above < x <= up_to:
        raise ValueError(f"{name} must be {allowed}, got {x:g}")


def check_available(values: Tensor, prior: Tensor | None = None) -> None:
    """Require values below +inf, and in every row an action with a value above −inf."""
    bad = ~(values < math.inf)  # NaN or +inf
    if bad.any():
        raise ValueError(
            "values must be finite, or -inf for an action that is not available, "
            f"got {first_where(bad, values)}"
        )
    available = values > -math.inf if prior is None else (values > -math.inf) & (prior > 0)
    if not available.any(-1).all():
        where = "" if prior is None else " with a positive prior"
        raise ValueError(
            f"values must have an available action{where} in every row, got a row of -inf"
        )


def check_maximum(maximum: Tensor, values: Tensor, prior: Tensor | None = None) -> None:
    """Check the values only if their row maxima look wrong: the path of every call stays short."""
    if not math.isfinite(maximum.sum().item()):
        check_available(values, prior)


def check_distribution(name: str, p: Tensor) -> None:
    """Require rows that are non-negative and sum to one."""
    check_last_axis(name, p)
    if not (p >= 0).all():  # also catches NaN
        raise ValueError(f"{name} must be non-negative, got {first_where(~(p >= 0), p)}")
    total = p.to(wide_dtype(p)).sum(-1)
    tolerance = max(_SUM_TOLERANCE, 8 * p.shape[-1] ** 0.5 * torch.finfo(p.dtype).eps)
    off = (total - 1).abs() > tolerance
    if off.any():
        raise ValueError(
            f"{name} must sum to one over its last axis, got {first_where(off, total):.9g}"
        )


def first_where(mask: Tensor, x: Tensor) -> float:
    """Return the first element of ``x`` at which ``mask`` holds, for an error message."""
    return float(x.expand(mask.shape)[mask].flatten()[0].item())


def wide_dtype(x: Tensor) -> torch.dtype:
    """Return the dtype in which to compute: half precision is computed in float32."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32
