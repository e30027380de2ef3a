"""The Ray engine: each run is a task on some node of a cluster, its results in a shared directory.

A task does what a thread of the local engine does: it starts the run's process and listens to it,
so results are the same bit for bit. When a node is lost, Ray starts its tasks elsewhere; the run
continues from its last checkpoint there. Should the lost node still be at work, cut off from the
others, the run's lock makes the new process wait until the old one has noticed and stopped.
"""

import io
import os
import re
import socket
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mviq.studies.engine import Ended, Event, Events, Note, Stopping, Task
from mviq.studies.ray_task import Mailbox, News, session
from mviq.studies.worker import one_line

RETRIES = 20  # of a run whose node is lost, while the study is running
POLL = 0.5  # seconds between looks into the mailbox
ANSWER = 10.0  # seconds in which a cluster must answer
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Resources:
    """What a run is given of a node."""

    cpus: float | None = None
    """None is one per thread of the run."""
    gpus: float = 0.0
    memory: int = 0
    """Bytes; 0 is what has been measured."""


@contextmanager
def ray_engine(
    address: str | None, resources: Resources, workers: int | None
) -> "Iterator[RayEngine]":
    """Join a cluster that is there already, or make one on this machine; leave it in the end.

    Meanwhile standard output is Ray's: it says there, in a thread, what happens to its nodes.
    """
    if find_spec("ray") is None:
        raise ValueError("--engine ray needs an extra: pip install 'mviq[ray]'")
    try:
        _check_reachable(address)
        ray = _joined(address)
    except (OSError, ValueError, RuntimeError) as error:
        where = address or "this machine"
        raise ValueError(f"no Ray cluster at {where}: {one_line(str(error))}") from None
    with redirect_stdout(Overheard()) as overheard:
        try:
            yield RayEngine(ray, overheard, resources, workers)
        finally:
            ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Find out in seconds that nobody answers; Ray itself takes minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=ANSWER).close()


def _joined(address: str | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray: Any = import_module("ray")
    ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    return ray


class RayEngine:
    """Does runs on a cluster; several threads may use it at once."""

    def __init__(
        self, ray: Any, overheard: "Overheard", resources: Resources, workers: int | None
    ) -> None:
        self._ray, self._overheard = ray, overheard
        self._resources, self._workers = resources, workers

    def room(self, tasks: Sequence[Task]) -> int:
        """Return how many runs fit on the nodes at once."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        room = min(sum(_fitting(node, self._needs(task)) for node in nodes) for task in tasks)
        if not room:
            needs = ", ".join(f"{name} {x:g}" for name, x in self._needs(tasks[0]).items() if x)
            raise ValueError(f"no node of the Ray cluster has what a run needs: {needs}")
        return min(room, self._workers or room)

    def _needs(self, task: Task) -> dict[str, float]:
        given = self._resources
        cpus = task.threads if given.cpus is None else given.cpus
        return {"CPU": cpus, "GPU": given.gpus, "memory": given.memory or task.memory}

    def run(self, tasks: Sequence[Task], events: Events, stop: threading.Event) -> None:
        """Do the runs."""
        mailbox, told = self._mailbox(), False
        waiting, at_work = deque(tasks), dict[Any, Task]()
        while waiting or at_work:
            if stop.is_set():
                self._give_up(waiting, events)
                if not at_work:
                    return
            while waiting and len(at_work) < (self._workers or len(tasks)):
                task = waiting.popleft()
                at_work[self._submit(task, mailbox)] = task
            done, _ = self._ray.wait(list(at_work), timeout=POLL)
            news: News = self._ray.get(mailbox.take.remote(stop.is_set()))
            heard: list[Event] = [*self._overheard.notes(), *news.progress]
            if stop.is_set():
                self._cancel_waiting(at_work, news)
                heard += [] if told else [Stopping()]
                told = True
            heard += [self._ended(reference, at_work.pop(reference)) for reference in done]
            for event in heard:
                events(event)

    def _give_up(self, waiting: deque[Task], events: Events) -> None:
        while waiting:
            events(Ended(waiting.popleft().run, "stopped"))

    def _mailbox(self) -> Any:
        """Return a mailbox on this node, which is lost only together with the study."""
        strategies = import_module("ray.util.scheduling_strategies")
        here = self._ray.get_runtime_context().get_node_id()
        strategy = strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        actor = self._ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=strategy)
        return actor.remote()

    def _submit(self, task: Task, mailbox: Any) -> Any:
        needs = self._needs(task)
        remote = self._ray.remote(session).options(
            name=task.run,
            num_cpus=needs["CPU"],
            num_gpus=needs["GPU"],
            memory=needs["memory"] or None,
            max_retries=RETRIES,
        )
        return remote.remote(replace(task, hide_gpus=not needs["GPU"]), mailbox)

    def _cancel_waiting(self, at_work: Mapping[Any, Task], news: News) -> None:
        """Cancel the tasks that are on no node; the others are told by the mailbox to stop."""
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        for reference, task in at_work.items():
            if news.nodes.get(task.run) not in alive:
                self._ray.cancel(reference)

    def _ended(self, reference: Any, task: Task) -> Ended:
        try:
            ended: Ended = self._ray.get(reference)
        except self._ray.exceptions.TaskCancelledError:
            return Ended(task.run, "stopped")
        except self._ray.exceptions.RayError as error:  # its node was lost too often
            return Ended(task.run, "killed", f"killed by Ray: {one_line(str(error))}")
        return ended


def _fitting(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """Return how many runs with such needs fit on a node."""
    return int(min(node.get(name, 0.0) // need for name, need in needs.items() if need))


class Overheard(io.TextIOBase):
    """Stands in for standard output and keeps what is printed."""

    def __init__(self) -> None:
        self._said: deque[str] = deque()

    def write(self, text: str) -> int:
        """Take what is printed."""
        self._said.append(text)
        return len(text)

    def notes(self) -> list[Note]:
        """Return what was said since the last time anyone asked, without colours."""
        said: list[str] = []
        with suppress(IndexError):
            while True:
                said.append(self._said.popleft())
        lines = [one_line(_COLOURS.sub("", text)) for text in said]
        return [Note(f"Ray: {line}") for line in lines if line]
