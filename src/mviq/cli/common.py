"""Shared by the commands: the argument parser, tables, and handling of closed standard streams."""

import argparse
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mviq.messages import did_you_mean, error_line

_NEGATIVE_LIST = re.compile(r"-(\d|\.\d|inf)[^=]*,", re.IGNORECASE)


@contextmanager
def tolerating_closed_output() -> Iterator[None]:
    """Ignore errors of a closed standard output, for example after the terminal was closed."""
    try:
        yield
        sys.stdout.flush()
    except (OSError, SystemExit):  # which rich raises for a broken pipe
        discard_output()


def discard_output() -> None:
    """Redirect standard output to the null device, so that Python can flush it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_missing_streams() -> None:
    """Open closed standard streams on the null device, or other files would get their numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115


def _with_negative_values(arguments: Sequence[str]) -> list[str]:
    """Replace ``--clip -1,0`` by ``--clip=-1,0``: argparse would take ``-1,0`` for an option.

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
    """An argument parser that keeps the line breaks of its texts, and whose errors are one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse the arguments; for an unknown option, exit and suggest the closest known one."""
        given = _with_negative_values(sys.argv[1:] if args is None else args)
        options, unknown = super().parse_known_args(given, namespace)
        if unknown:
            known = [name for name in self._option_string_actions if name != "--help"]
            hint = did_you_mean(unknown[0].split("=")[0], known)
            self.error(f"there is no {unknown[0]} here{hint}")
        return options, unknown

    def _print_message(self, message: str, file: Any = None) -> None:
        """Raise if help cannot be written, for ``main`` to report; argparse would ignore it."""
        if file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Exit for an unknown command and suggest the closest known one."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            names = list(action.choices)
            hint = did_you_mean(value, names) or f": it must be one of {', '.join(names)}"
            self.error(f"there is no command {value}{hint}")
        super()._check_value(action, value)

    def error(self, message: str) -> NoReturn:
        """Print the error and how to get help in one line, and exit with code 2."""
        self.exit(2, f"{self.prog}: {error_line(message)} (try '{self.prog} --help')\n")


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the directory of a run."""
    parser.add_argument(
        "path", type=Path, metavar="RUN", help="directory of the run; the beginning of it is enough"
    )


def table_console(piped: int, markup: bool = True) -> Console:
    """Return a console for tables, ``piped`` characters wide if the output is not a terminal."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(markup=markup, highlight=False, width=None if known else piped)


def text_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: Collection[str] = (),
    no_wrap: bool = False,
    **style: Any,
) -> Table:
    """Return a table of plain text, right-aligned except for the columns in ``left``.

    With ``no_wrap``, only the columns in ``left`` are wrapped if the terminal is too narrow.
    """
    table = Table(**style)
    for title in columns:
        if title in left:
            table.add_column(Text(title), overflow="fold")
        else:
            table.add_column(Text(title), justify="right", no_wrap=no_wrap)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
