"""``mviq watch``: show an agent playing, in a window or as a video."""

import argparse
from pathlib import Path

from mviq.cli.common import add_run_argument
from mviq.cli.evaluate import add_model_options, open_agent

DESCRIPTION = """\
Let the agent of a run play one episode, in a window. Without a screen it is
recorded as a video in the run's directory instead.

  mviq watch runs/CartPole-v1_mvi_q2_seed3_0123abcd
  mviq watch RUN --film breakout.gif --model best
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    parser.add_argument("--film", type=Path, metavar="FILE", help="write an .mp4 or .gif instead")
    parser.add_argument(
        "--policy", action="store_true", help="act by the policy π instead of greedily"
    )
    add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    from mviq.processor import threads
    from mviq.runs.evaluation import Way
    from mviq.runs.video import film, has_screen, show_episode

    directory, config, agent, seed = open_agent(options)
    way: Way = "policy" if options.policy else "greedy"
    window = options.film is None and has_screen()
    file = options.film or directory.videos / f"watch_{seed}.mp4"
    with threads(config.threads):
        played = (agent, config, seed)
        episode = show_episode(*played, way) if window else film(*played, file, way)
    where = "" if window else f": {file}"
    print(f"return {episode.total:g} after {episode.length} steps{where}")
    return 0
