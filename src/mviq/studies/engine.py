"""What an engine does with the runs of a study, and what it says meanwhile."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

How = Literal["finished", "diverged", "stopped", "failed", "killed"]


@dataclass(frozen=True)
class Task:
    """A run to be done."""

    study: Path
    run: str
    threads: int = 1
    memory: int = 0
    """Bytes it is expected to need; 0 if that is not known."""
    hide_gpus: bool = False
    """Whether it may not use the GPUs of its machine."""


@dataclass(frozen=True)
class Progress:
    """A run has begun, or has got on."""

    run: str
    step: int
    mean_return: float | None = None


@dataclass(frozen=True)
class Ended:
    """A session of a run has ended."""

    run: str
    how: How
    reason: str = ""


@dataclass(frozen=True)
class Note:
    """Something happened that a person should know, such as the loss of a node."""

    text: str


@dataclass(frozen=True)
class Stopping:
    """The runs have been told to stop."""


Event = Progress | Ended | Note | Stopping
Events = Callable[[Event], None]


class Engine(Protocol):
    """Does runs, as many at a time as there is room for."""

    def room(self, tasks: Sequence[Task]) -> int:
        """Return how many of these there is room for at once; a ``ValueError`` if for none."""

    def run(self, tasks: Sequence[Task], events: Events, stop: threading.Event) -> None:
        """Do the runs, and tell of each ``Progress`` and, once, ``Ended``; all stop if asked."""
