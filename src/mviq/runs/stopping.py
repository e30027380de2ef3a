"""Handles requests to stop a run: Ctrl-C, SIGTERM, or the terminal being closed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):  # noqa: N818 - asked for, not an error
    """The run was asked to stop and has saved a checkpoint."""


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Yield an event that is set on a request to stop; a second Ctrl-C raises KeyboardInterrupt.

    The handler does nothing else, as the signal may interrupt a write to the terminal.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if number == signal.SIGINT and asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in _signals()}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _signals() -> list[signal.Signals]:
    """Return the signals that request a stop; SIGHUP is left out if ignored, as under nohup."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, hangup]
