"""The file of an agent: a zip archive of a JSON file and its arrays, checked when read.

``agent.json`` holds arguments and state, ``arrays.safetensors`` the arrays that it refers to.
Neither format can contain code; Stable-Baselines3's own files can, and are refused.
"""

import io
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import safetensors.numpy

from mviq.agents.codec import Arrays
from mviq.messages import error_line
from mviq.storage import write_durably

FORMAT, VERSION = "mviq-agent", 3
JSON_LIMIT = 2**24  # bytes; an agent needs a few thousand
Target = str | os.PathLike[str] | IO[bytes] | io.BufferedIOBase


def write_archive(path: Target, content: dict[str, Any], arrays: Arrays) -> None:
    """Write an agent; files are written atomically."""
    content = {"format": FORMAT, "version": VERSION, **content}
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as parts:
            text = json.dumps(content, allow_nan=False, indent=1).encode()
            files = {"agent.json": text, "arrays.safetensors": safetensors.numpy.save(arrays)}
            for name, data in files.items():
                info = zipfile.ZipInfo(name)  # without a date: the same agent gives the same bytes
                info.external_attr = 0o644 << 16  # readable where it is unpacked
                parts.writestr(info, data)
        if isinstance(path, str | os.PathLike):
            write_durably(with_suffix(path, ".zip"), buffer.getvalue())
        else:
            path.write(buffer.getvalue())


def read_archive(path: Target) -> tuple[dict[str, Any], Arrays]:
    """Return the content and the arrays of an agent's file, or raise an error if it is invalid."""
    if not isinstance(path, str | os.PathLike):
        if not hasattr(path, "seek"):  # as in Stable-Baselines3
            raise TypeError(f"an agent is read from a path or a file, got {path!r:.40}")
        return _read(path, path)
    with located(path, ".zip").open("rb") as file:
        return _read(file, path)


def _read(file: Any, path: Target) -> tuple[dict[str, Any], Arrays]:
    with blaming(path), zipfile.ZipFile(file) as parts:
        content = json.loads(_part(parts, "agent.json"), parse_constant=_no_constant)
        if not isinstance(content, dict):
            raise ValueError(f"agent.json must hold an object, it holds a {type(content).__name__}")
        if content.get("format") != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}, but {content.get('format')!r:.40}")
        if content.get("version") != VERSION:
            version = content.get("version")
            raise ValueError(f"it has format version {version!r:.40}, this mviq reads {VERSION}")
        return content, safetensors.numpy.load(_part(parts, "arrays.safetensors"))


@contextmanager
def blaming(path: Any) -> Iterator[None]:
    """Turn any exception in the block into a ``ValueError`` that names the file.

    For invalid data, torch, NumPy, Gymnasium and zipfile raise a dozen kinds of exceptions.
    """
    try:
        yield
    except Exception as error:
        reason = error_line(str(error).strip().split("\n")[0])
        if not isinstance(error, ValueError) or not reason:
            reason = f"{type(error).__name__} {reason}".strip()
        raise ValueError(f"{path} cannot be loaded as an mviq agent: {reason}") from error


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a member of an archive; compressed ones are refused, as they could be zip bombs."""
    if name not in archive.namelist():
        raise ValueError(_not_ours(name, archive.namelist()))
    part = archive.getinfo(name)
    if part.compress_type != zipfile.ZIP_STORED or part.file_size != part.compress_size:
        raise ValueError(f"{name} is compressed, which mviq does not do")
    if name.endswith(".json") and part.file_size > JSON_LIMIT:
        raise ValueError(f"{name} has {part.file_size} bytes, more than {JSON_LIMIT}")
    return archive.read(name)


def _not_ours(name: str, names: list[str]) -> str:
    if "data" in names:
        return (
            "it was saved by Stable-Baselines3, whose files hold pickled code, which mviq does "
            "not run; load it with Stable-Baselines3 and copy its policy.state_dict()"
        )
    return f"it has no {name}"


def _no_constant(name: str) -> None:
    raise ValueError(f"agent.json holds {name}, which is not JSON")


def with_suffix(path: str | os.PathLike[str], suffix: str) -> Path:
    """Return the path with a suffix, unless it has one."""
    path = Path(path)
    return path if path.suffix else path.with_suffix(suffix)


def located(path: str | os.PathLike[str], suffix: str) -> Path:
    """Return the path of an existing file, given with or without its suffix."""
    place = Path(path) if Path(path).is_file() else with_suffix(path, suffix)
    if not place.is_file():
        raise FileNotFoundError(f"no such file: {place}")
    return place
