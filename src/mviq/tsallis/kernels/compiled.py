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
    options: Any = {"nogil": True, "error_model": "numpy", "_nrt": False}
    try:
        return cast(F, numba.njit(cache=True, **options)(function))
    except RuntimeError:  # nowhere to write the cache: compile in every process
        return cast(F, numba.njit(**options)(function))
