"""How the processor computes: number of threads, denormal numbers, BLAS libraries."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import scipy
import torch
from threadpoolctl import ThreadpoolController
from torch.optim import Optimizer

_SMALL = np.float32(1e-37)  # normal; a hundredth of it is denormal


class _Limit:
    """The limit on BLAS threads that ``blas_threads_of_torch`` has set, None if there is none."""

    now: int | None = None


def machine_memory() -> float:
    """Return the memory of the machine in bytes, infinity if it is unknown."""
    if not hasattr(os, "sysconf"):
        return math.inf
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Set the number of PyTorch's threads, on which the last bits of sums depend.

    For small tensors one thread is fastest: waking others costs more than the work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def blas_threads_of_torch() -> Iterator[None]:
    """Let BLAS, which compiled code calls, use at most as many threads as PyTorch."""
    most = torch.get_num_threads()
    if most == _Limit.now:  # nested in another such context
        yield
        return
    counted = [(blas, blas.get_num_threads()) for blas in _blas_libraries()]
    before = [(blas, number) for blas, number in counted if number > most]
    outer, _Limit.now = _Limit.now, most
    for blas, _ in before:
        blas.set_num_threads(most)
    try:
        yield
    finally:
        _Limit.now = outer
        for blas, number in before:
            blas.set_num_threads(number)


# Why denormal numbers are flushed: the gradient of a unit that has died is zero, so Adam's moving
# average of it decays for ever. After a few hundred updates a tenth of the moments of a small
# network are denormal, below about 1e-38, and a step takes seven times as long.
@contextmanager
def quick_arithmetic() -> Iterator[None]:
    """Flush denormal numbers to zero, and let BLAS use at most as many threads as PyTorch."""
    flushed = are_flushed()
    torch.set_flush_denormal(True)
    try:
        with blas_threads_of_torch():
            yield
    finally:
        torch.set_flush_denormal(flushed)


def are_flushed() -> bool:
    """Return whether denormal numbers are treated as zero."""
    with np.errstate(under="ignore"):
        return bool(_SMALL * np.float32(0.01) == 0)


@cache
def _blas_libraries() -> list[Any]:
    import scipy.linalg.cython_blas  # noqa: F401 - the library that numba's np.dot calls

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def arithmetic() -> dict[str, Any]:
    """Return the processor, BLAS libraries and GPUs, which all round differently."""
    built = {
        name: library.show_config(mode="dicts")["Build Dependencies"]["blas"]
        for name, library in (("NumPy", np), ("SciPy", scipy))
    }
    blas = [f"{own['name']} {own['version']} in {name}" for name, own in built.items()]
    mkl = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return {
        "processor": torch.backends.cpu.get_cpu_capability(),
        "blas": [*blas, *["MKL in PyTorch"] * mkl],
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
    }


def do_without_dynamo() -> None:
    """Prevent optimisers from importing ``torch._dynamo``, which takes longer than everything else.

    They import it when first used, to exempt these methods from ``torch.compile``. Call this only
    in mviq's own processes that do not compile, such as that of a run.
    """
    for name in ("add_param_group", "load_state_dict", "state_dict", "zero_grad"):
        method = getattr(getattr(Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, "__dynamo_disable"):
            setattr(method, "__dynamo_disable", method)
