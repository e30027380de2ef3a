"""The entry point: builds the parser, calls the subcommand, turns mistakes into exit code 2."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from mviq.cli import evaluate, paper, resume, train, verify, watch
from mviq.cli.errors import OneLineParser, UsageError

_DESCRIPTION = """\
MVI(q): Munchausen value iteration regularised by the Tsallis Kullback-Leibler divergence.

  mviq train CartPole-v1 --q 2    train an agent; the same command continues the run exactly
  mviq evaluate RUN               play 100 episodes with it
  mviq watch RUN                  see it play
  mviq verify                     check every theorem of the paper numerically
  mviq paper                      list the paper's artefacts this version reproduces
  mviq paper fig1 --out out/fig1  draw one, with the data behind it
"""


def build_parser() -> OneLineParser:
    """Return the parser of all subcommands; a subcommand adds itself."""
    parser = OneLineParser(
        prog="mviq", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"mviq {version('mviq')}")
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=OneLineParser
    )
    for command in (train, resume, evaluate, watch, verify, paper):
        command.add_parser(commands)
    parser.set_defaults(run=lambda _: _show_help(parser))
    return parser


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    options = build_parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except UsageError as mistake:
        print(f"mviq: {mistake}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mviq: interrupted", file=sys.stderr)
        return 130
