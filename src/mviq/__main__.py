"""The command ``mviq``, also ``python -m mviq``; it handles Ctrl-C while modules are imported."""

import os
import signal
import sys
from types import FrameType


def command() -> int:
    """Run the command line and return its exit code."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not in the background
        signal.signal(signal.SIGINT, interrupt)
    from mviq.cli.main import main

    return main()


def interrupt(number: int, frame: FrameType | None) -> None:
    """Raise ``KeyboardInterrupt``, but exit at once during an import.

    Libraries catch it while they are imported, and continue or fail later, half initialised.
    """
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            try:
                os.write(2, b"mviq: interrupted\n")
            finally:
                os._exit(130)
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(command())
