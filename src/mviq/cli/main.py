"""The entry point: builds the parser, calls the command, turns its errors into exit code 2."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper

from mviq.cli.common import OneLineParser, discard_output, open_missing_streams
from mviq.messages import error_line

COMMANDS = {
    "train": "train an agent, or continue a run that was interrupted",
    "resume": "continue an interrupted run",
    "evaluate": "play episodes with a trained agent and print its returns",
    "watch": "see a trained agent play, in a window or as a video",
    "export": "make a folder to publish: model, model card and video",
    "study": "run, continue or tune a study: many runs, one file",
    "solve": "solve a finite MDP with any algorithm of the family",
    "verify": "check every theorem of the paper numerically",
    "report": "make a web page, figures and tables of a study or of runs",
    "paper": "reproduce a figure or table of the paper and check its claim",
}
"""The subcommands, each a module of this package with ``DESCRIPTION``, ``add_arguments``
and usually ``run``."""

_DESCRIPTION = """\
MVI(q): Munchausen value iteration regularised by the Tsallis
Kullback-Leibler divergence.

  mviq train CartPole-v1 --q 2    train an agent, or continue an interrupted run
  mviq evaluate RUN               play 100 episodes with the trained agent
  mviq watch RUN                  see the agent play
  mviq export RUN                 make a folder to publish: model, card, video
  mviq study run FILE             train many agents, as described in a file
  mviq report STUDY               make a web page with curves and intervals
  mviq solve FrozenLake-v1 --q 2  solve a finite MDP and see how it converges
  mviq verify                     check every theorem of the paper numerically
  mviq paper                      list the figures and tables of the paper
  mviq paper fig1                 make one of them, with its data

Errors are printed in one line. Set the environment variable MVIQ_TRACEBACK=1
to see the full traceback instead.
"""


def build_parser(arguments: Sequence[str]) -> OneLineParser:
    """Return the parser; only the module of the subcommand that is called is imported."""
    parser = OneLineParser(prog="mviq", description=_DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"mviq {version('mviq')}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=OneLineParser
    )
    parser.set_defaults(run=lambda _: parser.print_help())
    for name, summary in COMMANDS.items():
        if name in arguments[:1]:
            command = import_module(f"mviq.cli.{name}")
            texts = {"description": command.DESCRIPTION, "epilog": getattr(command, "EPILOG", None)}
            own = commands.add_parser(name, **texts)
            own.set_defaults(run=getattr(command, "run", lambda _, own=own: own.print_help()))
            command.add_arguments(own)
        else:
            commands.add_parser(name, help=summary)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    open_missing_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # if it cannot encode π, print a question mark
            stream.reconfigure(errors="replace")
    given = sys.argv[1:] if arguments is None else arguments
    try:
        return _flushed(_called(given))
    except SystemExit as end:  # from --help, a wrong argument, or user code in a run
        if isinstance(end.code, str):
            raise
        raise SystemExit(_flushed(int(end.code or 0))) from None


def _flushed(code: int) -> int:
    """Flush standard output and return the exit code; 2 if that fails, but for a broken pipe."""
    try:
        sys.stdout.flush()
    except OSError as error:
        discard_output()
        if code == 0 and not isinstance(error, BrokenPipeError):
            _complain(f"cannot write to standard output: {error.strerror}")
            return 2
    return code


def _complain(text: str) -> None:
    with suppress(OSError):  # standard error may be closed
        print(f"mviq: {error_line(text)}", file=sys.stderr)


def _called(given: Sequence[str]) -> int:
    try:
        options = build_parser(given).parse_args(given)
        return int(options.run(options) or 0)
    except (BrokenPipeError, SystemExit) as end:  # rich turns the first into the second
        if not isinstance(end if isinstance(end, OSError) else end.__context__, BrokenPipeError):
            raise
        discard_output()  # the reader, such as head, has exited
        return 0
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except Exception as error:
        message = _explanation(error)
        if message is None or os.environ.get("MVIQ_TRACEBACK"):
            raise
        _complain(": ".join((*given[:1], message)))
        return 2


def _explanation(error: Exception) -> str | None:
    """Return the message for an expected error; None for a bug, which keeps its traceback."""
    from mviq.runs.directory import RunError

    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    if isinstance(error, FileExistsError):  # raised by write_files
        return f"{error}; use --force to replace it"
    return str(error) if isinstance(error, ValueError | RunError | OSError) else None
