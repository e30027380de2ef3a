"""``mviq export``: write the agent of a run to a folder to publish."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mviq.cli.common import add_run_argument
from mviq.cli.evaluate import add_model_options, model_file, open_agent, return_statistics
from mviq.messages import counted

if TYPE_CHECKING:
    from mviq.runs.config import Config

DESCRIPTION = """\
Make a folder that is ready for a model hub, such as the Hugging Face Hub: the
agent of a run, its settings and tables, a video, and a README.md (the model
card) with its scores.

  mviq export runs/CartPole-v1_mvi_q2_seed3_0123abcd
  mviq export RUN --out cartpole --model best --episodes 100
  mviq export RUN --no-film
"""


_RESCALED = """
It has learnt from observations as `VecNormalize` of Stable-Baselines3 rescales them, and has to be
given such; their statistics are in `model.normalize.json`.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run_argument(parser)
    add = parser.add_argument
    add("--out", type=Path, metavar="DIR", help="the folder (export/NAME_OF_THE_RUN)")
    add("--episodes", type=int, default=20, metavar="N", help="episodes to measure its score (20)")
    add(
        "--film",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="include a video, replay.mp4",
    )
    add("--force", action="store_true", help="replace files that exist with other content")
    add_model_options(parser)


def run(options: argparse.Namespace) -> int:
    """Evaluate the agent, write the folder and print its path."""
    from mviq.progress import counting
    from mviq.runs.building import model_files
    from mviq.runs.evaluation import evaluate
    from mviq.runs.video import film
    from mviq.storage import check_writable, json_bytes, write_files

    if options.episodes < 1:
        raise ValueError(f"--episodes must be at least 1, got {options.episodes}")
    directory, config, agent, seed = open_agent(options)
    out = options.out or Path("export") / directory.path.name
    check_writable(out)
    with counting("greedy episodes", options.episodes) as tell:
        scores = return_statistics(evaluate(agent, config, options.episodes, seed, tell=tell))
    model = model_files(config, model_file(directory, options.model))
    files = {file.name.removeprefix("best_"): file for file in model}
    tables = (directory.config_file, directory.evaluations, directory.progress)
    files |= {file.name: file for file in tables}
    contents = {name: file.read_bytes() for name, file in files.items() if file.is_file()}
    contents["scores.json"] = json_bytes(scores, indent=1)
    contents["README.md"] = card(config, agent.num_timesteps, scores, options.film).encode()
    if options.film:
        with TemporaryDirectory() as place:
            film(agent, config, seed, Path(place) / "replay.mp4")
            contents["replay.mp4"] = (Path(place) / "replay.mp4").read_bytes()
    written = write_files(contents, out, options.force)
    print(f"{out}: {', '.join(sorted(path.name for path in written))}")
    return 0


def card(config: "Config", steps: int, scores: dict[str, Any], filmed: bool) -> str:
    """Return the model card: a YAML header for the hub and a Markdown description."""
    import yaml

    from mviq.runs.config import CRITICS

    agent = CRITICS[config.critic].agent
    played = counted(len(scores["returns"]), "greedy episode")
    spread = "" if scores["low"] is None else f", 95 % interval {_span(scores)}"
    header = yaml.safe_dump(_header(config, scores), sort_keys=False, allow_unicode=True)
    settings = {name: getattr(config, name) for name in config.given}
    rows = "".join(f"| `{name}` | {value} |\n" for name, value in settings.items())
    rescaled = _RESCALED if config.normalize in ("observations", "both") else ""
    film = "A film of one episode is in `replay.mp4`.\n\n" if filmed else ""
    return f"""\
---
{header}---

# {config.algorithm} (q = {config.q:g}) on {config.env}

An agent of the library mviq, trained for {steps:,} steps with seed {config.seed}.

Mean return of {played}: **{scores["mean"]:.2f}**{spread}; median
{scores["median"]:.2f}, from {scores["min"]:.2f} to {scores["max"]:.2f}. It is one run: another seed
can give another agent.

{film}```python
from mviq.agents import {agent}

agent = {agent}.load("model.zip")  # JSON and arrays: loading runs no code
```
{rescaled}
## Settings

The preset is `{config.preset}`; all settings with their sources are in `config.yaml`, which
`mviq train --config config.yaml` takes. Those that were given:

| setting | value |
|---|---|
{rows}"""


def _span(scores: dict[str, Any]) -> str:
    return f"{scores['low']:.2f} to {scores['high']:.2f}"


def _header(config: "Config", scores: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of the card in the format of the Hugging Face Hub."""
    from math import isnan, nan
    from statistics import pstdev

    spread = nan if isnan(scores["mean"]) else pstdev(scores["returns"])
    value = f"{scores['mean']:.2f} +/- {spread:.2f}"
    result = {
        "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
        "dataset": {"name": config.env, "type": config.env},
        "metrics": [{"type": "mean_reward", "value": value, "name": "mean_reward"}],
    }
    return {
        "library_name": "mviq",
        "tags": [config.env, "deep-reinforcement-learning", "reinforcement-learning", "mviq"],
        "model-index": [{"name": f"{config.algorithm} q={config.q:g}", "results": [result]}],
    }
