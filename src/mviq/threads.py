"""The number of threads of PyTorch."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch compute on a number of threads; sums depend on it in their last bits.

    For small tensors one thread is fastest: waking others costs more than the work.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
