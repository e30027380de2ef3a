"""What a person sees of a study at work: a board on a terminal, plain lines in a log file."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mviq.runs.progress import PLAIN_EVERY, REFRESH, duration
from mviq.studies.engine import Ended, Event, Note, Progress, Stopping

STOPPING = "stopping: the runs save where they are; once more to stop at once"


@dataclass
class Line:
    """What is shown of one run."""

    title: str
    first: int
    """The step at which it continues."""
    total: int
    step: int = 0
    mean_return: float | None = None
    active: bool = False
    ended: bool = False

    def __str__(self) -> str:
        shown = "-" if self.mean_return is None else f"{self.mean_return:.1f}"
        return f"{self.title}: step {self.step:,}/{self.total:,}, return {shown}"


class Tally:
    """Counts what the runs have done since the study was started."""

    def __init__(self, runs: dict[str, Line]) -> None:
        self.runs, self._began = runs, time.monotonic()
        for line in runs.values():
            line.step = line.first

    def take(self, event: Event) -> str | None:
        """Count an event, and return what is to be said of it, if anything."""
        if isinstance(event, Note):
            return event.text
        if isinstance(event, Stopping):
            return STOPPING
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
        """Return the runs at work."""
        return [line for line in self.runs.values() if line.active]

    @property
    def done(self) -> int:
        """Return the steps done, also before."""
        return sum(line.step for line in self.runs.values())

    @property
    def total(self) -> int:
        """Return the steps of all runs."""
        return sum(line.total for line in self.runs.values())

    @property
    def rate(self) -> float:
        """Return the steps per second since the study was started."""
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


class Board(Protocol):
    """Shows a study at work."""

    def show(self, event: Event) -> None:
        """Take an event."""

    def say(self, text: str) -> None:
        """Say something of importance."""

    def __enter__(self) -> "Board": ...

    def __exit__(self, *error: object) -> None: ...


class Quiet:
    """Shows nothing."""

    def show(self, event: Event) -> None:
        """Take it."""

    def say(self, text: str) -> None:
        """Keep it."""

    def __enter__(self) -> "Quiet":
        return self

    def __exit__(self, *error: object) -> None:
        pass


class Lines(Quiet):
    """Writes a line when a run ends, and now and then, for a log file."""

    def __init__(self, tally: Tally, file: TextIO) -> None:
        self._tally, self._file, self._last = tally, file, time.monotonic()

    def show(self, event: Event) -> None:
        """Write a line if a run has ended or the last line is old."""
        text = self._tally.take(event)
        if text is not None:
            self.say(text)
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY:
            self._last = now
            self.say("; ".join([str(self._tally), *map(str, self._tally.active)]))

    def say(self, text: str) -> None:
        """Write a line, if anyone reads: a study does not end with its terminal."""
        with suppress(OSError):
            print(text, file=self._file, flush=True)


class Screen(Quiet):
    """Draws a bar for the whole study and a line per run at work, on a terminal."""

    def __init__(self, tally: Tally, console: Console) -> None:
        self._tally = tally
        self._live = Live(
            get_renderable=self._drawn, console=console, refresh_per_second=1 / REFRESH
        )

    def show(self, event: Event) -> None:
        """Note it; the screen is drawn by the clock. A run that ends leaves a line."""
        text = self._tally.take(event)
        if text is not None:
            self.say(text)

    def say(self, text: str) -> None:
        """Write a line above the board, if anyone reads."""
        with suppress(OSError):
            self._live.console.print(text, highlight=False, markup=False)

    def _drawn(self) -> RenderableType:
        rows = Table.grid(padding=(0, 2))
        for line in self._tally.active:
            bar = ProgressBar(line.total, line.step, width=20)
            shown = "-" if line.mean_return is None else f"{line.mean_return:.1f}"
            rows.add_row(Text(line.title), bar, f"{line.step:,}", f"return {shown}")
        whole = Table.grid(padding=(0, 2))
        bar = ProgressBar(self._tally.total, self._tally.done, width=20)
        whole.add_row(bar, Text(str(self._tally)))
        return Group(rows, whole)

    def __enter__(self) -> "Screen":
        self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._live.stop()


def _ending(title: str, event: Ended) -> str:
    if event.how in ("killed", "diverged"):
        return f"{title}: {event.reason}"
    return f"{title}: {event.how}" + (f", {event.reason}" if event.reason else "")


def board(tally: Tally, quiet: bool) -> Board:
    """Return what fits the place: a board on a terminal, lines in a file, nothing if so wished."""
    if quiet:
        return Quiet()
    console = Console(stderr=True)
    return Screen(tally, console) if console.is_terminal else Lines(tally, sys.stderr)
