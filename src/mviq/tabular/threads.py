"""Threads, and why the work on small pieces stays in one."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep PyTorch from spreading small work over threads: waking them costs more than the work.

    On a busy machine one logarithm of a hundred numbers was seen to wait 20 ms for them.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
