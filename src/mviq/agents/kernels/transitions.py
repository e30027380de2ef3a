"""Copy a batch of transitions from a replay buffer."""

import numpy as np
from numpy.typing import NDArray

from mviq.tsallis.kernels.compiling import Floats, compiled_with

Bytes = NDArray[np.uint8]


@compiled_with()
def gather(
    stored: tuple[Bytes, ...],
    rewards: Floats,
    dones: Floats,
    timeouts: Floats,
    rows: NDArray[np.int64],
    found: tuple[Bytes, ...],
    found_rewards: Floats,
    found_ends: Floats,
) -> None:
    """Copy the given rows of byte arrays and rewards, and of dones, with 0 for timeouts."""
    for i in range(rows.size):
        row = rows[i]
        for k in range(len(stored)):
            for byte in range(stored[k].shape[1]):
                found[k][i, byte] = stored[k][row, byte]
        found_rewards[i, 0] = rewards[row]
        found_ends[i, 0] = dones[row] * (1 - timeouts[row])
