"""``mviq train``: start a run, or continue it if it is not finished."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mviq.cli.common import tolerating_closed_output
from mviq.runs import presets, settings

if TYPE_CHECKING:  # imported when the command runs: help must not load torch
    from mviq.runs.config import Config
    from mviq.runs.directory import Result, RunDirectory
    from mviq.runs.reporter import Reporter

DESCRIPTION = """\
Train an agent on an environment. Settings that you do not give come from a
preset, which depends on the environment: the paper's Table 1 for CartPole and
Acrobot, its Table 2 for Atari, and our own for MinAtar and for everything else
(general).

  mviq train CartPole-v1 --q 2 --seed 3
  mviq train CartPole-v1 --preset general --clip -1,1
  mviq train MinAtar/Breakout-v1 --algorithm m-vi --track tensorboard
  mviq train ALE/Pong-v5 --config pong.yaml --device cuda
  mviq train --config runs/OLD/config.yaml --seed 4    same settings, other seed
  mviq train Acrobot-v1 --explain    print every setting and where it comes from

The run's directory is named after the environment, the algorithm, q, the seed
and a hash of the settings. Give the same command again to continue a run that
was interrupted; the result is the same as without the interruption. A finished
run is left alone.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s ENV [options]"
    add = parser.add_argument
    env = "Gymnasium id, such as CartPole-v1, unless it is in the file"
    add("env", nargs="?", metavar="ENV", help=env)
    add("--out", type=Path, default=Path("runs"), metavar="DIR", help="where to put the run (runs)")
    add("--config", type=Path, metavar="FILE", help="settings in YAML or TOML")
    add("--explain", action="store_true", help="print the settings and their sources, and stop")
    add("--quiet", action="store_true", help="do not show progress")
    settings.add_setting_options(parser)


def run(options: argparse.Namespace) -> int:
    """Resolve the settings and train."""
    config = _configured(options)
    if options.explain:
        print(settings.config_yaml(config), end="")
        return 0

    from mviq.runs.directory import RunDirectory
    from mviq.runs.training import train

    return to_the_end(
        RunDirectory(options.out / config.name),
        options.quiet,
        lambda reporter: train(config, options.out, reporter),
    )


def _configured(options: argparse.Namespace) -> "Config":
    """Return the config: command-line options override the file, which overrides the preset."""
    stored = settings.read_file(options.config) if options.config else {}
    merged = settings.merged(stored, settings.given(options))
    named = merged.pop("env", None)
    env = named if options.env is None else options.env
    if env is None:
        raise ValueError("which environment? Say its Gymnasium id, such as CartPole-v1")
    return presets.resolve(env, **merged)


def to_the_end(
    directory: "RunDirectory", quiet: bool, session: "Callable[[Reporter], Result]"
) -> int:
    """Run a training session, print how it ended, and return the exit code."""
    from mviq.runs.reporter import DisplayReporter
    from mviq.runs.stopping import Stopped

    already = directory.result is not None
    try:
        result = session(DisplayReporter(quiet=quiet))
    except (Stopped, KeyboardInterrupt) as stop:
        with tolerating_closed_output():
            print(f"{str(stop) or 'interrupted'}; continue with: mviq resume {directory.path}")
        return 130
    with tolerating_closed_output():
        print(f"{'already ' * already}{result.status} after {result.steps} steps: {directory.path}")
        if result.message:
            print(result.message)
    return 0 if result.status == "finished" else 1
