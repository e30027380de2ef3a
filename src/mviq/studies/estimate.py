"""Estimates the hours, memory and disk of a study from measurements on this machine."""

import heapq
import json
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields
from math import ceil
from operator import eq
from pathlib import Path

from mviq.messages import counted
from mviq.progress import duration
from mviq.runs.config import Config
from mviq.runs.evaluation import TOGETHER
from mviq.runs.session import CHECKPOINT_SECONDS
from mviq.storage import json_bytes, write_durably
from mviq.studies.engine import Task
from mviq.studies.measuring import Measured
from mviq.studies.process import environment

COST = (
    *("env", "critic", "network", "hidden", "n_quantiles", "batch_size", "train_every"),
    *("gradient_steps", "n_envs", "n_steps", "protocol", "backend", "threads", "device"),
    *(part.name for part in fields(Config) if part.metadata["optional"]),
)
"""The settings that determine the cost of a step; runs that share them are measured once."""
LONGEST = 15.0  # seconds after which no further class is measured
LONG_EPISODE = 1000  # steps assumed for an evaluation episode without a shorter time limit
CHECKPOINTS = 3  # two are kept while a third is written
ROW = 300  # bytes of a row of progress.csv and timing.csv together
EPISODE_ROW = 32  # bytes of a row of evaluations.csv
GROWTH = 1.1  # factor for memory that the measurement misses: tables, evaluation, fragmentation


@dataclass(frozen=True)
class Estimate:
    """The cost of the runs that are left."""

    runs: int
    steps: int
    seconds: float
    workers: int
    memory: int
    """Bytes of the largest run."""
    disk: int
    """Upper bound of the bytes of all runs together."""

    def __str__(self) -> str:
        at_once = f"{self.workers} at a time" if self.workers > 1 else "one at a time"
        return (
            f"{counted(self.runs, 'run')}, {self.steps:,} steps, about {duration(self.seconds)} "
            f"({at_once}), memory {size(self.workers * self.memory)}, disk {size(self.disk)}"
        )


def size(number: float) -> str:
    """Format a number of bytes.

    >>> size(3_200_000_000), size(420_000)
    ('3.2 GB', '0.4 MB')
    """
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.1f} MB"


def cost_class(config: Config) -> tuple[object, ...]:
    """Return the settings that determine the cost of a step."""
    return tuple(getattr(config, name) for name in COST)


def measured(
    configs: Sequence[Config],
    at_once: int,
    kept: Path,
    say: Callable[[str], None] = lambda text: None,
) -> dict[tuple[object, ...], Measured]:
    """Return the cost of each class, from the file ``kept`` or measured now.

    A class that there was no time to measure is given the cost of the most similar one.
    """
    classes = {cost_class(config): config for config in reversed(configs)}
    names = {key: _name(key, at_once) for key in classes}
    known = _read_costs(kept)
    missing = {key: config for key, config in classes.items() if names[key] not in known}
    if missing:
        say("measuring a few hundred steps, to estimate how long the runs take …")
    fresh = _measure_classes(missing, at_once) if missing else {}
    if fresh:
        known |= {names[key]: cost for key, cost in fresh.items()}
        content = {name: asdict(cost) for name, cost in known.items()}
        write_durably(kept, json_bytes(content, indent=1))
    costs = {key: known[names[key]] for key in classes if names[key] in known}
    return {key: costs[_most_similar(key, costs)] for key in classes}


def _name(key: tuple[object, ...], at_once: int) -> str:
    """Return the key of a cost, which holds for this machine and this many runs at once."""
    return json.dumps([platform.node(), at_once, *key])


