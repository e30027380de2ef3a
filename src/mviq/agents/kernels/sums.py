"""A sum tree in an array: node 1 is the root, and the second half of the array holds the leaves.

A node is always computed as the sum of its children, so the leaves determine the tree bit for bit.
"""

from mviq.tsallis.kernels.compiling import Floats, Integers, compiled


@compiled
def sum_up(tree: Floats) -> None:
    """Compute all inner nodes from the leaves."""
    for node in range(tree.size // 2 - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]


@compiled
def set_leaves(tree: Floats, leaves: Integers, values: Floats) -> None:
    """Set leaves, one after the other, and update the nodes above them."""
    for k in range(leaves.size):
        node = tree.size // 2 + leaves[k]
        tree[node] = values[k]
        while node > 1:
            node //= 2
            tree[node] = tree[2 * node] + tree[2 * node + 1]


@compiled
def find_leaves(tree: Floats, places: Floats, leaves: Integers) -> None:
    """Write the leaf at which the cumulative sum exceeds each of ``places``, in [0, total).

    A leaf of zero is never chosen, whatever the rounding errors.
    """
    for k in range(places.size):
        node, rest = 1, places[k]
        while node < tree.size // 2:
            node *= 2
            if rest >= tree[node] and tree[node + 1] > 0:
                rest -= tree[node]
                node += 1
        leaves[k] = node - tree.size // 2
