"""``mviq resume``: continue a run exactly where it was interrupted."""

import argparse

from mviq.cli import train
from mviq.cli.common import add_run_argument

DESCRIPTION = """\
Continue a run that was interrupted by Ctrl-C, a crash or kill -9. The result
is bit for bit that of a run which was never interrupted.

  mviq resume runs/CartPole-v1_mvi_q2_seed3_0123abcd
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="do not show progress")


def run(options: argparse.Namespace) -> int:
    from mviq.runs.directory import find_run
    from mviq.runs.training import resume

    directory = find_run(options.path)
    return train.to_the_end(
        directory, options.quiet, lambda reporter: resume(directory.path, reporter)
    )
