"""Compiled loops of an update: gather transitions, layers forward and backward, target, loss, Adam.

``replay``, ``compiled``, ``update`` and ``losses`` state what they compute. Single precision.
"""

from mviq.agents.kernels.convolution import padded
from mviq.agents.kernels.layers import prepare
from mviq.agents.kernels.learning import predict, update
from mviq.agents.kernels.losses import quantile_huber
from mviq.agents.kernels.transitions import gather

__all__ = ["gather", "padded", "predict", "prepare", "quantile_huber", "update"]
