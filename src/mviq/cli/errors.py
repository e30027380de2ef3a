"""How the command line speaks of mistakes: one line on stderr, exit code 2, no traceback."""

import argparse
from typing import NoReturn


class UsageError(Exception):
    """A mistake of the user's: the message names the value and says what was expected."""


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is, and exit with 2."""
        self.exit(2, f"{self.prog}: {message} (try '{self.prog} --help')\n")
