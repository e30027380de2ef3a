"""Saves a replay buffer as a log: a checkpoint writes only the items added since the last one.

A buffer consists of rings: circular buffers whose first axis is time. Item n, counted from the
beginning of the run, is at index n modulo the capacity, so a ring can be restored from any files
that together hold its newest items.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from safetensors import safe_open
from stable_baselines3.common.buffers import ReplayBuffer

from mviq.agents import FrameReplayBuffer
from mviq.agents.replay_files import (
    bounds_of,
    buffer_state,
    check_arrays,
    check_bounds,
    check_numbers,
)
from mviq.arrays import Array
from mviq.storage import digest, write_durably

SEGMENT_BYTES = 2**27  # of one file at most: it is serialised in memory before it is written


@dataclass(frozen=True)
class Ring:
    """Arrays of a circular buffer that are written together, one item at a time."""

    name: str
    arrays: dict[str, Array]
    count: int
    """Items written since the beginning of the run."""

    @property
    def capacity(self) -> int:
        """Return the maximum number of items."""
        return len(next(iter(self.arrays.values())))

    def since(self, number: int) -> range:
        """Return the numbers of the items from ``number`` on that are not overwritten yet."""
        return range(max(number, self.count - self.capacity, 0), self.count)

    def items(self, numbers: range) -> dict[str, Array]:
        """Return copies of the items with these numbers."""
        where = np.arange(numbers.start, numbers.stop) % self.capacity
        return {name: array[where] for name, array in self.arrays.items()}

    def put(self, numbers: range, items: dict[str, Array]) -> None:
        """Write items at their indices, except those that are too old for the ring."""
        kept = range(max(numbers.start, self.count - self.capacity), min(numbers.stop, self.count))
        if not kept:
            return
        where = np.arange(kept.start, kept.stop) % self.capacity
        part = slice(kept.start - numbers.start, kept.stop - numbers.start)
        for name, array in self.arrays.items():
            array[where] = items[name][part]


@dataclass(frozen=True)
class Segment:
    """A file with items of a ring."""

    ring: str
    start: int
    stop: int
    file: str
    sha256: str


def rings(buffer: ReplayBuffer, rows: int) -> list[Ring]:
    """Return the rings of a buffer to which ``rows`` rows have been added in the run."""
    small = small_state(buffer)
    arrays = {k: v for k, v in buffer_state(buffer)[0].items() if k not in small}
    if not isinstance(buffer, FrameReplayBuffer):
        return [Ring("rows", arrays, rows)]
    arrays["numbers"] = np.moveaxis(arrays["numbers"], 1, 0)
    all_frames = arrays.pop("frames")
    return [
        Ring("rows", arrays, rows),
        *(
            Ring(f"frames{i}", {"frames": frames[: buffer.places]}, int(buffer.written[i]))
            for i, frames in enumerate(all_frames)
        ),
    ]


def small_state(buffer: ReplayBuffer) -> dict[str, Any]:
    """Return the state of a buffer besides its rings."""
    arrays, numbers = buffer_state(buffer)
    return numbers | {name: arrays[name] for name in getattr(buffer, "unordered", ())}


def set_small_state(buffer: ReplayBuffer, state: dict[str, Any]) -> None:
    """Restore what ``small_state`` returned."""
    arrays, _ = buffer_state(buffer)
    for name, value in state.items():
        if name in arrays:
            arrays[name][...] = value
        else:
            setattr(buffer, name, value)


def check_small_state(buffer: ReplayBuffer, state: Any, rows: int) -> None:
    """Check the small state of a buffer to which ``rows`` rows have been added."""
    check_numbers("replay", buffer, state)
    now, size, bounds = small_state(buffer), buffer.buffer_size, bounds_of(buffer)
    if state.keys() != now.keys() or state["pos"] != rows % size or state["full"] != (rows >= size):
        raise ValueError(f"replay must be {list(now)} after {rows} rows, got {state!r:.80}")
    for name in getattr(buffer, "unordered", ()):
        given = state[name]
        if given.shape != now[name].shape or given.dtype != now[name].dtype:
            raise ValueError(f"replay.{name} must be {now[name].shape} of {now[name].dtype}")
        check_bounds(f"replay.{name}", given, *bounds[name])


def append(directory: Path, ring: Ring, before: Iterable[Segment]) -> list[Segment]:
    """Write the items of a ring that no segment holds, and return the segments it needs now."""
    known = [segment for segment in before if segment.ring == ring.name]
    fresh = ring.since(max((segment.stop for segment in known), default=0))
    oldest = ring.since(0).start
    kept = [segment for segment in known if segment.stop > oldest]
    length = max(1, SEGMENT_BYTES // sum(array[0].nbytes for array in ring.arrays.values()))
    for start in range(fresh.start, fresh.stop, length):
        kept.append(_write(directory, ring, range(start, min(start + length, fresh.stop))))
    return kept


def _write(directory: Path, ring: Ring, numbers: range) -> Segment:
    content = safetensors.numpy.save(ring.items(numbers))
    file = f"{ring.name}-{numbers.start:012d}-{numbers.stop:012d}.safetensors"
    write_durably(directory / file, content)
    return Segment(ring.name, numbers.start, numbers.stop, file, digest(content))


def check(directory: Path, buffer: ReplayBuffer, rows: int, segments: list[Segment]) -> None:
    """Check that segments hold all items of a buffer to which ``rows`` rows have been added."""
    bounds = bounds_of(buffer)
    for ring in rings(buffer, rows):
        reached = ring.since(0).start
        own = (segment for segment in segments if segment.ring == ring.name)
        for segment in sorted(own, key=lambda segment: segment.start):
            count = segment.stop - segment.start
            reached = max(reached, segment.stop) if segment.start <= reached else reached
            with safe_open(directory / segment.file, "numpy") as stored:
                expected = {name: array[:count] for name, array in ring.arrays.items()}
                check_arrays(segment.file, stored, expected, bounds)
        if reached < ring.count:
            raise ValueError(f"items {reached} to {ring.count} of {ring.name} are missing")


def read(directory: Path, ring: Ring, segments: Iterable[Segment]) -> None:
    """Fill a ring from its segments."""
    for segment in segments:
        if segment.ring == ring.name:
            with safe_open(directory / segment.file, "numpy") as stored:
                items = {name: stored.get_tensor(name) for name in ring.arrays}
            ring.put(range(segment.start, segment.stop), items)
