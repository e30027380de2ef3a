"""Numbers too small to matter, which the processor is slow with."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def flushed() -> Iterator[None]:
    """Treat denormal numbers, below about 1e-38, as zero while it lasts.

    The gradient of a unit that has died is zero, so Adam's moving average of it decays for ever:
    after a few hundred updates a tenth of the moments of a small network are denormal, and a
    step takes seven times as long.
    """
    if _are_flushed():
        yield
        return
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


_SMALL = np.float32(1e-37)  # normal, but not its hundredth


def _are_flushed() -> bool:
    return bool(_SMALL * np.float32(0.01) == 0)
