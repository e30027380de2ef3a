"""Compiled loops of an update: gather transitions, layers forward and backward, target, loss, Adam.

``replay``, ``compiled``, ``update`` and ``losses`` state what they compute. Single precision.
"""

from mviq.agents.kernels.layers import adam, backward, forward, patches, prepare
from mviq.agents.kernels.losses import quantile_huber
from mviq.agents.kernels.targets import bellman_rows
from mviq.agents.kernels.transitions import gather

__all__ = [
    "adam",
    "backward",
    "bellman_rows",
    "forward",
    "gather",
    "patches",
    "prepare",
    "quantile_huber",
]
