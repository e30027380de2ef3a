"""Do two parallel runs, each a process with one thread, have twice the throughput of one?

Runs with the settings of Table 1 (CartPole, two layers of 512, batch 128) are measured in turns,
one alone and two in parallel, in the worker processes of ``mviq study run``. Only training is
measured, from when the last run is warm until the first one has ended, so that start-up does not
count. The result is the median over rounds of the pair's total throughput over the single run's.

It needs two idle cores. On a busy machine, --processor measures CPU time instead of wall-clock
time: it shows whether the two runs slow each other down, by threads or by memory, and ignores other
processes. Both are printed.

    python benchmarks/studies.py [--rounds N] [--steps N] [--processor]
"""

import argparse
import math
import os
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from mviq.studies import machine
from mviq.studies.engine import Ended, Event, Progress, Task
from mviq.studies.local import LocalEngine
from mviq.studies.plan import config_of, expand
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import study_from

GOAL = 1.8
WARM_UP = 1_000  # steps


class Sample(NamedTuple):
    """The wall-clock time, CPU time and step of a run at one moment."""

    clock: float
    processor: float
    step: int


class Rates(NamedTuple):
    """Total steps per second of several runs, by wall-clock time and by CPU time."""

    clock: float
    processor: float


def throughput(place: Path, seeds: list[int], steps: int) -> Rates:
    """Return the total throughput of parallel runs while all of them are training."""
    settings = {"total_steps": steps, "eval_every": 0, "log_every": steps}
    settings |= {"checkpoint_every": steps}
    content = {"name": "bench", "environments": ["CartPole-v1"], "seeds": seeds}
    plan = expand(study_from({**content, "settings": settings}))
    StudyDirectory(place).settle("", plan)
    seen: dict[str, list[Sample]] = {run.run: [] for run in plan.runs}
    processes: dict[str, Path] = {}

    def hear(event: Event) -> None:
        if isinstance(event, Progress):
            process = processes.get(event.run) or process_of(place, event.run)
            processes[event.run] = process
            if event.step >= WARM_UP and process.exists():
                now = time.perf_counter(), processor_time(process), event.step
                seen[event.run].append(Sample(*now))
        elif isinstance(event, Ended) and event.how != "finished":
            raise RuntimeError(f"{event.run}: {event.reason}")

    engine, active = LocalEngine(), len(plan.runs)
    for run in plan.runs:
        engine.start(Task(place, run, config_of(run)))
    while active:
        for event in engine.events():
            hear(event)
            active -= isinstance(event, Ended)
    return rates(list(seen.values()))


def process_of(place: Path, run: str) -> Path:
    """Return the directory in /proc of a run's process."""
    wanted = [str(place).encode(), run.encode()]
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cmdline").read_bytes().split(b"\0")[-3:-1] == wanted:
                return process
    raise RuntimeError(f"{run} has no process")


def processor_time(process: Path) -> float:
    """Return the CPU time of a process in seconds."""
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return math.nan
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rates(runs: list[list[Sample]]) -> Rates:
    """Return the total throughput from when the last run was warm until the first one ended."""
    window = max(run[0].clock for run in runs), min(run[-1].clock for run in runs)
    clock = processor = 0.0
    for run in runs:
        inside = [s for s in run if window[0] <= s.clock <= window[1] and s.processor >= 0]
        steps = inside[-1].step - inside[0].step
        clock += steps / (inside[-1].clock - inside[0].clock)
        processor += steps / (inside[-1].processor - inside[0].processor)
    return Rates(clock, processor)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--processor", action="store_true")
    options = parser.parse_args()
    if machine.cores() < 2:
        print("this needs 2 cores")
        return 1
    found = []
    for number in range(options.rounds):
        with tempfile.TemporaryDirectory() as place:
            alone = throughput(Path(place) / "alone", [number], options.steps)
            pair = throughput(Path(place) / "pair", [number, number + 100], options.steps)
        ratios = Rates(pair.clock / alone.clock, pair.processor / alone.processor)
        found.append(ratios.processor if options.processor else ratios.clock)
        print(
            f"alone {alone.clock:5.0f}, two at once {pair.clock:5.0f} steps/s: {ratios.clock:.2f}× "
            f"by the clock, {ratios.processor:.2f}× by the processor",
            flush=True,
        )
    median = statistics.median(found)
    reached = median >= GOAL
    print(f"two runs at once: {median:.2f}× one, {'at least' if reached else 'below'} {GOAL}×")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
