"""Writers of logged values: progress.csv, timing.csv and, optionally, TensorBoard."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from numbers import Real
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import Figure, HParam, Image, KVWriter, Logger, Video

from mviq.runs.directory import RunDirectory
from mviq.runs.tables import CLOCK, METRICS, Mark, Table, read_rows


class TableWriter(KVWriter):
    """Writes reproducible values to progress.csv, and wall-clock times to timing.csv."""

    def __init__(self, progress: Table, timing: Table, own: Table | None = None) -> None:
        self.progress, self.timing, self.own = progress, timing, own

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        clock = {name: value for name, value in key_values.items() if name in CLOCK}
        learnt = {name: value for name, value in key_values.items() if name not in CLOCK}
        if self.own is not None:
            for name in sorted(learnt.keys() - METRICS.keys()):
                value = learnt.pop(name)
                if _fits_a_cell(value):
                    self.own.append({"step": step, "name": name, "value": value})
        self.progress.append(learnt)
        self.timing.append({"step": step, **clock, "time/unix": time.time()})

    def close(self) -> None:
        """Leave the tables open: they belong to the run."""


def _fits_a_cell(value: Any) -> bool:
    """Return False for what only TensorBoard can show: pictures, and tensors as histograms."""
    drawn = isinstance(value, Figure | HParam | Image | Video)
    return not drawn and math.prod(getattr(value, "shape", ())) == 1


def only_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers, which can be shown as a curve: callbacks may also log text."""
    return {name: value for name, value in values.items() if isinstance(value, Real)}


def logged_rows(run: RunDirectory) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield each logged step of a run with its wall-clock time and its numbers of all tables."""
    clocks = {row.pop("step"): row for row in read_rows(run.timing)}
    own: dict[str, dict[str, float]] = defaultdict(dict)
    for row in read_rows(run.own_metrics):
        with suppress(KeyError, ValueError):  # callbacks may log text
            own[row["step"]][row["name"]] = float(row["value"])
    for row in read_rows(run.progress):
        step = row["time/total_timesteps"]
        values = {name: float(value) for name, value in {**clocks.get(step, {}), **row}.items()}
        yield int(step), values.pop("time/unix", 0.0), values | own[step]


class TensorBoardWriter(KVWriter):
    """Writes TensorBoard event files, which are rebuilt from the tables on resuming."""

    def __init__(self, run: RunDirectory) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for old in run.tensorboard.glob("events.out.tfevents.*"):
            old.unlink()
        self._events = SummaryWriter(str(run.tensorboard))
        for step, wall_time, values in logged_rows(run):
            self._add(values, step, wall_time)

    def _add(self, values: dict[str, Any], step: int, wall_time: float | None) -> None:
        for name, value in values.items():
            if name != "time/total_timesteps":
                self._events.add_scalar(name, float(value), step, wall_time)

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        self._add(only_numbers(key_values), step, None)
        self._events.flush()

    def close(self) -> None:
        self._events.close()


class Tables:
    """The tables of a run; ``own`` is for values logged by users' own components."""

    def __init__(self, progress: Path, timing: Path, evaluations: Path, own: Path | None) -> None:
        self.progress = Table(progress, METRICS)
        self.timing = Table(timing, ["step", *CLOCK])
        self.evaluations = Table(evaluations, ["step", "episode", "return", "length"])
        self.own = None if own is None else Table(own, ["step", "name", "value"])
        tables = (self.progress, self.timing, self.evaluations, self.own)
        self.all = {table.path.name: table for table in tables if table is not None}

    def can_log(self, name: str, value: Any) -> bool:
        """Return whether a value can be logged; only users' own components may log text."""
        if name in METRICS or name in CLOCK:
            return isinstance(value, Real)
        return self.own is not None

    def check_in_place(self) -> None:
        """Raise ``OSError`` if a file was removed or replaced."""
        for table in self.all.values():
            table.check_in_place()

    def marks(self) -> dict[str, Mark]:
        """Sync all tables to disk, and return the marks of their ends."""
        return {name: table.mark() for name, table in self.all.items()}

    def close(self) -> None:
        """Close the files that are open."""
        for table in self.all.values():
            table.close()

    def logger(self, *others: KVWriter) -> Logger:
        """Return a logger for an agent that writes into the tables, which must be open."""
        return Logger(None, [TableWriter(self.progress, self.timing, self.own), *others])
