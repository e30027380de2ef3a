"""Updates per second of the agents, against their peers and against their matrix products alone.

In every setting, all agents run in turns for several rounds, in one process and one thread. The
result is the median over rounds of the ratio within a round, with its quartiles. CPU time is
measured, so that other processes have little influence. An update includes the four environment
steps before it. Each agent is warmed up first: loops are compiled, memory has been touched, and
Adam's moments have decayed to denormal numbers, with which processors are slow, as they have in all
but the first seconds of a run.

    python benchmarks/throughput.py [--quick] [--profile] [--markdown] [SETTING ...]

If installed, by pip install 'mviq[bench]', SBX's and rejax's DQN take part in the first setting and
rejax's IQN in that of the implicit critic.
"""

import argparse
import cProfile
import gc
import os
import platform
import pstats
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from floor import Products, environment_alone, gemm_rate, replay_bytes
from settings import LEARNING_STARTS, SETTINGS, Setting, contenders

LEAST_WARM_UP = LEARNING_STARTS + 60  # so that a quick run measures updates too
COLUMNS = "agent", "ms/update", "steps/s", "vs peer", "quartiles", "vs q = ∞", "replay MB"
AGAINST_REJAX = 1.05
DEARER = {"q = 2": 1.1, "q = 3": 1.2}  # largest time relative to q = ∞


@dataclass(frozen=True)
class Result:
    """Measurements of one setting: milliseconds per update of every agent in every round."""

    setting: Setting
    times: dict[str, np.ndarray]
    replay: dict[str, float]
    products: np.ndarray
    rate: float
    environment: float

    @property
    def peer(self):
        """The name of the agent to compare with."""
        return next(iter(self.times))

    def ours(self, family):
        """Return the name of our agent with this family."""
        return next(name for name in self.times if name.endswith(f" {family}"))

    def gain(self, name):
        """Return the speed-up of an agent over the peer: lower quartile, median, upper quartile."""
        return np.quantile(self.times[self.peer] / self.times[name], (0.25, 0.5, 0.75))

    def cost(self, name):
        """Return the median time of an agent relative to that of ours with q = ∞."""
        return float(np.median(self.times[name] / self.times[self.ours("q = ∞")]))

    @property
    def above_products(self):
        """Return the median time of ours with q = 2, relative to its matrix products alone."""
        return float(np.median(self.times[self.ours("q = 2")] / self.products))

    @property
    def against_rejax(self):
        """Return the speed-up of ours with q = ∞, α = 0 over rejax's agents, if they take part."""
        ours = self.times[self.ours("q = ∞, α = 0")]
        peers = {name: values for name, values in self.times.items() if name.startswith("rejax")}
        return {name: float(np.median(values / ours)) for name, values in peers.items()}

    @property
    def floor(self):
        """Return the median milliseconds of the matrix products of an update."""
        return float(np.median(self.products))

    def verdicts(self):
        """Return each target as text, and whether it is reached."""
        if self.setting.goal is None:
            return []
        gain, column = self.gain(self.ours("q = 2"))[1], 0 if "AMD" in processor() else 1
        goal, most = self.setting.goal[column], self.setting.most[column]
        found = [(f"q = 2 at least {goal:g}× {self.peer}: {gain:.2f}×", gain >= goal)]
        said = f"q = 2 at most {most:g}× of its products: {self.above_products:.2f}×"
        found.append((said, self.above_products <= most))
        for name, gain in self.against_rejax.items():
            said = f"q = ∞, α = 0 at least {AGAINST_REJAX:g}× {name}: {gain:.2f}×"
            found.append((said, gain >= AGAINST_REJAX))
        for family, most in DEARER.items():
            cost = self.cost(self.ours(family))
            found.append((f"{family} at most {most:g}× of q = ∞: {cost:.2f}×", cost <= most))
        return found


def milliseconds_per_update(agent, updates):
    """Return the CPU time per update, after checking the number of updates."""
    before, begun = agent._n_updates, time.process_time()
    agent.learn(4 * updates, reset_num_timesteps=False)
    spent = time.process_time() - begun
    assert agent._n_updates - before == updates
    return 1e3 * spent / updates


def measure(setting, rounds, scale, profile):
    """Measure the agents of a setting in turns."""
    agents = contenders(setting)
    updates = max(4, int(setting.updates * scale))
    for agent in agents.values():
        agent.learn(max(LEAST_WARM_UP, int(setting.warm_up * scale)))
    ours = next(agent for name, agent in agents.items() if name.endswith("q = 2"))
    times, products, alone = np.empty((rounds, len(agents))), Products(ours), np.empty(rounds)
    for i in range(rounds):
        times[i] = [milliseconds_per_update(agent, updates) for agent in agents.values()]
        alone[i] = products.milliseconds(updates)
    columns = dict(zip(agents, times.T, strict=True))
    replay = {name: replay_bytes(agent.replay_buffer) / 1e6 for name, agent in agents.items()}
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(milliseconds_per_update, ours, updates)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    environment = environment_alone(ours)
    rate = products.flops / np.median(alone) / 1e6
    return Result(setting, columns, replay, alone, rate, environment)


