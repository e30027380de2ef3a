"""MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence."""

TYPE_CHECKING = False  # as in typing, which would have to be imported
if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name):
        """Return the version: looking it up takes as long as all else that a command needs."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("mviq")
