"""Nodes of a Ray cluster on this machine, started by Ray's own command, and lost at will."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from small_studies import wait_until

RAY = [str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats"]
# Ports by chance, since other nodes are on this machine, and little memory.
RAY += ["--min-worker-port=0", "--max-worker-port=0", "--dashboard-agent-listen-port=0"]
RAY += ["--object-store-memory=80000000"]
# A lost node is noticed after some seconds, not half a minute.
TIMES = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "10"}
TIMES |= {"RAY_worker_niceness": "0"}  # on a busy machine runs at Ray's 15 never get their turn
ATTEMPTS = 3


class Node:
    """A node: everything in the session that its command began."""

    def __init__(self, log: Path, cpus: int, *options: str) -> None:
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [*RAY, f"--num-cpus={cpus}", *options],
                stdout=file,
                stderr=file,
                env={**os.environ, **TIMES},
                start_new_session=True,
            )
        self._log = log

    def has_started(self) -> bool:
        """Wait until it is there, or has given up: Ray does after 30 seconds, on a busy machine."""
        wait_until(self._is_decided, f"{self._log}")
        return self._process.poll() is None

    def _is_decided(self) -> bool:
        ready = "Ray runtime started" in self._log.read_text()
        return ready or self._process.poll() is not None

    def processes(self) -> list[int]:
        """Return its processes."""
        pids = [int(place.name) for place in Path("/proc").iterdir() if place.name.isdigit()]
        return [pid for pid in pids if _session(pid) == self._process.pid]

    def lose(self) -> None:
        """Lose the node, as if it had been unplugged."""
        while alive := self.processes():
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.02)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


@contextmanager
def cluster(logs: Path, workers: int) -> Iterator[tuple[str, list[Node]]]:
    """Start a head that does no runs and some nodes that do one at a time.

    Gives its address and the nodes, the head first.
    """
    port, client = free_ports()
    place = tempfile.mkdtemp(prefix="ray")  # short: sockets are in it
    address = f"127.0.0.1:{port}"
    options = [f"--port={port}", f"--ray-client-server-port={client}", f"--temp-dir={place}"]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        head = [logs / "head", 0, "--head", "--include-dashboard=false", *options]
        nodes = [started(*head)]
        stack.callback(nodes[0].lose)
        for i in range(workers):  # one after the other: two at once may take the same ports
            nodes.append(started(logs / f"node{i}", 1, f"--address={address}"))
            stack.callback(nodes[-1].lose)
        yield address, nodes


def started(log: Path, cpus: int, *options: str) -> Node:
    """Return a node that is there."""
    for _ in range(ATTEMPTS):
        node = Node(log, cpus, *options)
        if node.has_started():
            return node
        node.lose()
    raise AssertionError(log.read_text())


def free_ports() -> tuple[int, int]:
    """Return two ports that nobody uses."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]
