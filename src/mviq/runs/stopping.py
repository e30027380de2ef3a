"""Ctrl-C and SIGTERM as a request that work ends where it can be continued."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def graceful_stop(say: Callable[[str], None], text: str) -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event, and say so; the second time is KeyboardInterrupt."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(number: int, frame: Any) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()
        say(f"{text}; once more to stop at once")

    before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
