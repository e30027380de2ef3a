"""The local engine: each run is a process on this machine."""

import queue
import threading
from collections.abc import Sequence

from mviq.studies import machine
from mviq.studies.engine import Ended, Event, Task
from mviq.studies.process import RunProcess

POLL = 0.1  # seconds to wait for an event


class LocalEngine:
    """Executes runs as processes; a thread per process reads its messages."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers
        self._processes: dict[str, RunProcess] = {}
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()

    def room(self, tasks: Sequence[Task]) -> int:
        """Return ``workers`` if given, otherwise how many runs cores and memory allow at once."""
        if self._workers is not None:
            return self._workers
        by_cores = machine.cores() // max(task.config.threads for task in tasks)
        available, needed = machine.available_memory(), max(task.memory for task in tasks)
        by_memory = available // needed if available is not None and needed else by_cores
        return max(1, min(by_cores, by_memory))

    def start(self, task: Task) -> None:
        try:
            process = RunProcess(task)
        except OSError as error:
            self._events.put(Ended(task.run, "failed", f"cannot be started: {error}"))
            return
        self._processes[task.run] = process
        threading.Thread(target=self._listen, args=(task.run, process), daemon=True).start()

    def _listen(self, run: str, process: RunProcess) -> None:
        try:
            self._events.put(process.listen(self._events.put))
        except Exception as error:
            self._events.put(Ended(run, "failed", f"cannot be followed: {error}"))

    def stop(self, run: str) -> None:
        if run in self._processes:  # otherwise it could not be started
            self._processes[run].stop()

    def kill(self) -> None:
        for process in self._processes.values():
            process.kill()

    def events(self) -> list[Event]:
        """Wait for the next event, but not longer than ``POLL``."""
        try:
            event = self._events.get(timeout=POLL)
        except queue.Empty:
            return []
        if isinstance(event, Ended):
            self._processes.pop(event.run, None)
        return [event]
