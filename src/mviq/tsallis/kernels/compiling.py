"""Decorators that compile kernels with numba."""

import hashlib
import inspect
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


def compiled(function: F) -> F:
    """Compile without numba's reference counting of arrays.

    Counting references to the scratch arrays took half the time of a short row. These kernels
    allocate nothing, so they do not need it. numba's type stubs lack the option.
    """
    return _compile(function, {"_nrt": False})


def compiled_part(function: F) -> F:
    """Compile like ``compiled``, for a function that only other kernels call."""
    return _compile(function, {"_nrt": False}, part=True)


def compiled_in_place(function: F) -> F:
    """Inline a function into the one kernel that calls it.

    numba optimises callees again with their caller, so one call level less compiles faster.
    """
    return _compile(function, {"_nrt": False, "inline": "always"}, part=True)


def compiled_with(fastmath: Any = False, part: bool = False) -> Callable[[F], F]:
    """Compile a function that may allocate arrays; only other kernels may call a ``part``."""
    return lambda function: _compile(function, {"fastmath": fastmath}, part)


def _compile(function: F, extra: dict[str, Any], part: bool = False) -> F:
    """Compile a kernel, with a Python wrapper and an on-disk cache unless it is a ``part``.

    A part is cached with its callers. Leaving the Python wrapper out saves a tenth of the compile
    time, but a call from Python would then crash the process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": part}
    kept = {} if part else {"cache": True}
    plain = {name: value for name, value in extra.items() if name != "_nrt"}
    attempts: tuple[dict[str, Any], ...] = (
        extra | kept,
        extra,  # no writable cache folder: compile in every process
        plain | kept,  # a numba without the option: slower, same results
        plain,
    )
    for attempt in attempts:
        try:
            kernel: Any = numba.njit(**options, **attempt)(function)
            if "cache" in attempt:
                kernel._cache._cache_file._source_stamp = _sources(inspect.getfile(function))
            return cast(F, kernel)
        except (AttributeError, RuntimeError, KeyError, ValueError, TypeError) as error:
            refusal = error
    raise refusal


@cache
def _sources(file: str) -> str:
    """Return a digest of the files a kernel may call: those in its folder and in this one.

    numba itself recompiles when a kernel's own file changes, but not when the file of a callee
    does. Unlike a modification time, a digest does not change when the package is reinstalled.
    """
    folders = dict.fromkeys(Path(path).parent for path in (file, __file__))
    texts = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
