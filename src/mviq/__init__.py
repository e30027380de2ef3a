"""MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence."""

from importlib.metadata import version

__version__ = version("mviq")
