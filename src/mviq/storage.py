"""Files that are there whole or not at all, whenever the process or the machine goes down."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Give a place to write to; its content appears under ``path`` at the end, durably.

    If the block fails nothing appears and nothing is left behind: a full disk needs the room.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write some bytes to a file that appears whole."""
    with appearing(path) as partial:
        partial.write_bytes(content)


def sync(path: Path) -> None:
    """Make the content of a file durable, or the names in a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
