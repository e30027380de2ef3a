"""The interface between the scheduler and the engines that execute runs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mviq.runs.config import Config
from mviq.studies.study_directory import PlannedRun


@dataclass(frozen=True)
class Task:
    """A run to execute, or what is left of it."""

    study: Path
    planned: PlannedRun
    config: Config
    step: int = 0
    """The step at which the run continues."""
    memory: int = 0
    """Bytes the run is expected to need; 0 if unknown."""

    @property
    def run(self) -> str:
        """The name of the run's directory, which identifies the run in events."""
        return self.planned.run

    @property
    def steps(self) -> int:
        """The number of steps left."""
        return self.config.total_steps - self.step


@dataclass(frozen=True)
class Progress:
    """A run has started or advanced."""

    run: str
    step: int
    mean_return: float | None = None


@dataclass(frozen=True)
class Ended:
    """The process of a run has ended."""

    run: str
    how: str
    """One of finished, diverged, stopped, failed, killed."""
    reason: str = ""


@dataclass(frozen=True)
class Note:
    """Something the user should know, such as the loss of a node."""

    text: str


class EngineLost(Exception):  # noqa: N818 - what happened to it
    """The engine is gone, and the progress of its runs since their last checkpoints."""


Event = Progress | Ended | Note


class Engine(Protocol):
    """Executes runs somewhere. Only the scheduler's thread calls it."""

    def room(self, tasks: Sequence[Task]) -> int:
        """Return how many of the tasks fit at once; raise ``ValueError`` if none does."""

    def start(self, task: Task) -> None:
        """Start a run. Exactly one ``Ended`` event follows, even if it cannot be started."""

    def stop(self, run: str) -> None:
        """Ask a run to save a checkpoint and end."""

    def kill(self) -> None:
        """End all runs at once."""

    def events(self) -> Iterable[Event]:
        """Wait a fraction of a second for events, and return those that have arrived."""
