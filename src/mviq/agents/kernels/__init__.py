"""Numba kernels of an update: copy transitions, forward and backward pass, target, loss, Adam.

The modules ``replay``, ``compiled``, ``update`` and ``losses`` say what they compute. Networks,
targets and gradients are in single precision.
"""

from mviq.agents.kernels.convolution import padded
from mviq.agents.kernels.layers import Embedded, EmbeddedGradients, prepare
from mviq.agents.kernels.learning import predict, update
from mviq.agents.kernels.losses import quantile_huber
from mviq.agents.kernels.transitions import gather

__all__ = [
    "Embedded",
    "EmbeddedGradients",
    "gather",
    "padded",
    "predict",
    "prepare",
    "quantile_huber",
    "update",
]
