"""Atomic, durable writes: no file is left incomplete if the process or the machine crashes."""

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end it is synced and renamed to ``path``.

    If the block fails, the temporary file is deleted: a full disk needs the space.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        sync(partial)
        partial.replace(path)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno and error.filename is None:
            error.filename = str(path)  # a write error does not name the file
        raise
    sync(path.parent)


def write_durably(path: Path, content: bytes) -> None:
    """Write bytes to a file, atomically and durably."""
    with appearing(path) as partial:
        partial.write_bytes(content)


def sync(path: Path) -> None:
    """Flush the content of a file, or the entries of a directory, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def json_bytes(content: Any, indent: int) -> bytes:
    """Return the content as JSON; NaN becomes null, and ±∞ the strings ``inf`` and ``-inf``."""
    text = json.dumps(_plain(content), indent=indent, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def check_writable(directory: Path) -> None:
    """Raise OSError unless files can be written into the directory, existing or still to be made.

    >>> check_writable(Path(__file__) / "figures")
    Traceback (most recent call last):
    NotADirectoryError: ...storage.py is not a directory
    """
    place = directory.absolute()
    while not place.exists():
        place = place.parent
    if not place.is_dir():
        raise NotADirectoryError(f"{place} is not a directory")
    if not os.access(place, os.W_OK | os.X_OK):
        raise PermissionError(f"{place} is not writable")


def write_files(contents: Mapping[str, bytes], directory: Path, force: bool = False) -> list[Path]:
    """Write files into a directory, each atomically, and return their paths.

    A file that already has this content is left as it is. If one has different content,
    ``FileExistsError`` is raised before anything is written, unless ``force``.
    """
    check_writable(directory)
    directory.mkdir(parents=True, exist_ok=True)
    stale = [
        directory / name
        for name, content in contents.items()
        if (directory / name).exists() and (directory / name).read_bytes() != content
    ]
    if stale and not force:
        raise FileExistsError(f"{stale[0]} exists with other content")
    for name, content in contents.items():
        if not (directory / name).exists() or directory / name in stale:
            write_durably(directory / name, content)
    return [directory / name for name in contents]
