"""How the command line speaks of mistakes: one line on stderr, exit code 2, no traceback."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn


@contextmanager
def perhaps_unread() -> Iterator[None]:
    """Let nothing depend on whether what is printed is read: the terminal may be closed by now."""
    try:
        yield
        sys.stdout.flush()
    except OSError:
        print_to_nobody()


def print_to_nobody() -> None:
    """Let go of standard output: what is left to be written must not fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class UsageError(Exception):
    """A mistake of the user's: the message names the value and says what was expected."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def parse_known_args(self, *arguments: Any, **options: Any) -> Any:
        """Refuse what is not known here, where the options that may have been meant are known."""
        found, unknown = super().parse_known_args(*arguments, **options)
        if unknown:
            name = unknown[0].split("=")[0]
            close = get_close_matches(name, self._option_string_actions, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            self.error(f"there is no {unknown[0]} here{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (try '{self.prog} --help')\n")
