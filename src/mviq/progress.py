"""Progress displays: bars on a terminal, an occasional line in a log file, or nothing."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

REFRESH = 0.2  # seconds
LOG_EVERY = 30.0  # seconds between lines of a log file


class Bar(NamedTuple):
    """A bar with its title on the left and a note on the right."""

    title: str
    done: float
    total: float | None
    """None if the total is unknown."""
    note: str = ""


class Display:
    """Shows progress on standard error until the context ends.

    On a terminal it draws what ``bars`` returns, below the messages of ``say``. Elsewhere it writes
    what ``line`` returns, at most every ``LOG_EVERY`` seconds; None writes messages only. Both
    functions receive the seconds since the start. A closed terminal raises no error, so that the
    work can continue.
    """

    def __init__(
        self,
        bars: Callable[[float], Iterable[Bar]],
        line: Callable[[float], str] | None = None,
        *,
        console: Console | None = None,
        quiet: bool = False,
        transient: bool = False,
    ) -> None:
        self._bars, self._line = bars, line
        self._quiet, self._transient = quiet, transient
        self._console = console or Console(stderr=True)
        self._draws = self._console.is_terminal and not quiet
        self._live: Live | None = None

    def start(self) -> None:
        """Start the clock, and begin to draw the bars."""
        self._began = self._written = time.monotonic()
        if self._draws:
            self._live = Live(
                get_renderable=self._drawn,
                console=self._console,
                refresh_per_second=1 / REFRESH,
                transient=self._transient,
            )
            self._live.start()

    def update(self) -> None:
        """Write a line to a log file if one is due; bars refresh by themselves."""
        if self._quiet or self._draws or self._line is None:
            return
        now = time.monotonic()
        if now - self._written >= LOG_EVERY:
            self._written = now
            self.say(self._line(now - self._began))

    def say(self, text: str) -> None:
        """Write a message."""
        with suppress(OSError):
            if self._draws:
                self._console.print(text, highlight=False, markup=False)
            elif not self._quiet:
                print(text, file=self._console.file, flush=True)

    def stop(self) -> None:
        """Draw the bars for the last time."""
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _drawn(self) -> RenderableType:
        """Return the bars; those without a title are in a separate grid."""
        grids: dict[bool, Table] = {}
        for bar in self._bars(time.monotonic() - self._began):
            grid = grids.setdefault(bool(bar.title), Table.grid(padding=(0, 2)))
            title = [Text(bar.title)] if bar.title else []
            grid.add_row(*title, ProgressBar(bar.total, bar.done, width=20), Text(bar.note))
        return Group(*grids.values())


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal; yield a function that sets how much is done."""
    done = 0

    def tell(number: int) -> None:
        nonlocal done
        done = number

    def bars(elapsed: float) -> list[Bar]:
        return [Bar(what, done, total, "" if total is None else f"{done}/{total}")]

    with Display(bars, transient=True):
        yield tell


def duration(seconds: float) -> str:
    """Format a number of seconds; less than none are left when a last rollout overshoots.

    >>> duration(42), duration(90), duration(7500), duration(-3)
    ('42 s', '1 min', '2 h 5 min', '0 s')
    """
    minutes, rest = divmod(max(round(seconds), 0), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{rest} s"
