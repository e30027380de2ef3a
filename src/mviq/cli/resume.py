"""``mviq resume``: continue a run exactly where it was."""

import argparse
from pathlib import Path

from mviq.cli import train

_DESCRIPTION = """\
Continue a run that was interrupted, by Ctrl-C, a crash or kill -9, exactly where it was: the
finished run is bit for bit the one that was never interrupted.

  mviq resume runs/CartPole-v1_mvi_q2_seed3_0123abcd
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "resume",
        help="continue a run exactly where it was",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", type=Path, metavar="RUN", help="the run's directory")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Continue a run."""
    from mviq.runs.directory import RunDirectory
    from mviq.runs.training import resume

    directory = RunDirectory(options.path)
    return train.to_the_end(
        directory, "resume", options.quiet, lambda reporter: resume(options.path, reporter)
    )
