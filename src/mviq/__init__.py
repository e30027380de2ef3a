"""MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence."""


def __getattr__(name: str) -> str:
    """Return the version, which takes as long to look up as all else that a command first needs."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("mviq")
