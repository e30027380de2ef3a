"""The local engine: one process per run on this machine, nothing to start before."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from mviq.studies import machine
from mviq.studies.engine import Ended, Event, Events, Stopping, Task
from mviq.studies.process import RunProcess

POLL = 0.1  # seconds in which a request to stop is noticed
Heard = queue.SimpleQueue[Event]


class LocalEngine:
    """Does runs on this machine; each is a process, and a thread listens to it."""

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers
        self._active: set[RunProcess] = set()
        self._lock = threading.Lock()  # no process starts after all were told to stop

    def room(self, tasks: Sequence[Task]) -> int:
        """Return how many runs cores and memory allow at once, unless that was given."""
        if self._workers is not None:
            return self._workers
        by_cores = machine.cores() // max(task.threads for task in tasks)
        available, needed = machine.available_memory(), max(task.memory for task in tasks)
        by_memory = available // needed if available is not None and needed else by_cores
        return max(1, min(by_cores, by_memory))

    def run(self, tasks: Sequence[Task], events: Events, stop: threading.Event) -> None:
        """Do the runs."""
        heard: Heard = queue.SimpleQueue()
        with ThreadPoolExecutor(self.room(tasks)) as threads:
            for task in tasks:
                threads.submit(self._do, task, heard, stop)
            try:
                self._pass_on(heard, events, stop, len(tasks))
            except BaseException:  # Ctrl-C again, or a mistake of ours: leave no process behind
                stop.set()
                self._tell(RunProcess.kill)
                raise

    def _pass_on(self, heard: Heard, events: Events, stop: threading.Event, sessions: int) -> None:
        told = False
        while sessions:
            if stop.is_set() and not told:
                self._tell(RunProcess.stop)
                told = True
                events(Stopping())
            try:
                event = heard.get(timeout=POLL)
            except queue.Empty:
                continue
            sessions -= isinstance(event, Ended)
            events(event)

    def _tell(self, message: Callable[[RunProcess], None]) -> None:
        with self._lock:
            for process in self._active:
                message(process)

    def _do(self, task: Task, heard: Heard, stop: threading.Event) -> None:
        try:
            heard.put(self._session(task, heard, stop))
        except Exception as error:
            heard.put(Ended(task.run, "failed", f"cannot be started: {error}"))

    def _session(self, task: Task, heard: Heard, stop: threading.Event) -> Ended:
        with self._lock:
            if stop.is_set():
                return Ended(task.run, "stopped")
            process = RunProcess(task)
            self._active.add(process)
        try:
            return process.listen(heard.put)
        finally:
            with self._lock:
                self._active.discard(process)
