"""The Ray engine: each run is a task on a node of a cluster with a shared directory.

Like a thread of the local engine, a task starts the run's process and reads its messages, so the
results are identical bit for bit. When a node is lost, Ray restarts its tasks elsewhere, and the
runs continue from their last checkpoints. If the lost node is still alive but disconnected, the
lock of the run makes the new process wait until the old one has noticed and stopped.
"""

import io
import os
import re
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from mviq.messages import one_line
from mviq.studies.engine import Ended, EngineLost, Event, Note, Task
from mviq.studies.ray_task import Mailbox, execute

RETRIES = 20  # of a run whose node is lost, while the study is running
POLL = 0.5  # seconds between polls of the mailbox
SILENCE = 45.0  # seconds without an answer: the cluster is lost; after 60 Ray ends this process
LOOK = 5.0  # seconds between checks of the head node
ANSWER = 10.0  # seconds in which a cluster must answer
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Resources:
    """The resources of a node that a run is given."""

    cpus: float | None = None
    """None means one per thread of the run."""
    gpus: float = 0.0
    memory: int = 0
    """Bytes; 0 means what has been measured."""


@contextmanager
def ray_engine(
    address: str | None, resources: Resources, workers: int | None
) -> "Iterator[RayEngine]":
    """Connect to a cluster, or start one on this machine, and disconnect at the end.

    Meanwhile standard output is captured: a thread of Ray prints there what happens to nodes.
    """
    if find_spec("ray") is None:
        raise ValueError("--engine ray needs an extra: pip install 'mviq[ray]'")
    try:
        _check_reachable(address)
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray: Any = import_module("ray")
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    except (OSError, ValueError, RuntimeError) as error:
        where = address or "this machine"
        raise ValueError(f"no Ray cluster at {where}: {one_line(error)}") from None
    with redirect_stdout(CapturedOutput()) as captured:
        try:
            yield RayEngine(ray, captured, resources, workers)
        finally:
            ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise ``OSError`` within seconds if nobody answers; Ray itself takes minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host, int(port)), timeout=ANSWER).close()


class RayEngine:
    """Executes runs as tasks of a Ray cluster."""

    def __init__(
        self, ray: Any, captured: "CapturedOutput", resources: Resources, workers: int | None
    ) -> None:
        self._ray, self._captured = ray, captured
        self._resources, self._workers = resources, workers
        self._active: dict[Any, Task] = {}
        self._stopping: set[str] = set()
        self._head = str(ray.get_runtime_context().gcs_address)
        self._head_answered = time.monotonic()

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
        cpus = task.config.threads if given.cpus is None else given.cpus
        return {"CPU": cpus, "GPU": given.gpus, "memory": given.memory or task.memory}

    def start(self, task: Task) -> None:
        """Submit a run; Ray places it on a node as soon as one has room."""
        needs = self._needs(task)
        remote = self._ray.remote(execute).options(
            name=task.run,
            num_cpus=needs["CPU"],
            num_gpus=needs["GPU"],
            memory=needs["memory"] or None,
            max_retries=RETRIES,
        )
        with self._noticing_loss():
            reference = remote.remote(task, not needs["GPU"], self._mailbox)
        self._active[reference] = task

    def stop(self, run: str) -> None:
        """Ask a run to save a checkpoint and end; the mailbox passes it on."""
        self._stopping.add(run)

    def kill(self) -> None:
        """Do nothing: the runs end when this process leaves the cluster."""

    def events(self) -> list[Event]:
        """Wait for a run to end, but not longer than ``POLL``; return what has happened."""
        with self._noticing_loss():
            done, _ = self._ray.wait(list(self._active), timeout=POLL)
            message = self._mailbox.take.remote(self._stopping)
            newest, nodes = self._ray.get(message, timeout=SILENCE)
            self._cancel_waiting(nodes)
            self._look_for_head()
        active = {task.run for task in self._active.values()}
        progress = [event for event in newest if event.run in active]
        return [*self._captured.notes(), *progress, *map(self._ended, done)]

    def _look_for_head(self) -> None:
        """Raise ``OSError`` if the head node is silent too long; the mailbox works without it."""
        silent = time.monotonic() - self._head_answered
        if silent < LOOK:
            return
        try:
            _check_reachable(self._head)
            self._head_answered = time.monotonic()
        except OSError:
            if silent > SILENCE:
                raise

    @contextmanager
    def _noticing_loss(self) -> Iterator[None]:
        try:
            yield
        except (self._ray.exceptions.RayError, RuntimeError, OSError) as error:
            raise EngineLost(f"the Ray cluster is lost: {one_line(error):.200}") from error

    @cached_property
    def _mailbox(self) -> Any:
        """The mailbox, on this node; Ray starts it again if its process is lost."""
        strategies = import_module("ray.util.scheduling_strategies")
        here = self._ray.get_runtime_context().get_node_id()
        strategy = strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        actor = self._ray.remote(Mailbox).options(
            num_cpus=0, scheduling_strategy=strategy, max_restarts=-1, max_task_retries=-1
        )
        return actor.remote()

    def _cancel_waiting(self, nodes: Mapping[str, str]) -> None:
        """Cancel the runs to be stopped that are on no node; the mailbox tells the others."""
        if not self._stopping:
            return
        alive = {node["NodeID"] for node in self._ray.nodes() if node["Alive"]}
        for reference, task in self._active.items():
            if task.run in self._stopping and nodes.get(task.run) not in alive:
                self._ray.cancel(reference)

    def _ended(self, reference: Any) -> Ended:
        run = self._active.pop(reference).run
        self._stopping.discard(run)
        try:
            ended: Ended = self._ray.get(reference)
        except self._ray.exceptions.TaskCancelledError:
            return Ended(run, "stopped")
        except self._ray.exceptions.RayError as error:  # its node was lost too often
            return Ended(run, "killed", f"killed by Ray: {one_line(error)}")
        return ended


def _fitting(node: Mapping[str, float], needs: Mapping[str, float]) -> int:
    """Return how many runs with these needs fit on a node."""
    return int(min(node.get(name, 0.0) // need for name, need in needs.items() if need))


class CapturedOutput(io.TextIOBase):
    """Replaces standard output and keeps what is printed."""

    def __init__(self) -> None:
        self._said: deque[str] = deque()

    def write(self, text: str) -> int:
        self._said.append(text)
        return len(text)

    def notes(self) -> list[Note]:
        """Return what was printed since the last call, without colours."""
        said: list[str] = []
        with suppress(IndexError):
            while True:
                said.append(self._said.popleft())
        lines = [one_line(_COLOURS.sub("", text)) for text in said]
        return [Note(f"Ray: {line}") for line in lines if line]
