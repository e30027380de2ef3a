"""MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence."""

TYPE_CHECKING = False  # as in typing, without importing it
if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name):
        """Return the version, only when needed: that takes as long as the rest of a command."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("mviq")
