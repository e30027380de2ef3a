"""What people call runs by: a name, or a pattern like MVI*."""

from collections.abc import Collection
from fnmatch import fnmatchcase


def is_like(names: Collection[str], pattern: str) -> bool:
    """Return whether a pattern is one of some names, or matches one.

    >>> is_like(["MVI(2)", "CartPole-v1"], "MVI*"), is_like(["a[1]"], "a[1]"), is_like(["a"], "b*")
    (True, True, False)
    """
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)
