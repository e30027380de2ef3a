"""How the kernels are compiled."""

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


def compiled(function: F) -> F:
    """Compile without the runtime that counts references to arrays.

    Counting those to the scratch arrays took half the time of a short row. Nothing is allocated
    in here, so there is nothing to count; the option is numba's, though not in its type stubs.
    """
    return _compile(function, {"_nrt": False})


def compiled_part(function: F) -> F:
    """Compile as ``compiled`` does, but only for other kernels to call."""
    return _compile(function, {"_nrt": False}, part=True)


def compiled_in_place(function: F) -> F:
    """Compile as lines of the one kernel that calls it.

    All that a kernel calls is optimised again with it, so a level less of calls is faster compiled.
    """
    return _compile(function, {"_nrt": False, "inline": "always"}, part=True)


def compiled_with(fastmath: Any = False, part: bool = False) -> Callable[[F], F]:
    """Compile a function that allocates arrays; a part is called by other kernels only."""
    return lambda function: _compile(function, {"fastmath": fastmath}, part)


def _compile(function: F, extra: dict[str, Any], part: bool = False) -> F:
    """Compile a kernel: for Python and with a cache, unless it is a part of others.

    A part is cached with those that call it. What Python needs in order to call a kernel takes a
    tenth of the time of compiling; without it, a call from Python would end the process.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    options |= {"no_cfunc_wrapper": True, "no_cpython_wrapper": part}
    kept = {} if part else {"cache": True}
    plain = {name: value for name, value in extra.items() if name != "_nrt"}
    attempts: tuple[dict[str, Any], ...] = (
        extra | kept,
        extra,  # nowhere to write the cache: compile in every process
        plain | kept,  # a numba without the option: slower, otherwise the same
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
    """Return a digest of what a kernel may call: its own package and this one.

    By itself numba compiles again when the file of a kernel changes, and not when one that it
    calls does. A digest, unlike a date, stays the same when the package is installed again.
    """
    folders = dict.fromkeys(Path(path).parent for path in (file, __file__))
    texts = [path.read_bytes() for folder in folders for path in sorted(folder.glob("*.py"))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()
