"""Patterns such as ``MVI*`` that select runs by name."""

from collections.abc import Collection
from fnmatch import fnmatchcase


def is_like(names: Collection[str], pattern: str) -> bool:
    """Return whether a pattern equals or matches one of the names.

    >>> is_like(["MVI(2)", "CartPole-v1"], "MVI*"), is_like(["a[1]"], "a[1]"), is_like(["a"], "b*")
    (True, True, False)
    """
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)