def _read_costs(kept: Path) -> dict[str, Measured]:
    """Return the costs in a file; none if it cannot be read, since they can be measured again."""
    try:
        content = json.loads(kept.read_bytes())
        return {name: Measured(**cost) for name, cost in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _most_similar(
    key: tuple[object, ...], keys: Collection[tuple[object, ...]]
) -> tuple[object, ...]:
    return max(keys, key=lambda other: sum(map(eq, key, other)))


def _measure_classes(
    classes: Mapping[tuple[object, ...], Config], at_once: int
) -> dict[tuple[object, ...], Measured]:
    """Measure the classes for about ``LONGEST`` seconds, as many runs at once as in the study."""
    rounds = ceil(at_once / len(classes))  # so that no core is idle during a measurement
    end = time.monotonic() + LONGEST
    processes: list[subprocess.Popen[str]] = []
    costs: dict[tuple[object, ...], Measured] = {}

    def measure(key: tuple[object, ...]) -> None:
        if costs and time.monotonic() > end:
            return
        cost = _measure(classes[key], processes)
        costs[key] = max(cost, costs.get(key, cost), key=lambda one: one.step)

    with ThreadPoolExecutor(at_once) as threads:
        try:
            list(threads.map(measure, list(classes) * rounds))
        except BaseException:  # also Ctrl-C: leave no process behind
            threads.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.kill()
            raise
    return costs


def _measure(config: Config, processes: list[subprocess.Popen[str]]) -> Measured:
    """Measure a run in a process, which is added to ``processes``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mviq.studies.measuring"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(config.threads),
    )
    processes.append(process)
    shown, words = process.communicate(json.dumps(asdict(config)))
    if process.returncode:
        cause = (words.strip() or f"exit code {process.returncode}").splitlines()[-1]
        raise ValueError(f"a run on {config.env} could not be measured: {cause}")
    return Measured(**json.loads(shown))


def estimate(
    tasks: Sequence[Task], costs: Mapping[tuple[object, ...], Measured], workers: int
) -> Estimate:
    """Estimate the cost of tasks of which ``workers`` are executed at once."""
    priced = [(task, costs[cost_class(task.config)]) for task in tasks]
    finals = sum(_disk_of_finished(task.config, cost) for task, cost in priced)
    working = sorted((_disk_at_work(task.config, cost) for task, cost in priced), reverse=True)
    return Estimate(
        runs=len(tasks),
        steps=sum(task.steps for task in tasks),
        seconds=_makespan([seconds(task, cost) for task, cost in priced], workers),
        workers=workers,
        memory=max((memory(task.config, cost) for task, cost in priced), default=0),
        disk=finals + sum(working[:workers]),
    )


def seconds(task: Task, cost: Measured) -> float:
    """Return how long a task takes."""
    config = task.config
    evaluations = task.steps / config.eval_every if config.eval_every else 0
    rounds = ceil(config.eval_episodes / TOGETHER)
    of_evaluation = rounds * _episode_limit(config) * cost.evaluation_step
    return cost.start + task.steps * cost.step + evaluations * of_evaluation


def memory(config: Config, cost: Measured) -> int:
    """Return the bytes of a run's process when its replay buffer is full."""
    transitions = min(config.buffer_size, config.total_steps)
    return round(cost.memory * GROWTH) + transitions * cost.transition


def _disk_at_work(config: Config, cost: Measured) -> int:
    """Return the bytes of checkpoints, whose replay log also holds overwritten transitions."""
    between = config.checkpoint_every or int(CHECKPOINT_SECONDS / cost.step)
    logged = min(config.buffer_size + 2 * between, config.total_steps)
    return CHECKPOINTS * cost.checkpoint + logged * cost.transition


def _disk_of_finished(config: Config, cost: Measured) -> int:
    rows = config.total_steps // config.log_every
    evaluations = config.total_steps // config.eval_every if config.eval_every else 0
    episodes = evaluations * config.eval_episodes
    kept = _disk_at_work(config, cost) if config.keep_checkpoint else 0
    return 2 * cost.model + ROW * rows + EPISODE_ROW * episodes + kept


def _episode_limit(config: Config) -> int:
    import gymnasium

    name = config.env.rpartition(":")[2]  # its module was imported when the run was checked
    limit = gymnasium.spec(name).max_episode_steps
    return min(limit or LONG_EPISODE, LONG_EPISODE)


def _makespan(times: Sequence[float], workers: int) -> float:
    """Return when the last run ends, if each begins as soon as there is room."""
    ends = [0.0] * workers
    for taken in times:
        heapq.heapreplace(ends, ends[0] + taken)
    return max(ends)
