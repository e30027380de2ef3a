"""One training run: configure it, start it, stop it, resume it exactly, evaluate it, watch it."""

from mviq.runs.config import Config
from mviq.runs.presets import PRESETS, resolve

__all__ = ["PRESETS", "Config", "resolve"]
