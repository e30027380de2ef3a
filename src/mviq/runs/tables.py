"""Append-only CSV files that can be truncated to an earlier length."""

import csv
import errno
import hashlib
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mviq.storage import digest, sync

METRICS = {
    "time/total_timesteps": "agent steps so far",
    "time/episodes": "training episodes finished so far",
    "rollout/ep_rew_mean": "mean return of the last 100 training episodes, unclipped",
    "rollout/ep_len_mean": "mean length of the last 100 training episodes",
    "rollout/success_rate": "share of successes, where the environment reports them",
    "rollout/exploration_rate": "ε, the probability of a random action",
    "eval/mean_reward": "mean raw return of the last evaluation, greedy",
    "eval/mean_ep_length": "mean length of its episodes",
    "train/n_updates": "gradient steps so far",
    "train/learning_rate": "step size of Adam",
    "train/loss": "mean loss of the last `gradient_steps` updates",
    "train/q_values": "mean predicted value of the replayed actions",
    "tsallis/entropy": "mean Tsallis entropy S_q of the policy at replayed states",
    "tsallis/support_size": "mean number of actions with positive probability",
    "tsallis/munchausen": "mean Munchausen term α·m of the replayed actions",
    "tsallis/gap_minus_log": "mean of Q − ⟨π,Q⟩ − ln_q π, left part of the paper's Figure 3",
    "tsallis/residual": "mean R_q between successive target networks, right part of Figure 3",
}
"""The columns of progress.csv. It is the same, bit for bit, however often a run is resumed."""

CLOCK = {
    "time/fps": "agent steps per second of work",
    "time/time_elapsed": "seconds of work so far, in all sessions together",
    "time/unix": "the time of the clock",
}
"""The columns of timing.csv besides the step: wall-clock times, which differ between runs."""


@dataclass(frozen=True)
class Mark:
    """The end of a table at a checkpoint: its length in bytes and its SHA-256."""

    length: int
    sha256: str


class Table:
    """A CSV file with fixed columns, written row by row."""

    def __init__(self, path: Path, columns: Iterable[str]) -> None:
        self.path, self.columns = path, list(columns)
        self._file: Any = None

    def matches(self, mark: Mark) -> bool:
        """Return whether the file still begins with the bytes that were marked."""
        if not self.path.is_file():
            return False
        with self.path.open("rb") as file:
            content = file.read(mark.length)
        return len(content) == mark.length and digest(content) == mark.sha256

    def open(self, mark: Mark | None = None) -> None:
        """Open for writing: truncate the file to a mark, or start a new one."""
        self._file = self.path.open("r+b" if mark else "wb")
        self._hash = hashlib.sha256()
        if mark is None:
            self._write(self.columns)
            sync(self.path.parent)
        else:
            self._file.truncate(mark.length)
            self._hash.update(self._file.read(mark.length))

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; a column without a value stays empty."""
        unknown = row.keys() - set(self.columns)
        if unknown:
            raise ValueError(f"{self.path.name} has no column {sorted(unknown)[0]!r}")
        self._write([_written(row.get(column)) for column in self.columns])

    def _write(self, cells: list[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(cells)
        content = text.getvalue().encode()
        self._file.write(content)
        self._file.flush()
        self._hash.update(content)

    def mark(self) -> Mark:
        """Sync the file to disk, and return the mark of its end."""
        os.fsync(self._file.fileno())
        return Mark(self._file.tell(), self._hash.copy().hexdigest())

    def check_in_place(self) -> None:
        """Raise ``OSError`` if the file was removed or replaced while it was open."""
        try:
            in_place = os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:
            in_place = False
        if not in_place:
            raise OSError(errno.ENOENT, "it was removed while the run went on", str(self.path))

    def close(self) -> None:
        """Close the file if it is open; errors of a full disk were raised when writing."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


def _written(value: Any) -> str:
    """Format a cell so that it reads back as the same number."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    number = value.item() if hasattr(value, "item") else value
    return repr(number)


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a table as text; cells without a value are left out.

    An incomplete last line, left by a crash, is ignored. A missing file has no rows.
    """
    try:
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    except ValueError as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    whole = text[: text.rfind("\n") + 1].splitlines()
    return [{k: v for k, v in row.items() if v} for row in csv.DictReader(whole)]
