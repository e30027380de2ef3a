"""Argument checks; the message names the value and what is allowed."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mviq.arrays import Floats


def as_scores(name: str, scores: ArrayLike) -> Floats:
    """Return scores ``(..., runs, tasks)`` as floats; NaN marks a missing run.

    >>> as_scores("scores", [1.0, 2.0])
    Traceback (most recent call last):
    ValueError: scores must have shape (..., runs, tasks), got shape (2,)
    """
    return _as_array(name, scores, least_axes=2, shape="(..., runs, tasks)")


def as_curves(name: str, curves: ArrayLike) -> Floats:
    """Return learning curves ``(runs, tasks, points)`` as floats; NaN marks a missing one."""
    array = _as_array(name, curves, least_axes=3, shape="(runs, tasks, points)")
    if array.ndim != 3:
        raise ValueError(f"{name} must have shape (runs, tasks, points), got shape {array.shape}")
    return array


def _as_array(name: str, values: ArrayLike, *, least_axes: int, shape: str) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers of shape {shape}, got {values!r:.80}") from None
    if array.ndim < least_axes:
        raise ValueError(f"{name} must have shape {shape}, got shape {array.shape}")
    if array.size == 0:
        raise ValueError(f"{name} must have at least one run and one task, got shape {array.shape}")
    if np.isinf(array).any():
        infinite = array[np.isinf(array)][0]
        raise ValueError(f"{name} must be finite, or NaN for a missing run, got {infinite}")
    return array


def as_increasing(name: str, values: ArrayLike) -> Floats:
    """Return a vector of finite, strictly increasing numbers."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a vector of numbers, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    if (np.diff(array) <= 0).any():
        at = int(np.argmax(np.diff(array) <= 0))
        raise ValueError(f"{name} must increase, got {array[at]:g} before {array[at + 1]:g}")
    return array


def check_same_tasks(first: str, a: Floats, second: str, b: Floats) -> None:
    """Require two score arrays to have the same number of tasks."""
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"{first} and {second} must have the same tasks, got {a.shape[-1]} and {b.shape[-1]}"
        )


def check_at_least(name: str, value: int, least: int) -> None:
    """Require an integer from ``least`` upwards."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Require one of the allowed values."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")
