"""Writers of logged values: progress.csv, timing.csv and, optionally, TensorBoard."""

import time
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any

from stable_baselines3.common.logger import KVWriter, Logger

from mviq.runs.tables import CLOCK, METRICS, Mark, Table, read_rows


class TableWriter(KVWriter):
    """Splits what is logged into what a run determines and what the clock says."""

    def __init__(self, progress: Table, timing: Table, own: Table | None = None) -> None:
        self.progress, self.timing, self.own = progress, timing, own

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        clock = {name: value for name, value in key_values.items() if name in CLOCK}
        learnt = {name: value for name, value in key_values.items() if name not in CLOCK}
        if self.own is not None:
            for name in sorted(learnt.keys() - METRICS.keys()):
                self.own.append({"step": step, "name": name, "value": learnt.pop(name)})
        self.progress.append(learnt)
        self.timing.append({"step": step, **clock, "time/unix": time.time()})

    def close(self) -> None:
        """Leave the tables open: they belong to the run."""


def only_numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what can be shown as a curve: a callback may log text, too."""
    return {name: value for name, value in values.items() if isinstance(value, Real)}


class TensorBoardWriter(KVWriter):
    """Event files that show the tables, made anew from them when a run is resumed."""

    def __init__(self, folder: Path, progress: Path, timing: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        for old in folder.glob("events.out.tfevents.*"):
            old.unlink()
        self._events = SummaryWriter(str(folder))
        clocks = {row["step"]: row for row in read_rows(timing)}
        for row in read_rows(progress):
            step = row["time/total_timesteps"]
            clock = clocks.get(step, {})
            self._add({**clock, **row}, int(step), float(clock.get("time/unix", 0.0)))

    def _add(self, values: dict[str, Any], step: int, wall_time: float | None) -> None:
        for name, value in values.items():
            if name not in ("step", "time/unix", "time/total_timesteps"):
                self._events.add_scalar(name, float(value), step, wall_time)

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        self._add(only_numbers(key_values), step, None)
        self._events.flush()

    def close(self) -> None:
        self._events.close()


class Tables:
    """The tables of a run; ``own`` is for what parts of a person's own log."""

    def __init__(self, progress: Path, timing: Path, evaluations: Path, own: Path | None) -> None:
        self.progress = Table(progress, METRICS)
        self.timing = Table(timing, ["step", *CLOCK])
        self.evaluations = Table(evaluations, ["step", "episode", "return", "length"])
        self.own = None if own is None else Table(own, ["step", "name", "value"])
        tables = (self.progress, self.timing, self.evaluations, self.own)
        self.all = {table.path.name: table for table in tables if table is not None}

    def can_log(self, name: str, value: Any) -> bool:
        """Return whether there is a place for a value: only a person's own parts log text."""
        if name in METRICS or name in CLOCK:
            return isinstance(value, Real)
        return self.own is not None

    def check_in_place(self) -> None:
        """Require that all files still have their names."""
        for table in self.all.values():
            table.check_in_place()

    def marks(self) -> dict[str, Mark]:
        """Make sure that all rows are on disk, and return where the tables end."""
        return {name: table.mark() for name, table in self.all.items()}

    def close(self) -> None:
        """Close the files that are open."""
        for table in self.all.values():
            table.close()

    def logger(self, *others: KVWriter) -> Logger:
        """Return a logger for an agent that writes into the tables, which must be open."""
        return Logger(None, [TableWriter(self.progress, self.timing, self.own), *others])
