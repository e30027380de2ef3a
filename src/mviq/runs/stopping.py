"""Asking a run to stop: Ctrl-C, SIGTERM, or the terminal being closed."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stopped(Exception):  # noqa: N818 - asked for, not an error
    """The run was asked to stop and has saved where it is."""


@contextmanager
def asked_to_stop() -> Iterator[threading.Event]:
    """Give an event that is set when the process is asked to stop; Ctrl-C twice is at once.

    The handler does no more than that: it may come in the middle of writing to the terminal.
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
    """Return the signals that ask to stop; nohup has a process outlive its terminal."""
    hangup = getattr(signal, "SIGHUP", None)  # Windows has none
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, hangup]
