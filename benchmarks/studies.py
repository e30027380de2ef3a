"""Do two runs at once, each a process with one thread, get twice as much done as one?

The same run of Table 1 (CartPole, two layers of 512, batch 128) is measured alone and in a pair,
in turns, by the processes that ``mviq study run`` starts. What counts is training only: from when
the last run is warm until the first one has ended, so start-up does not decide. The verdict is the
median over the rounds of both of the pair together / the one alone.

    python benchmarks/studies.py [--rounds N] [--steps N]
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from mviq.studies import machine
from mviq.studies.directory import StudyDirectory
from mviq.studies.engine import Ended, Event, Progress, Task
from mviq.studies.file import study_from
from mviq.studies.local import LocalEngine
from mviq.studies.plan import expand

GOAL = 1.8
WARM_UP = 1_000  # steps


Samples = list[tuple[float, int]]
"""Times, and the step that a run was at."""


def throughput(place: Path, seeds: list[int], steps: int) -> float:
    """Return the steps per second of some runs together, while all of them are training."""
    settings = {"total_steps": steps, "eval_every": 0, "log_every": steps}
    settings |= {"checkpoint_every": steps}
    content = {"name": "bench", "environments": ["CartPole-v1"], "seeds": seeds}
    plan = expand(study_from({**content, "settings": settings}))
    StudyDirectory(place).settle("", plan)
    seen: dict[str, Samples] = {run.run: [] for run in plan.runs}

    def hear(event: Event) -> None:
        if isinstance(event, Progress) and event.step >= WARM_UP:
            seen[event.run].append((time.perf_counter(), event.step))
        elif isinstance(event, Ended) and event.how != "finished":
            raise RuntimeError(f"{event.run}: {event.reason}")

    tasks = [Task(place, run.run) for run in plan.runs]
    LocalEngine(len(tasks)).run(tasks, hear, threading.Event())
    return _rate(list(seen.values()))


def _rate(runs: list[Samples]) -> float:
    """Return the steps per second between when the last has begun and the first has ended."""
    window = max(run[0][0] for run in runs), min(run[-1][0] for run in runs)
    done = sum(float(np.diff(np.interp(window, *zip(*run, strict=True)))[0]) for run in runs)
    return done / (window[1] - window[0])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12_000)
    options = parser.parse_args()
    if machine.cores() < 2:
        print("this needs 2 cores")
        return 1
    ratios = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            alone = throughput(Path(place) / "alone", [number], options.steps)
            pair = throughput(Path(place) / "pair", [number, number + 100], options.steps)
        ratios.append(pair / alone)
        print(f"alone {alone:6.0f} steps/s, two at once {pair:6.0f} steps/s: {pair / alone:.2f}×")
    found = statistics.median(ratios)
    reached = found >= GOAL
    print(f"two runs at once: {found:.2f}× one, {'at least' if reached else 'below'} {GOAL}×")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
