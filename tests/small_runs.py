"""Configurations so small that a run takes a second."""

from mviq.runs import Config, resolve
from mviq.runs.reporter import Reporter
from mviq.runs.training import train

COMMON = {
    "hidden": (16,),
    "batch_size": 16,
    "buffer_size": 400,
    "total_steps": 1000,
    "learning_starts": 50,
    "target_every": 50,
    "eval_every": 250,
    "eval_episodes": 2,
    "log_every": 100,
    "checkpoint_every": 100,
    "keep_checkpoint": True,
}
PICTURES = COMMON | {"hidden": (), "temperature": 0.03}
ATARI = PICTURES | {"n_quantiles": 8, "total_steps": 240, "eval_every": 0, "checkpoint_every": 40}


def cartpole(**changes) -> Config:
    return resolve("CartPole-v1", **COMMON | changes)


def minatar(game: str = "Breakout", **changes) -> Config:
    return resolve(f"MinAtar/{game}-v1", **PICTURES | {"epsilon_fraction": 0.3} | changes)


def atari(game: str = "Breakout", **changes) -> Config:
    return resolve(f"ALE/{game}-v5", **ATARI | {"buffer_size": 120} | changes)


class CrashError(Exception):
    """Power failure, as far as the run can tell."""


class Crashing(Reporter):
    """A reporter that ends the session at a step, and remembers what was said."""

    def __init__(self, at: int | None = None) -> None:
        self.at, self.said = at, []

    def update(self, step: int, mean_return: float | None) -> None:
        if self.at is not None and step >= self.at:
            raise CrashError

    def say(self, text: str) -> None:
        self.said.append(text)


def crash(config: Config, root, at: int) -> list[str]:
    """Train until a step, and crash there; return what was said."""
    reporter = Crashing(at)
    try:
        train(config, root, reporter)
    except CrashError:
        return reporter.said
    raise AssertionError("the run finished before it could crash")
