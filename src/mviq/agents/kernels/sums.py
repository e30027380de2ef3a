"""A binary tree of sums: node 1 is the root, and the second half of the array are the leaves.

A node is always the sum of its two children, so all bits of a tree follow from those of its leaves.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mviq.tsallis.kernels.compiling import compiled

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@compiled
def sum_up(tree: Floats) -> None:
    """Write all sums, from the leaves to the root."""
    for node in range(tree.size // 2 - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@compiled
def set_leaves(tree: Floats, leaves: Integers, values: Floats) -> None:
    """Set leaves, one after the other, and the sums above them."""
    for k in range(leaves.size):
        node = tree.size // 2 + leaves[k]
        tree[node] = values[k]
        while node > 1:
            node //= 2
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@compiled
def find_leaves(tree: Floats, places: Floats, leaves: Integers) -> None:
    """Write the leaves at which the running sum of all leaves passes places in [0, total).

    A leaf of zero is never found, however a sum was rounded.
    """
    for k in range(places.size):
        node, rest = 1, places[k]
        while node < tree.size // 2:
            node *= 2
            if rest >= tree[node] and tree[node + 1] > 0:
                rest -= tree[node]
                node += 1
        leaves[k] = node - tree.size // 2
