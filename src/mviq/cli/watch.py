"""``mviq watch``: see an agent play, in a window or as a film."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mviq.cli.errors import UsageError
from mviq.cli.evaluate import add_model_options, open_agent

if TYPE_CHECKING:
    from mviq.runs.building import Agent
    from mviq.runs.config import Config
    from mviq.runs.evaluation import Way

_DESCRIPTION = """\
Let the agent of a run play one episode: in a window, or where there is no screen as a film in the
run's directory.

  mviq watch runs/CartPole-v1_mvi_q2_seed3_0123abcd
  mviq watch RUN --film breakout.gif --model best
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "watch",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "path", type=Path, metavar="RUN", help="its directory, or the beginning of its name"
    )
    parser.add_argument("--film", type=Path, metavar="FILE", help="write an .mp4 or .gif instead")
    parser.add_argument(
        "--policy", action="store_true", help="act by the policy π instead of greedily"
    )
    add_model_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Show an episode."""
    from mviq.runs.directory import RunError
    from mviq.runs.evaluation import Way, seed_of
    from mviq.runs.video import film, has_screen

    directory, config, agent = open_agent(options, "watch")
    last = agent.num_timesteps + 1
    seed = seed_of(config.seed, last) if options.seed is None else options.seed
    way: Way = "policy" if options.policy else "greedy"
    if options.film is None and has_screen():
        return _show(agent, config, seed, way)
    file = options.film or directory.videos / f"watch_{seed}.mp4"
    try:
        episode = film(agent, config, seed, file, way)
    except (ValueError, RunError) as mistake:
        raise UsageError(f"watch: {mistake}") from None
    except OSError as mistake:
        raise UsageError(f"watch: cannot write {file}: {mistake.strerror}") from None
    print(f"return {episode.total:g} after {episode.length} steps: {file}")
    return 0


def _show(agent: "Agent", config: "Config", seed: int, way: "Way") -> int:
    """Show an episode in a window."""
    import matplotlib.pyplot as plt

    from mviq.runs.video import FRAMES_PER_SECOND, play

    shown = None
    for picture, episode in play(agent, config, seed, way):
        if shown is None:
            shown = plt.imshow(picture)
            plt.axis("off")
        shown.set_data(picture)
        plt.title(f"{config.env}: return {episode.total:g}, step {episode.length}")
        plt.pause(1 / FRAMES_PER_SECOND)
        if not plt.get_fignums():
            break
    return 0
