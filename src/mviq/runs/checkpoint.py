"""Checkpoints: atomic, checked when read, and for a large replay buffer incremental.

    checkpoints/step_000020000/manifest.json         what belongs to it, with SHA-256
    checkpoints/step_000020000/state.json            everything but arrays
    checkpoints/step_000020000/arrays.safetensors    weights, optimiser, generators, …
    checkpoints/replay/rows-….safetensors            the replay buffer, shared by checkpoints

A checkpoint exists when its directory has its name: the directory is renamed when all is
written. A file that is damaged is named, and the checkpoint before it is used.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors.numpy
from safetensors import SafetensorError

from mviq.agents.codec import Arrays
from mviq.runs import replay_log
from mviq.runs.directory import RunError
from mviq.runs.replay_log import Ring, Segment
from mviq.runs.tables import Mark
from mviq.storage import digest, file_digest, sync, write_durably

KEPT = 2  # the newest, and the one before it in case the newest is damaged
VERSION = 3


@dataclass(frozen=True)
class Checkpoint:
    """What is known at a step: a tree of plain values, arrays, and where the tables end."""

    step: int
    tree: Any
    arrays: Arrays
    tables: dict[str, Mark]
    segments: list[Segment] = field(default_factory=list)


class DamagedError(RunError):
    """A file of a checkpoint is not as it was written."""


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, path: Path) -> None:
        self.path, self.replay = path, path / "replay"
        self._segments: list[Segment] = []  # of the checkpoint that was written or read last

    def write(self, checkpoint: Checkpoint, rings: Sequence[Ring]) -> None:
        """Write a checkpoint and remove those that are no longer needed."""
        for place in (self.path, self.replay):
            place.mkdir(exist_ok=True)  # not its parents: a run that was removed stays removed
        sync(self.path.parent)
        segments = [
            segment
            for ring in rings
            for segment in replay_log.append(self.replay, ring, self._segments)
        ]
        final = self._place(checkpoint.step)
        partial = final.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        try:
            self._write_files(partial, checkpoint, segments)
        except OSError:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        shutil.rmtree(final, ignore_errors=True)  # of this step, but before its evaluation
        partial.rename(final)
        sync(self.path)
        self._segments = segments
        self._prune()

    def _write_files(self, place: Path, checkpoint: Checkpoint, segments: list[Segment]) -> None:
        files = {
            "state.json": json.dumps(checkpoint.tree, allow_nan=False).encode(),
            "arrays.safetensors": safetensors.numpy.save(checkpoint.arrays),
        }
        for name, content in files.items():
            write_durably(place / name, content)
        manifest = {
            "version": VERSION,
            "step": checkpoint.step,
            "files": {name: digest(content) for name, content in files.items()},
            "segments": [asdict(segment) for segment in segments],
            "tables": {name: asdict(mark) for name, mark in checkpoint.tables.items()},
        }
        signed = {"manifest": manifest, "sha256": _own_digest(manifest)}
        write_durably(place / "manifest.json", json.dumps(signed, indent=1).encode())

    def newest(
        self, tables: Callable[[dict[str, Mark]], None], warn: Callable[[str], None]
    ) -> Checkpoint | None:
        """Return the newest checkpoint that is whole, having warned of each that is not.

        ``tables`` checks the tables against what the checkpoint says of them. Where there are
        checkpoints and none is whole, that is for a person to decide: nothing is touched.
        """
        damage = ""
        for place in reversed(self._places()):
            try:
                checkpoint = self._read(place)
                tables(checkpoint.tables)
            except DamagedError as error:
                damage = str(error)
                warn(f"{damage}; trying the checkpoint before it")
                continue
            for later in self._places():
                if later.name > place.name:
                    shutil.rmtree(later)
            self._segments = checkpoint.segments
            return checkpoint
        if damage:
            raise DamagedError(
                f"{damage}, and so are all others; remove {self.path} to begin again"
            )
        return None

    def fill(self, ring: Ring) -> None:
        """Fill a ring of the replay buffer from the checkpoint that was read."""
        replay_log.read(self.replay, ring, self._segments)

    def _read(self, place: Path) -> Checkpoint:
        manifest = _manifest(place)
        for name, expected in manifest["files"].items():
            _check(place / name, expected)
        segments = [Segment(**segment) for segment in manifest["segments"]]
        for segment in segments:
            _check(self.replay / segment.file, segment.sha256)
        try:
            arrays = safetensors.numpy.load_file(place / "arrays.safetensors")
        except SafetensorError as error:
            raise DamagedError(f"{place / 'arrays.safetensors'} is damaged: {error}") from None
        tree = json.loads((place / "state.json").read_bytes())
        tables = {name: Mark(**mark) for name, mark in manifest["tables"].items()}
        return Checkpoint(manifest["step"], tree, arrays, tables, segments)

    def _place(self, step: int) -> Path:
        return self.path / f"step_{step:012d}"

    def _places(self) -> list[Path]:
        return sorted(p for p in self.path.glob("step_*") if p.suffix != ".partial")

    def _prune(self) -> None:
        """Remove old and unfinished checkpoints, and replayed items that none refers to."""
        for place in (*self._places()[:-KEPT], *self.path.glob("*.partial")):
            shutil.rmtree(place)
        needed = set()
        for place in self._places():
            try:
                needed |= {segment["file"] for segment in _manifest(place)["segments"]}
            except DamagedError:
                return  # it may need any of them
        for file in self.replay.iterdir():
            if file.name not in needed:
                file.unlink()

    def remove(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self.path, ignore_errors=True)


def _manifest(place: Path) -> dict[str, Any]:
    file = place / "manifest.json"
    try:
        content = json.loads(file.read_bytes())
        manifest: dict[str, Any] = content["manifest"]
        whole, version = content["sha256"] == _own_digest(manifest), manifest["version"]
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing") from None
    except (ValueError, KeyError, TypeError):
        whole = False
    if not whole:
        raise DamagedError(f"{file} is damaged")
    if version != VERSION:
        raise RunError(
            f"{place} has format version {version!r:.40}, this mviq reads {VERSION}; finish the "
            f"run with the mviq that began it, or remove {place.parent} to begin again"
        )
    return manifest


def _own_digest(manifest: dict[str, Any]) -> str:
    return digest(json.dumps(manifest, sort_keys=True).encode())


def _check(file: Path, expected: str) -> None:
    if not file.is_file():
        raise DamagedError(f"{file} is missing")
    if file_digest(file) != expected:
        raise DamagedError(f"{file} is damaged: its SHA-256 is not that of the manifest")
