"""The local engine: one process per run on this machine, nothing to start before."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from mviq.studies.engine import Ended, Event, Events, Task
from mviq.studies.process import RunProcess

POLL = 0.1  # seconds in which a request to stop is noticed


class LocalEngine:
    """Does so many runs at once; each is a process, and a thread listens to it."""

    def __init__(self, workers: int, stop: threading.Event) -> None:
        self.workers, self._stop = workers, stop
        self._active: set[RunProcess] = set()
        self._lock = threading.Lock()  # no process starts after all were told to stop

    def run(self, tasks: Sequence[Task], events: Events) -> None:
        """Do the runs."""
        heard: queue.SimpleQueue[Event] = queue.SimpleQueue()
        with ThreadPoolExecutor(self.workers) as threads:
            for task in tasks:
                threads.submit(self._do, task, heard)
            try:
                self._pass_on(heard, events, len(tasks))
            except BaseException:  # Ctrl-C again, or a mistake of ours: leave no process behind
                self._stop.set()
                self._tell(RunProcess.kill)
                raise

    def _pass_on(self, heard: "queue.SimpleQueue[Event]", events: Events, sessions: int) -> None:
        told = False
        while sessions:
            if self._stop.is_set() and not told:
                self._tell(RunProcess.stop)
                told = True
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

    def _do(self, task: Task, heard: "queue.SimpleQueue[Event]") -> None:
        try:
            heard.put(self._session(task, heard))
        except Exception as error:
            heard.put(Ended(task.run, "failed", f"cannot be started: {error}"))

    def _session(self, task: Task, heard: "queue.SimpleQueue[Event]") -> Ended:
        with self._lock:
            if self._stop.is_set():
                return Ended(task.run, "stopped")
            process = RunProcess(task)
            self._active.add(process)
        try:
            return process.listen(heard.put)
        finally:
            with self._lock:
                self._active.discard(process)
