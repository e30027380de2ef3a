"""The progress display of a study."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console

from mviq.progress import Bar, Display, duration
from mviq.studies.engine import Event, Note, Progress, Task


@dataclass
class Line:
    """The displayed progress of one run."""

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
    def note(self) -> str:
        """The progress as text."""
        reached = "-" if self.mean_return is None else f"{self.mean_return:.1f}"
        return f"step {self.step:,}/{self.total:,}, return {reached}"


class Tally:
    """Counts the progress of the runs since the study was started."""

    def __init__(self, runs: dict[str, Line] | None = None) -> None:
        self.runs, self._began = runs or {}, time.monotonic()

    def add(self, tasks: Iterable[Task]) -> None:
        """Add the runs of tasks, to a copy: the display's thread may be reading the old ones."""
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
        if event.how == "stopped" and not begun:
            return None
        if event.how in ("killed", "diverged"):
            return f"{line.title}: {event.reason}"
        return f"{line.title}: {event.how}" + (f", {event.reason}" if event.reason else "")

    @property
    def active(self) -> list[Line]:
        """The runs whose processes are alive."""
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

    def bars(self, elapsed: float) -> list[Bar]:
        """Return a bar for each active run, and one for the whole study."""
        rows = [Bar(line.title, line.step, line.total, line.note) for line in self.active]
        return [*rows, Bar("", self.done, self.total, str(self))]

    def line(self, elapsed: float) -> str:
        """Return the same as one line."""
        return "; ".join([str(self), *(f"{line.title}: {line.note}" for line in self.active)])

    def __str__(self) -> str:
        ended = sum(line.ended for line in self.runs.values())
        left = sum(line.total - line.step for line in self.runs.values() if not line.ended)
        time_left = duration(left / self.rate) if self.rate else "?"
        return (
            f"{ended}/{len(self.runs)} runs, {self.done:,}/{self.total:,} steps, "
            f"{self.rate:,.0f} steps/s, {time_left} left"
        )


class Board(Display):
    """Shows the progress of a study: a bar for each active run, and one for the whole study."""

    def __init__(self, tally: Tally, console: Console | None = None, quiet: bool = False) -> None:
        super().__init__(tally.bars, tally.line, console=console, quiet=quiet)
        self._tally = tally

    def show(self, event: Event) -> None:
        """Count an event, and say what the user should know about it."""
        text = self._tally.take(event)
        if text is not None:
            self.say(text)
        self.update()
