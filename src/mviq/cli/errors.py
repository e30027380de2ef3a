"""How the command line speaks of mistakes: one line on stderr, exit code 2, no traceback."""

import argparse
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, NoReturn

_NEGATIVE_LIST = re.compile(r"-(\d|\.\d|inf)[^=]*,", re.IGNORECASE)


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


def _with_negative_values(arguments: Sequence[str]) -> list[str]:
    """Return arguments in which ``--clip -1,0`` is ``--clip=-1,0``, which argparse understands.

    >>> _with_negative_values(["--clip", "-1,0", "-v", "--clip", "-inf,0", "--low", "-1"])
    ['--clip=-1,0', '-v', '--clip=-inf,0', '--low', '-1']
    """
    joined: list[str] = []
    for argument in arguments:
        if joined and joined[-1].startswith("--") and _NEGATIVE_LIST.match(argument):
            joined[-1] += "=" + argument
        else:
            joined.append(argument)
    return joined


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what is not known here, where the options that may have been meant are known."""
        given = _with_negative_values(sys.argv[1:] if args is None else args)
        found, unknown = super().parse_known_args(given, namespace)
        if unknown:
            name = unknown[0].split("=")[0]
            close = get_close_matches(name, self._option_string_actions, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            self.error(f"there is no {unknown[0]} here{hint}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (try '{self.prog} --help')\n")