def show(console, result):
    """Print one setting: a row for every agent, then the lower bounds and the targets."""
    table = Table(title=result.setting.title, title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == "agent" else "right")
    for name, values in result.times.items():
        ms, (low, gain, high) = np.median(values), result.gain(name)
        cost = f"{result.cost(name):.2f}" if "q = " in name else ""
        row = [name, f"{ms:.2f}", f"{4e3 / ms:.0f}", f"{gain:.2f}×", f"{low:.2f}–{high:.2f}", cost]
        table.add_row(*row, f"{result.replay[name]:.0f}")
    console.print(table)
    peer, ours = (np.median(result.times[n]) for n in (result.peer, result.ours("q = 2")))
    console.print(
        f"MVI(q)'s multiplications alone: {result.floor:.2f} ms at {result.rate:.0f} GFLOP/s, "
        f"which would allow {peer / result.floor:.1f}×"
    )
    share = f"{100 * result.environment / ours:.0f} % of our time, "
    share += f"{100 * result.environment / peer:.0f} % of the peer's"
    console.print(f"four steps of the environment alone: {result.environment:.2f} ms, {share}")
    console.print(f"q = 2 relative to its products: {result.above_products:.2f}")
    for name, gain in result.against_rejax.items():
        console.print(f"q = ∞, α = 0 relative to {name}: {gain:.2f}×")
    for said, reached in result.verdicts():
        console.print(f"{said}, {'reached' if reached else 'NOT reached'}")
    console.print()


def markdown(results):
    """Return one line per setting, for the documentation."""
    head = "setting", "peer", "peer, ms", "q = 2, ms", "ratio", "quartiles", "goal"
    head += "q = 2 / q = ∞", "q = 3 / q = ∞", "products, ms", "q = 2 / products"
    head += "environment, ms", "replay, MB"
    lines = [head, ["---"] + ["---:"] * (len(head) - 1)]
    for result in results:
        ours = result.ours("q = 2")
        low, gain, high = result.gain(ours)
        goal = result.setting.goal
        lines.append(
            [
                result.setting.title,
                result.peer,
                *(f"{np.median(result.times[name]):.2f}" for name in (result.peer, ours)),
                f"**{gain:.2f}×**",
                f"{low:.2f}–{high:.2f}",
                "" if goal is None else f"{goal[0 if 'AMD' in processor() else 1]:g}×",
                *(f"{result.cost(result.ours(family)):.2f}" for family in DEARER),
                f"{result.floor:.2f}",
                f"{result.above_products:.2f}",
                f"{result.environment:.2f}",
                f"{result.replay[result.peer]:.0f} / {result.replay[ours]:.0f}",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def processor():
    """Return the name of the processor."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return (names or [platform.processor()])[0]


def machine():
    """Return a description of the processor, its load and the versions."""
    versions = ", ".join(f"{p} {version(p)}" for p in ("torch", "stable-baselines3", "sb3-contrib"))
    return (
        f"{processor()}, {os.cpu_count()} cores, one thread used, "
        f"load {os.getloadavg()[0]:.1f}, matrix product of 1024 at {gemm_rate():.0f} GFLOP/s; "
        f"{versions}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--profile", action="store_true", help="where our time goes")
    parser.add_argument("--markdown", action="store_true", help="the table of the documentation")
    arguments = parser.parse_args()
    unknown = set(arguments.settings) - SETTINGS.keys()
    if unknown:
        parser.error(f"SETTING must be one of {', '.join(SETTINGS)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    console = Console(width=110, stderr=arguments.markdown)
    facts = machine()
    peers = [peer for peer in ("sbx", "rejax") if find_spec(peer)]
    console.print(f"{facts}\npeers besides those: {', '.join(peers) or 'none installed'}\n")
    rounds, scale = (5, 0.3) if arguments.quick else (15, 1.0)
    results = []
    for name in arguments.settings or SETTINGS:
        results.append(measure(SETTINGS[name], rounds, scale, arguments.profile))
        show(console, results[-1])
        gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    console.print(f"peak memory of this process: {peak:.0f} MB")
    if arguments.markdown:
        print(f"{facts}\n\n{markdown(results)}")
    missed = [said for result in results for said, good in result.verdicts() if not good]
    console.print(f"missed: {'; '.join(missed)}" if missed else "all targets reached")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
