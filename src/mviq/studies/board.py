"""The progress display of a study: live on a terminal, plain lines in a log file."""

import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mviq.runs.progress import PLAIN_EVERY, REFRESH, duration
from mviq.studies.engine import Ended, Event, Note, Progress, Task


@dataclass
class Line:
    """What is shown of one run."""

    title: str
    first: int
    """The step at which it continues."""
    total: int
    step: int = field(init=False)
    mean_return: float | None = None
    active: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        self.step = self.first

    @property
    def shown_return(self) -> str:
        """The mean return as text."""
        return "return -" if self.mean_return is None else f"return {self.mean_return:.1f}"

    def __str__(self) -> str:
        return f"{self.title}: step {self.step:,}/{self.total:,}, {self.shown_return}"


class Tally:
    """Counts what the runs have done since the study was started."""

    def __init__(self, runs: dict[str, Line] | None = None) -> None:
        self.runs, self._began = runs or {}, time.monotonic()

    def add(self, tasks: Iterable[Task]) -> None:
        """Add the runs of some tasks; a live display may be reading the others meanwhile."""
        lines = {t.run: Line(t.planned.title, t.step, t.config.total_steps) for t in tasks}
        self.runs = {**self.runs, **lines}

    def take(self, event: Event) -> str | None:
        """Count an event, and return what to tell the user about it, if anything."""
        if isinstance(event, Note):
            return event.text
        line = self.runs[event.run]
        begun, line.active = line.active, isinstance(event, Progress)
        if isinstance(event, Progress):
            line.step, line.mean_return = event.step, event.mean_return
            return None
        line.ended = event.how in ("finished", "diverged", "failed")
        line.step = line.total if event.how == "finished" else line.step
        return _ending(line.title, event) if begun or event.how != "stopped" else None

    @property
    def active(self) -> list[Line]:
        """The runs at work."""
        return [line for line in self.runs.values() if line.active]

    @property
    def done(self) -> int:
        """The steps done, including those of earlier sessions."""
        return sum(line.step for line in self.runs.values())

    @property
    def total(self) -> int:
        """The steps of all runs."""
        return sum(line.total for line in self.runs.values())

    @property
    def rate(self) -> float:
        """The steps per second since the study was started."""
        new = sum(max(line.step - line.first, 0) for line in self.runs.values())
        return new / max(time.monotonic() - self._began, 1e-9)

    def __str__(self) -> str:
        ended = sum(line.ended for line in self.runs.values())
        left = sum(line.total - line.step for line in self.runs.values() if not line.ended)
        time_left = duration(left / self.rate) if self.rate else "?"
        return (
            f"{ended}/{len(self.runs)} runs, {self.done:,}/{self.total:,} steps, "
            f"{self.rate:,.0f} steps/s, {time_left} left"
        )


def _ending(title: str, event: Ended) -> str:
    if event.how in ("killed", "diverged"):
        return f"{title}: {event.reason}"
    return f"{title}: {event.how}" + (f", {event.reason}" if event.reason else "")


class Board:
    """Counts events without showing anything."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally

    def show(self, event: Event) -> None:
        """Count an event, and say what the user should know about it."""
        text = self._tally.take(event)
        if text is not None:
            self.say(text)

    def say(self, text: str) -> None:
        """Show a line of text."""

    def __enter__(self) -> "Board":
        return self

    def __exit__(self, *error: object) -> None:
        pass


class LogBoard(Board):
    """Writes a line when a run ends, and one with the progress every ``PLAIN_EVERY`` seconds."""

    def __init__(self, tally: Tally, file: TextIO) -> None:
        super().__init__(tally)
        self._file, self._last = file, time.monotonic()

    def show(self, event: Event) -> None:
        """Count an event, and write the progress if the last line is old."""
        super().show(event)
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY:
            self._last = now
            self.say("; ".join([str(self._tally), *map(str, self._tally.active)]))

    def say(self, text: str) -> None:
        """Write a line, unless the terminal is gone: the study goes on without it."""
        with suppress(OSError):
            print(text, file=self._file, flush=True)


class LiveBoard(Board):
    """Draws a bar for the whole study and one for each active run on a terminal."""

    def __init__(self, tally: Tally, console: Console) -> None:
        super().__init__(tally)
        self._live = Live(
            get_renderable=self._drawn, console=console, refresh_per_second=1 / REFRESH
        )

    def say(self, text: str) -> None:
        """Write a line above the bars, unless the terminal is gone."""
        with suppress(OSError):
            self._live.console.print(text, highlight=False, markup=False)

    def _drawn(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        for line in self._tally.active:
            bar = ProgressBar(line.total, line.step, width=20)
            rows.add_row(Text(line.title), bar, f"{line.step:,}", line.shown_return)
        whole = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._tally.total, self._tally.done, width=20)
        whole.add_row(bar, Text(str(self._tally)))
        return Group(rows, whole)

    def __enter__(self) -> "LiveBoard":
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._live.stop()


def board(tally: Tally, quiet: bool) -> Board:
    """Return the display for standard error: live on a terminal, otherwise lines, or nothing."""
    if quiet:
        return Board(tally)
    console = Console(stderr=True)
    return LiveBoard(tally, console) if console.is_terminal else LogBoard(tally, sys.stderr)
