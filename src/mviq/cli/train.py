"""``mviq train``: start a run, or continue it, or say that it is finished."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from mviq.cli.errors import UsageError
from mviq.runs import overrides, presets

if TYPE_CHECKING:  # the real imports wait until the command runs: help must not load torch
    from mviq.runs.config import Config
    from mviq.runs.directory import Result, RunDirectory
    from mviq.runs.progress import Reporter

_DESCRIPTION = """\
Train an agent on an environment. What is not given comes from a preset, which the environment
picks: the paper's Table 1 for CartPole and Acrobot, its Table 2 for Atari, ours for MinAtar and for
everything else (general).

  mviq train CartPole-v1 --q 2 --seed 3
  mviq train MinAtar/Breakout-v1 --algorithm m-vi --total-steps 1e6 --track tensorboard
  mviq train ALE/Pong-v5 --config pong.yaml --device cuda
  mviq train --config runs/OLD/config.yaml --seed 4   the settings of a run, another seed
  mviq train CartPole-v1 --preset general --clip -1,1
  mviq train Acrobot-v1 --explain          what would be run, with the source of every default

The run's directory is named after environment, algorithm, q, seed and a hash of the settings.
The same command continues a run that was interrupted, by whatever, exactly where it was; one
that is finished is left alone.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "train",
        usage="%(prog)s ENV [options]",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "env",
        nargs="?",
        metavar="ENV",
        help="Gymnasium id, such as CartPole-v1; may stand in the file instead",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("runs"), metavar="DIR", help="where runs are (runs)"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings in YAML or TOML")
    parser.add_argument(
        "--explain", action="store_true", help="print the settings and their sources, and stop"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress")
    overrides.add_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Resolve the settings and train."""
    try:
        config = _configured(options)
        if options.explain:
            print(overrides.as_yaml(config), end="")
            return 0
    except ValueError as mistake:
        raise UsageError(f"train: {mistake}") from None
    return start(config, options.out, options.quiet)


def _configured(options: argparse.Namespace) -> "Config":
    """Return preset < file < command line."""
    settings = overrides.read_file(options.config) if options.config else {}
    typed = overrides.given(options)
    settings = overrides.merged(settings, typed)
    named = settings.pop("env", None)
    env = named if options.env is None else options.env
    if env is None:
        raise ValueError("which environment? Say its Gymnasium id, such as CartPole-v1")
    return presets.resolve(env, **settings)


def start(config: "Config", root: Path, quiet: bool) -> int:
    """Train in the directory of a configuration."""
    from mviq.runs.directory import RunDirectory
    from mviq.runs.training import train

    directory = RunDirectory(root / config.name)
    return to_the_end(directory, "train", quiet, lambda reporter: train(config, root, reporter))


def to_the_end(
    directory: "RunDirectory", command: str, quiet: bool, session: "Callable[[Reporter], Result]"
) -> int:
    """Let a session train, and say how it ended."""
    from mviq.runs.directory import RunError
    from mviq.runs.progress import reporter
    from mviq.runs.stopping import Stopped

    try:
        already = directory.result is not None
        result = session(reporter(quiet))
    except (RunError, ValueError) as mistake:
        raise UsageError(f"{command}: {mistake}") from None
    except OSError as mistake:
        raise UsageError(
            f"{command}: cannot use {mistake.filename or directory.path}: {mistake.strerror}"
        ) from None
    except (Stopped, KeyboardInterrupt) as stop:
        print(f"{str(stop) or 'interrupted'}; continue with: mviq resume {directory.path}")
        return 130
    return _report(directory, result, already)


def _report(directory: "RunDirectory", result: "Result", already: bool) -> int:
    when = "already " if already else ""
    print(f"{when}{result.status} after {result.steps} steps: {directory.path}")
    if result.message:
        print(result.message)
    return 0 if result.status == "finished" else 1
