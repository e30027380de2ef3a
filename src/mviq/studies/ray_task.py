"""The part of the Ray engine that runs on the nodes of a cluster."""

import threading
from importlib import import_module
from typing import Any

from mviq.studies.engine import Ended, Event, Progress, Task
from mviq.studies.process import RunProcess

MESSAGE_EVERY = 1.0  # seconds between messages of one run


class Mailbox:
    """An actor that collects the progress of runs and tells them whether to stop."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._newest: dict[str, Progress] = {}
        self._stopping: set[str] = set()

    def put(self, run: str, node: str, progress: Progress | None) -> bool:
        """Record the node of a run and its progress, if any; return whether it must stop."""
        self._nodes[run] = node
        if progress is not None:
            self._newest[run] = progress
        return run in self._stopping

    def take(self, stopping: set[str]) -> tuple[list[Progress], dict[str, str]]:
        """Set the runs that are to stop; return the newest progress and the nodes of runs."""
        self._stopping = stopping
        newest, self._newest = list(self._newest.values()), {}
        return newest, self._nodes


def execute(task: Task, hide_gpus: bool, mailbox: Any) -> Ended:
    """Execute a run, or what is left of it, on the node where this is called."""
    here = import_module("ray").get_runtime_context().get_node_id()
    if _answer(mailbox.put.remote(task.run, here, None)):
        return Ended(task.run, "stopped")
    try:
        process = RunProcess(task, hide_gpus)
    except OSError as error:
        return Ended(task.run, "failed", f"{error}: is the directory shared with this node?")
    newest: Progress | None = None
    ended = threading.Event()

    def receive(event: Event) -> None:
        nonlocal newest
        newest = event if isinstance(event, Progress) else newest

    def report() -> None:  # also while the run is silent: it starts, evaluates or waits
        while not ended.wait(MESSAGE_EVERY):
            if _answer(mailbox.put.remote(task.run, here, newest)):
                process.stop()
                return

    threading.Thread(target=report, daemon=True).start()
    try:
        return process.listen(receive)
    finally:
        ended.set()


def _answer(reference: Any) -> bool:
    """Wait for an answer: ``ray.get`` would give the task's CPU to another one meanwhile."""
    return bool(reference.future().result())
