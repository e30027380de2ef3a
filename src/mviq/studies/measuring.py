"""Measures the cost of a run by a few hundred of its steps, in a separate process.

``python -m mviq.studies.measuring`` reads a configuration from standard input, trains briefly
as ``mviq train`` does, steps the evaluation environments, and prints the cost as JSON.
"""

import json
import resource
import signal
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from mviq.runs.config import Config
from mviq.runs.directory import RunDirectory
from mviq.runs.presets import resolve
from mviq.runs.records import saved_step
from mviq.runs.reporter import Reporter
from mviq.runs.settings import convert

STEPS, SECONDS = 300, 1.0  # the least that is measured
PATIENCE = 8.0  # seconds of learning after the warm-up that suffice, however few the steps
WARM_UP = 20  # updates that are not timed: they compile kernels
_LONG = 1_000_000  # more steps than are ever measured
_KIB = 1024 if sys.platform == "linux" else 1  # bytes per unit of ru_maxrss


@dataclass(frozen=True)
class Measured:
    """The cost of a run on this machine."""

    start: float
    """Seconds until training starts."""
    step: float
    """Seconds per agent step, including its share of the updates."""
    evaluation_step: float
    """Seconds per step of all evaluation environments together."""
    memory: int
    """Bytes of the process, with an empty replay buffer."""
    transition: int
    """Bytes of a transition, both in the replay buffer and on disk."""
    checkpoint: int
    """Bytes of a checkpoint without the replay buffer."""
    model: int
    """Bytes of a saved agent."""


class Meter(Reporter):
    """Times a run between two steps, then asks it to stop, which saves a checkpoint."""

    def __init__(self, warm_up: int) -> None:
        self._warm_up, self._first, self._began = warm_up, 0, 0.0
        self.started, self.step = 0.0, 0.0
        self._last = 0, 0.0

    @property
    def so_far(self) -> float:
        """The seconds per step of a run that ended by itself, diverged or by a callback."""
        step, now = self._last
        return (now - self.started) / step if step else 0.0

    def update(self, step: int, mean_return: float | None) -> None:
        """Start the clock after the warm-up, and stop the run when it was long enough."""
        now = time.perf_counter()
        self._last = step, now
        self.started = self.started or now
        if self._first < self._warm_up:
            self._first, self._began = step, now
            return
        steps, seconds = step - self._first, now - self._began
        enough = seconds >= PATIENCE or (steps >= STEPS and seconds >= SECONDS)
        if not self.step and enough:
            self.step = seconds / steps
            signal.raise_signal(signal.SIGTERM)


def measure(config: Config, root: Path) -> Measured:
    """Train briefly, and return the cost."""
    began = time.perf_counter()
    from mviq.runs.stopping import Stopped
    from mviq.runs.training import train

    short = _short(config)
    meter = Meter(short.learning_starts + WARM_UP * config.train_every * config.n_envs)
    with suppress(Stopped):
        train(short, root, meter)
    run = RunDirectory(root / short.name)
    replay = _size(run.checkpoints / "replay")
    evaluation_step, model = evaluation_cost(short, root / "model.zip")
    return Measured(
        start=meter.started - began,
        step=meter.step or meter.so_far,
        evaluation_step=evaluation_step,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB,
        transition=replay // max(saved_step(run), 1),
        checkpoint=_size(run.checkpoints) - replay,
        model=model,
    )


def _short(config: Config) -> Config:
    """Return the configuration with updates from the start and nothing periodic."""
    return replace(
        config,
        total_steps=_LONG,
        learning_starts=min(config.learning_starts, config.batch_size),
        epsilon_start=config.epsilon_end,  # random actions are cheaper than the network's
        eval_every=0,
        log_every=_LONG,
        checkpoint_every=_LONG,
        track="none",
        video=False,
    )


def evaluation_cost(config: Config, model: Path) -> tuple[float, int]:
    """Return the seconds per evaluation step and the bytes of a saved agent."""
    from mviq.runs.building import make_agent, make_env
    from mviq.runs.evaluation import TOGETHER, choose_actions

    env = make_env(config, min(TOGETHER, config.eval_episodes), config.seed, evaluation=True)
    small = replace(config, buffer_size=config.batch_size * config.n_envs * config.n_steps)
    agent, generator = make_agent(small, env), np.random.default_rng(0)
    agent.save(model)
    observations = env.reset()
    choose_actions(agent, observations, generator, "greedy")  # compiles kernels
    began, steps = time.perf_counter(), 0
    while steps < STEPS and time.perf_counter() - began < SECONDS:
        observations = env.step(choose_actions(agent, observations, generator, "greedy"))[0]
        steps += 1
    seconds = (time.perf_counter() - began) / steps
    env.close()
    return seconds, model.stat().st_size


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.rglob("*") if file.is_file())


def main() -> None:
    """Measure the configuration on standard input."""
    warnings.simplefilter("ignore")
    config = resolve(**{name: convert(name, x) for name, x in json.load(sys.stdin).items()})
    with tempfile.TemporaryDirectory() as place:
        print(json.dumps(asdict(measure(config, Path(place)))))


if __name__ == "__main__":
    main()
