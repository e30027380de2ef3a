"""Deep MVI(q) agents with the interface of Stable-Baselines3."""

from mviq.agents.codec import register
from mviq.agents.diagnostics import DivergenceError
from mviq.agents.extractors import MinAtarCNN, RescaledCombinedExtractor, RescaledExtractor
from mviq.agents.impala import ImpalaCNN
from mviq.agents.iqmvi import IQMVI
from mviq.agents.losses import quantile_huber_loss
from mviq.agents.mvi import MVI
from mviq.agents.prioritized import PrioritizedFrameReplayBuffer, PrioritizedReplayBuffer
from mviq.agents.qrmvi import QRMVI
from mviq.agents.replay import FrameReplayBuffer
from mviq.agents.targets import bellman_target
from mviq.env_families import register_minatar

Agent = MVI | QRMVI | IQMVI

__all__ = [
    "IQMVI",
    "MVI",
    "QRMVI",
    "Agent",
    "DivergenceError",
    "FrameReplayBuffer",
    "ImpalaCNN",
    "MinAtarCNN",
    "PrioritizedFrameReplayBuffer",
    "PrioritizedReplayBuffer",
    "RescaledCombinedExtractor",
    "RescaledExtractor",
    "bellman_target",
    "quantile_huber_loss",
    "register",
]

register_minatar()  # so that agents accept ids such as MinAtar/Breakout-v1
