"""The process of a run, as seen by the engine that started it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from mviq.studies.engine import Ended, Event, Note, Progress, Task
from mviq.studies.study_directory import StudyDirectory

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_KINDS: dict[str, type[Event]] = {kind.__name__: kind for kind in (Progress, Ended, Note)}


def environment(threads: int, hide_gpus: bool = False) -> dict[str, str]:
    """Return the environment variables of a process that computes on that many threads."""
    hidden = {"CUDA_VISIBLE_DEVICES": ""} if hide_gpus else {}
    return {**os.environ, **dict.fromkeys(THREADS, str(threads)), **hidden}


class RunProcess:
    """The process of one run. It stops by itself once the pipe of its messages is broken."""

    def __init__(self, task: Task, hide_gpus: bool = False) -> None:
        self._task, self._stopping = task, False
        directory = StudyDirectory(task.study)
        self._log = directory.log(task.run)
        self._log.parent.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mviq.studies.worker", str(task.study), task.run],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(task.config.threads, hide_gpus),
                process_group=0,  # Ctrl-C on the terminal is for the study, which passes it on
            )

    def listen(self, events: Callable[[Event], None]) -> Ended:
        """Pass on the events of the run until it ends; return how it ended."""
        last: Event | None = None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for event in map(_event, lines):
                if event is not None and event != last and not isinstance(event, Ended):
                    events(event)  # repeated events are passed on once
                last = event
        code = self._process.wait()
        return last if isinstance(last, Ended) else self._died(code)

    def _died(self, code: int) -> Ended:
        run = self._task.run
        if self._stopping:
            return Ended(run, "stopped")
        if code < 0:
            name = signal.Signals(-code).name
            cause = ", probably out of memory" if name == "SIGKILL" else ""
            return Ended(run, "killed", f"killed by {name}{cause}")
        return Ended(run, "failed", f"exit code {code}: {self._last_words()}")

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "no output")

    def stop(self) -> None:
        """Ask the run to save a checkpoint and end."""
        self._stopping = True
        self._process.terminate()

    def kill(self) -> None:
        """Kill the run, and wait until it is gone."""
        self._stopping = True
        self._process.kill()
        self._process.wait()


def _event(line: bytes) -> Event | None:
    """Return the event of a line, None if the process was killed while writing it."""
    try:
        kind, fields = json.loads(line)
    except ValueError:
        return None
    return _KINDS[kind](**fields)
