"""The process of one run of a study: ``python -m mviq.studies.worker STUDY RUN``.

It reports progress on standard output, one JSON list per line; all other output goes to standard
error. If the pipe is broken, the engine that started the process is gone, and the process stops as
if asked to.
"""

import json
import os
import signal
import sys
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from rich.console import Console

from mviq.messages import one_line
from mviq.progress import REFRESH
from mviq.runs.directory import BusyError, Result, RunError
from mviq.runs.reporter import DisplayReporter
from mviq.studies.engine import Ended, Event, Note, Progress
from mviq.studies.plan import config_of
from mviq.studies.study_directory import PlannedRun, StudyDirectory

BUSY_WAIT = 1.0  # seconds between attempts to start a run that another process is working on


class Messages:
    """Sends events to the engine that started this process, as lines of JSON."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._alone = file, False

    def send(self, event: Event) -> None:
        """Send an event; if the pipe is broken, ask this process to stop, once."""
        if self._alone:
            return
        try:
            print(json.dumps([type(event).__name__, asdict(event)]), file=self._file, flush=True)
        except BrokenPipeError:
            self._alone = True
            signal.raise_signal(signal.SIGTERM)


class MessageReporter(DisplayReporter):
    """Prints a line now and then, and sends the step every ``REFRESH`` seconds."""

    def __init__(self, run: str, messages: Messages) -> None:
        super().__init__(Console(file=sys.stderr, force_terminal=False))
        self._run, self._messages, self._sent = run, messages, 0.0

    def start(self, step: int, total: int) -> None:
        super().start(step, total)
        self._messages.send(Progress(self._run, step))

    def update(self, step: int, mean_return: float | None) -> None:
        """Send the step if the last message is old."""
        super().update(step, mean_return)
        now = time.monotonic()
        if now - self._sent >= REFRESH:
            self._sent = now
            self._messages.send(Progress(self._run, step, mean_return))


def work(study: Path, run: str, messages: Messages) -> None:
    """Execute a run, or what is left of it, and send how it ended."""
    from mviq.runs.stopping import Stopped

    directory = StudyDirectory(study)
    try:
        planned = next(one for one in directory.plan().runs if one.run == run)
        result = _train(planned, directory, messages)
        messages.send(Ended(run, result.status, result.message))
    except (Stopped, KeyboardInterrupt):
        messages.send(Ended(run, "stopped"))
    except Exception as error:
        traceback.print_exc()
        known = isinstance(error, RunError | ValueError)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        messages.send(Ended(run, "failed", one_line(reason)))


def _train(planned: PlannedRun, directory: StudyDirectory, messages: Messages) -> Result:
    """Train, after waiting for any other process that works on the run."""
    from mviq.runs.trackers import About
    from mviq.runs.training import train

    about = About(directory.plan().name, planned.label)
    reporter = MessageReporter(planned.run, messages)
    while True:
        try:
            return train(config_of(planned), directory.runs, reporter, about)
        except BusyError as busy:
            reporter.say(f"{busy}: waiting")
            # Sent repeatedly, to notice a broken pipe.
            messages.send(Note(f"{planned.run}: another process is at work on it, waiting"))
            time.sleep(BUSY_WAIT)


def main() -> None:
    """Reserve standard output for messages, and execute a run."""
    study, run = sys.argv[1:]
    with suppress(BrokenPipeError), os.fdopen(os.dup(1), "w") as file:  # closing flushes the file
        os.dup2(2, 1)
        work(Path(study), run, Messages(file))


if __name__ == "__main__":
    main()
