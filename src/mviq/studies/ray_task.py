"""A run as a Ray task: what happens on the node that does it, and how it talks to the study."""

import threading
from importlib import import_module
from typing import Any, NamedTuple

from mviq.studies.engine import Ended, Event, Progress, Task
from mviq.studies.process import RunProcess

MESSAGE_EVERY = 1.0  # seconds between messages of one run


class News(NamedTuple):
    """What the mailbox has heard."""

    progress: list[Progress]
    """Of each run the newest, since the last time."""
    nodes: dict[str, str]
    """The node on which each run was last begun."""


class Mailbox:
    """Lives on the node of the study; runs tell it how far they are, and learn whether to stop."""

    def __init__(self) -> None:
        self._news, self._stop = News([], {}), False
        self._newest: dict[str, Progress] = {}

    def begin(self, run: str, node: str) -> bool:
        """Note where a run is begun, and return whether it is to stop."""
        self._news.nodes[run] = node
        return self._stop

    def put(self, progress: Progress | None) -> bool:
        """Take how far a run is, if that is known, and return whether it is to stop."""
        if progress is not None:
            self._newest[progress.run] = progress
        return self._stop

    def take(self, stop: bool) -> News:
        """Return what has come since the last time, and remember whether runs are to stop."""
        self._stop = stop
        found, self._newest = list(self._newest.values()), {}
        return News(found, self._news.nodes)


def session(task: Task, mailbox: Any) -> Ended:
    """Do a run, or what is left of it, on the node where this is called."""
    here = import_module("ray").get_runtime_context().get_node_id()
    if _answer(mailbox.begin.remote(task.run, here)):
        return Ended(task.run, "stopped")
    try:
        process = RunProcess(task)
    except OSError as error:
        return Ended(task.run, "failed", f"{error}: is the directory shared with this node?")
    newest: Progress | None = None
    ended = threading.Event()

    def hear(event: Event) -> None:
        nonlocal newest
        newest = event if isinstance(event, Progress) else newest

    def talk() -> None:  # also while the run is silent: it starts, evaluates or waits
        while not ended.wait(MESSAGE_EVERY):
            if _answer(mailbox.put.remote(newest)):
                process.stop()
                return

    threading.Thread(target=talk, daemon=True).start()
    try:
        return process.listen(hear)
    finally:
        ended.set()


def _answer(reference: Any) -> bool:
    """Wait for an answer: ``ray.get`` would give the task's CPU to another one meanwhile."""
    return bool(reference.future().result())
