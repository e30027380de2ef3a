"""What a person sees of a run: a bar on a terminal, plain lines in a log file, or nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

REFRESH = 0.2  # seconds
PLAIN_EVERY = 30.0  # seconds between lines of a log file


class Reporter:
    """Receives the progress of a run, and shows nothing."""

    def start(self, step: int, total: int) -> None:
        """Begin at a step."""

    def update(self, step: int, mean_return: float | None) -> None:
        """Receive how far the run is; called after every rollout."""

    def say(self, text: str) -> None:
        """Receive a message for the user."""

    def stop(self) -> None:
        """End."""


class Lines(Reporter):
    """Writes a line now and then, for a log file."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def start(self, step: int, total: int) -> None:
        """Begin."""
        self._total, self._first = total, step
        self._began = self._last = time.monotonic()

    def update(self, step: int, mean_return: float | None) -> None:
        """Write a line if the last one is old."""
        now = time.monotonic()
        if now - self._last < PLAIN_EVERY:
            return
        self._last = now
        rate = (step - self._first) / (now - self._began)
        left = duration((self._total - step) / rate) if rate else "?"
        shown = "-" if mean_return is None else f"{mean_return:.1f}"
        self.say(f"step {step}/{self._total}, return {shown}, {rate:.0f} steps/s, {left} left")

    def say(self, text: str) -> None:
        """Write a line, if anyone reads: a run does not end with its terminal."""
        with suppress(OSError):
            print(text, file=self._file, flush=True)


class Bar(Reporter):
    """Draws a progress bar with return, speed and time left, on a terminal."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            BarColumn(),
            TextColumn("return {task.fields[shown]}  {task.fields[rate]:.0f} steps/s"),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=console,
        )

    def start(self, step: int, total: int) -> None:
        """Begin."""
        self._first, self._began, self._last = step, time.monotonic(), 0.0
        self._newest: tuple[int, float | None] = step, None
        self._task = self._bar.add_task("", total=total, completed=step, shown="-", rate=0.0)
        self._bar.start()

    def update(self, step: int, mean_return: float | None) -> None:
        """Move the bar, but not more often than an eye can see."""
        self._newest = step, mean_return
        if time.monotonic() - self._last >= REFRESH:
            self._draw()

    def _draw(self) -> None:
        step, mean_return = self._newest
        self._last = time.monotonic()
        rate = (step - self._first) / max(self._last - self._began, 1e-9)
        shown = "-" if mean_return is None else f"{mean_return:.1f}"
        self._bar.update(self._task, completed=step, shown=shown, rate=rate)

    def say(self, text: str) -> None:
        """Write a line above the bar, if anyone reads."""
        with suppress(OSError):
            self._bar.console.print(text, highlight=False, markup=False)

    def stop(self) -> None:
        """Show where it ended."""
        if self._bar.tasks:
            self._draw()
        with suppress(OSError):
            self._bar.stop()


def reporter(quiet: bool = False) -> Reporter:
    """Return what fits the place: a bar on a terminal, lines in a file, nothing if so wished."""
    if quiet:
        return Reporter()
    console = Console(stderr=True)
    return Bar(console) if console.is_terminal else Lines(sys.stderr)


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function that shows on a terminal how many episodes are finished."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda finished: None
        return
    text = f"{what}: {{task.completed:.0f}}/{{task.total:.0f}} episodes"
    columns = TextColumn(text), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda finished: bar.update(task, completed=finished)


def duration(seconds: float) -> str:
    """Return a number of seconds as people say it.

    >>> duration(42), duration(90), duration(7500)
    ('42 s', '1 min', '2 h 5 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"
