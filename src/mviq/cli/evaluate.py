"""``mviq evaluate``: evaluate the agent of a run on new episodes."""

import argparse
from math import isfinite, nan
from typing import TYPE_CHECKING, Any, get_args

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mviq.cli.common import add_run_argument
from mviq.storage import json_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from mviq.agents import Agent
    from mviq.runs.config import Config
    from mviq.runs.directory import RunDirectory
    from mviq.runs.evaluation import Episode

DESCRIPTION = """\
Play episodes with the agent of a run, greedily and by sampling from its policy
π, and print the raw, unclipped returns: their mean with a 95 % bootstrap
interval, median, minimum and maximum.

  mviq evaluate runs/CartPole-v1_mvi_q2_seed3_0123abcd --episodes 100
  mviq evaluate RUN --model best --json | jq .greedy.mean
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--episodes", type=int, default=100, metavar="N", help="how many (100)")
    add_model_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``evaluate``, ``watch`` and ``export`` share."""
    parser.add_argument(
        "--model",
        choices=("final", "best"),
        help="the last agent, or the one with the best evaluation (final if there is one)",
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="seed of the episodes (derived from the run's)"
    )


def open_agent(options: argparse.Namespace) -> "tuple[RunDirectory, Config, Agent, int]":
    """Load the agent of a run; return the run, its config, the agent and an episode seed."""
    from mviq.runs.building import check_config, load_trained_agent
    from mviq.runs.config import SEEDS
    from mviq.runs.directory import find_run
    from mviq.runs.evaluation import seed_of

    last = SEEDS - max(getattr(options, "episodes", 1), 1)  # each episode has its own seed
    if options.seed is not None and not 0 <= options.seed <= last:
        raise ValueError(f"--seed must be between 0 and {last}, got {options.seed}")
    directory = find_run(options.path)
    config = directory.config()
    check_config(config)
    agent = load_trained_agent(config, model_file(directory, options.model))
    last = agent.num_timesteps + 1  # other episodes than in evaluations during training
    seed = seed_of(config.seed, last) if options.seed is None else options.seed
    return directory, config, agent, seed


def model_file(directory: "RunDirectory", model: str | None) -> "Path":
    """Return the file of the final or best agent; by default the final one if there is one."""
    final = model == "final" or (model is None and directory.model.is_file())
    file: Path = directory.model if final else directory.best_model
    if not file.is_file():
        raise ValueError(f"{directory.path} has no {file.name} yet")
    return file


def run(options: argparse.Namespace) -> int:
    """Evaluate the agent and print the results."""
    from mviq.progress import counting
    from mviq.runs.evaluation import Way, evaluate

    if options.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, got {options.episodes}")
    _, config, agent, seed = open_agent(options)
    results = {}
    for way in get_args(Way):
        with counting(f"{way} episodes", options.episodes) as tell:
            results[way] = return_statistics(
                evaluate(agent, config, options.episodes, seed, way, tell)
            )
    if options.json:
        content = {"env": config.env, "steps": agent.num_timesteps, "seed": seed, **results}
        print(json_bytes(content, indent=2).decode(), end="")
    else:
        _print_table(config, agent.num_timesteps, results)
    return 0


def return_statistics(episodes: "Sequence[Episode]") -> dict[str, Any]:
    """Return statistics of the returns.

    The interval of the mean is None for one episode; if a return is not finite, the mean is NaN.
    """
    from statistics import median

    from mviq.reports.statistics import interval, mean

    returns = [episode.total for episode in episodes]
    finite = all(map(isfinite, returns))
    number = interval(mean, [[x] for x in returns] if finite else [[nan]], method="percentile")
    known = finite and len(returns) > 1
    return {
        "mean": number.estimate,
        "low": number.low if known else None,
        "high": number.high if known else None,
        "median": median(returns),
        "min": min(returns),
        "max": max(returns),
        "returns": returns,
        "lengths": [episode.length for episode in episodes],
    }


def _print_table(config: "Config", steps: int, results: dict[str, dict[str, Any]]) -> None:
    episodes = len(results["greedy"]["returns"])
    title = f"{config.env}, {config.algorithm}, q = {config.q:g}: {episodes} episodes, step {steps}"
    table = Table("acting", "mean return", "95 % interval", "median", "min", "max")
    table.title = Text(title)
    for way, row in results.items():
        cells = [f"{row[name]:.2f}" for name in ("median", "min", "max")]
        interval = "–" if row["low"] is None else f"{row['low']:.2f} to {row['high']:.2f}"
        table.add_row(way, f"{row['mean']:.2f}", interval, *cells)
    Console(highlight=False).print(table)
