"""How the kernels are compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
Floats = NDArray[np.floating[Any]]


def compiled(function: F) -> F:
    """Compile without the runtime that counts references to arrays.

    Counting those to the scratch arrays took half the time of a short row. Nothing is allocated
    in here, so there is nothing to count; the option is numba's, though not in its type stubs.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    attempts: tuple[dict[str, Any], ...] = (
        {"cache": True, "_nrt": False},
        {"_nrt": False},  # nowhere to write the cache: compile in every process
        {"cache": True},  # a numba without the option: slower, otherwise the same
        {},
    )
    for attempt in attempts:
        try:
            return cast(F, numba.njit(**options, **attempt)(function))
        except (RuntimeError, KeyError, ValueError, TypeError) as error:
            refusal = error
    raise refusal
