"""``mviq resume``: continue a run exactly where it was."""

import argparse
from pathlib import Path

from mviq.cli import train
from mviq.cli.errors import UsageError

_DESCRIPTION = """\
Continue a run that was interrupted, by Ctrl-C, a crash or kill -9, exactly where it was: the
finished run is bit for bit the one that was never interrupted.

  mviq resume runs/CartPole-v1_mvi_q2_seed3_0123abcd
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "resume",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path", type=Path, metavar="RUN", help="its directory, or the beginning of its name"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Continue a run."""
    from mviq.runs.directory import find_run
    from mviq.runs.training import resume

    try:
        directory = find_run(options.path)
    except ValueError as mistake:
        raise UsageError(f"resume: {mistake}") from None
    return train.to_the_end(
        directory, "resume", options.quiet, lambda reporter: resume(directory.path, reporter)
    )
