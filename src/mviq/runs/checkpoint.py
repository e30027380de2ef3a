"""Checkpoints: written atomically, verified when read, incremental for the replay buffer.

    checkpoints/step_000020000/manifest.json         its files, with SHA-256
    checkpoints/step_000020000/state.json            everything but arrays
    checkpoints/step_000020000/arrays.safetensors    weights, optimiser, generators, …
    checkpoints/step_000020000/best_model.…          the best agent so far, if there is one
    checkpoints/replay/rows-….safetensors            the replay buffer, shared by checkpoints

A checkpoint is written to a ``.partial`` directory, which is renamed once it is complete. If a file
is damaged, a warning names it and the previous checkpoint is used.
"""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import safetensors.numpy
from stable_baselines3.common.buffers import ReplayBuffer

from mviq.agents.codec import Arrays
from mviq.messages import one_line
from mviq.runs import replay_log
from mviq.runs.directory import RunError
from mviq.runs.replay_log import Ring, Segment
from mviq.runs.tables import Mark
from mviq.storage import digest, file_digest, sync, write_durably

_TREE, _ARRAYS = "state.json", "arrays.safetensors"
_FILES = {_TREE, _ARRAYS, "best_model.zip", "best_model.normalize.json"}
KEPT = 2  # the newest, and the one before it in case the newest is damaged
VERSION = 4


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at a step: a JSON tree, arrays, and where the tables end."""

    step: int
    tree: Any
    arrays: Arrays
    tables: dict[str, Mark]
    files: dict[str, bytes] = field(default_factory=dict)
    """The files of the best model so far, if there is one."""
    segments: list[Segment] = field(default_factory=list)


class DamagedError(RunError):
    """A file of a checkpoint is missing or damaged."""


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, path: Path) -> None:
        self.path, self.replay = path, path / "replay"
        self._segments: list[Segment] = []  # of the checkpoint that was written or read last

    def write(self, checkpoint: Checkpoint, rings: Sequence[Ring]) -> None:
        """Write a checkpoint and remove those that are no longer needed."""
        for place in (self.path, self.replay):
            place.mkdir(exist_ok=True)  # without parents: do not recreate a run that was removed
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
        shutil.rmtree(final, ignore_errors=True)  # one of this step, saved before its evaluation
        partial.rename(final)
        sync(self.path)
        self._segments = segments
        self._prune()

    def _write_files(self, place: Path, checkpoint: Checkpoint, segments: list[Segment]) -> None:
        files = {
            _TREE: json.dumps(checkpoint.tree, allow_nan=False).encode(),
            _ARRAYS: safetensors.numpy.save(checkpoint.arrays),
            **checkpoint.files,
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
        self, check: Callable[[Checkpoint], None], warn: Callable[[str], None]
    ) -> Checkpoint | None:
        """Return the newest valid checkpoint, None if there is none; warn of each newer one.

        ``check`` raises if the run cannot continue from a checkpoint. If all checkpoints are
        invalid, nothing is removed and ``DamagedError`` is raised: the user must decide.
        """
        damage = ""
        for place in reversed(self._places()):
            try:
                checkpoint = self._read(place)
                check(checkpoint)
            except (OSError, RunError) as error:
                if not isinstance(error, DamagedError):
                    raise
                damage = str(error)
            except Exception as error:  # damaged data can raise any error
                kind = "" if isinstance(error, ValueError) else f"{type(error).__name__} "
                damage = f"{place} cannot be used: {kind}{one_line(error):.200}"
            else:
                self._use(checkpoint, place)
                return checkpoint
            warn(f"{damage}; trying the checkpoint before it")
        if damage:
            raise DamagedError(
                f"{damage}, and so are all others; remove {self.path} to begin again"
            )
        return None

    def _use(self, checkpoint: Checkpoint, place: Path) -> None:
        for later in self._places():
            if later.name > place.name:
                shutil.rmtree(later)
        self._segments = checkpoint.segments

    def check_replay(self, checkpoint: Checkpoint, buffer: ReplayBuffer, rows: int) -> None:
        """Check that the replay files hold a buffer to which ``rows`` rows have been added."""
        replay_log.check(self.replay, buffer, rows, checkpoint.segments)

    def write_all(self) -> None:
        """Make the next checkpoint write the whole replay buffer, as saved items have changed."""
        self._segments = []

    def fill(self, ring: Ring) -> None:
        """Fill a ring of the replay buffer from the checkpoint that was read."""
        replay_log.read(self.replay, ring, self._segments)

    def _read(self, place: Path) -> Checkpoint:
        manifest = _manifest(place)
        contents = {}
        for name, expected in manifest["files"].items():
            _check(place / name, expected)
            contents[name] = (place / name).read_bytes()
        for segment in manifest["segments"]:
            _check(self.replay / segment.file, segment.sha256)
        arrays = safetensors.numpy.load(contents.pop(_ARRAYS))
        tree = json.loads(contents.pop(_TREE))
        step, tables, segments = (manifest[name] for name in ("step", "tables", "segments"))
        return Checkpoint(step, tree, arrays, tables, contents, segments)

    def _place(self, step: int) -> Path:
        return self.path / f"step_{step:012d}"

    def _places(self) -> list[Path]:
        return sorted(p for p in self.path.glob("step_*") if p.suffix != ".partial")

    def _prune(self) -> None:
        """Remove old and unfinished checkpoints, and replay files that no checkpoint needs."""
        for place in (*self._places()[:-KEPT], *self.path.glob("*.partial")):
            shutil.rmtree(place)
        needed = set()
        for place in self._places():
            try:
                needed |= {segment.file for segment in _manifest(place)["segments"]}
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
        if version == VERSION:
            manifest["segments"] = [made(Segment, x) for x in manifest["segments"]]
            marks = manifest["tables"].items()
            manifest["tables"] = {name: made(Mark, mark) for name, mark in marks}
            named = place.name == f"step_{manifest['step']:012d}"
            whole = whole and named and {_TREE, _ARRAYS} <= manifest["files"].keys() <= _FILES
    except FileNotFoundError:
        raise DamagedError(f"{file} is missing") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        whole = False
    if not whole:
        raise DamagedError(f"{file} is damaged")
    if version != VERSION:
        raise RunError(
            f"{place} has format version {version!r:.40}, this mviq reads {VERSION}; finish the "
            f"run with the mviq that began it, or remove {place.parent} to begin again"
        )
    return manifest


def made(kind: Any, content: dict[str, Any]) -> Any:
    """Return a dataclass made from a JSON object, and check the types of its fields."""
    made = kind(**content)
    for part in fields(kind):
        if type(getattr(made, part.name)) is not part.type:
            raise TypeError(part.name)
    if "/" in content.get("file", ""):
        raise ValueError("a file must be in its directory")
    return made


def _own_digest(manifest: dict[str, Any]) -> str:
    return digest(json.dumps(manifest, sort_keys=True).encode())


def _check(file: Path, expected: str) -> None:
    if not file.is_file():
        raise DamagedError(f"{file} is missing")
    if file_digest(file) != expected:
        raise DamagedError(f"{file} is damaged: its SHA-256 is not that of the manifest")
