"""Updates per second of the agents, against their peers and against the multiplications alone.

Every setting runs all contenders in turn, several rounds, one thread each, in one process; what
counts is the ratio of the medians. Times are of the processor, so that others at work on the
machine disturb little. An update includes the four environment steps before it. Before it is
measured an agent learns for a while: the first updates are faster than the rest of a run, since
Adam's moments have not yet decayed to the denormal numbers that processors are slow with.

    python benchmarks/throughput.py [--quick] [--profile] [SETTING ...]
"""

import argparse
import cProfile
import gc
import math
import pstats
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from sb3_contrib import QRDQN
from stable_baselines3 import DQN

from mviq import envs
from mviq.agents import MVI, QRMVI, FrameReplayBuffer, MinAtarCNN

console = Console(width=110)


class Screens(gym.Env):
    """Atari's shape without the emulator: frames from a pool, stacked, episodes of 500 steps."""

    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = spaces.Discrete(6)

    def __init__(self):
        self.pool = np.random.default_rng(0).integers(1, 255, (64, 84, 84), np.uint8)

    def reset(self, *, seed=None, options=None):
        """Begin an episode."""
        super().reset(seed=seed)
        self.time, self.stack = 0, np.zeros((4, 84, 84), np.uint8)
        return self._next(), {}

    def _next(self):
        self.stack = np.concatenate([self.stack[1:], self.pool[None, self.time % 64]])
        return self.stack

    def step(self, action):
        """Show the next frame."""
        self.time += 1
        return self._next(), float(action == 0), False, self.time == 500, {}


@dataclass(frozen=True)
class Setting:
    """A problem, its network, and what is to be reached."""

    title: str
    peer: type
    env: Callable[[], object]
    policy: str
    options: dict = field(default_factory=dict)
    ours: dict = field(default_factory=dict)
    goal: float = 1.0
    updates: int = 100
    warm_up: int = 4000


FC = {"net_arch": [512, 512]}
TABLE_1 = {"batch_size": 128, "buffer_size": 50_000, "learning_rate": 1e-3}
TABLE_1 |= {"target_update_interval": 100}
MINATAR = {"batch_size": 32, "buffer_size": 100_000, "target_update_interval": 1000}
ATARI = {"batch_size": 32, "buffer_size": 4_000, "target_update_interval": 8000}
FRAMES = {"replay_buffer_class": FrameReplayBuffer}
CNN = {"features_extractor_class": MinAtarCNN, "net_arch": []}

SETTINGS = {
    "scalar": Setting(
        "Table 1, scalar: CartPole, FC512-512, batch 128",
        DQN,
        lambda: "CartPole-v1",
        "MlpPolicy",
        TABLE_1 | {"policy_kwargs": FC},
        goal=1.4,
    ),
    "quantile": Setting(
        "Table 1 with 200 quantiles",
        QRDQN,
        lambda: "CartPole-v1",
        "MlpPolicy",
        TABLE_1 | {"policy_kwargs": FC | {"n_quantiles": 200}},
        goal=8.0,
        updates=20,
        warm_up=1000,
    ),
    "minatar": Setting(
        "MinAtar Breakout, conv 16 3×3, FC128, batch 32",
        DQN,
        lambda: envs.make("MinAtar/Breakout-v1"),
        "CnnPolicy",
        MINATAR | {"policy_kwargs": CNN},
        goal=2.0,
        updates=200,
    ),
    "atari": Setting(
        "Atari's shape without emulator: Nature CNN, 200 quantiles, batch 32",
        QRDQN,
        Screens,
        "CnnPolicy",
        ATARI,
        FRAMES,
        goal=1.6,
        updates=12,
        warm_up=200,
    ),
    "emulator": Setting(
        "Atari with emulator: Breakout by the sb3 protocol, Nature CNN, 200 quantiles, batch 32",
        QRDQN,
        lambda: envs.make("ALE/Breakout-v5"),
        "CnnPolicy",
        ATARI,
        FRAMES,
        goal=1.0,
        updates=12,
        warm_up=200,
    ),
}
FAMILIES = {
    "q = ∞, α = 0": {"q": math.inf, "munchausen_alpha": 0.0},
    "q = ∞": {"q": math.inf},
    "q = 1": {"q": 1.0},
    "q = 2": {"q": 2.0},
    "q = 3": {"q": 3.0},
}


def contenders(setting):
    ours = MVI if setting.peer is DQN else QRMVI
    common = {"learning_starts": 100, "train_freq": 4, "exploration_final_eps": 0.01}
    common |= {"exploration_fraction": 1e-9, "seed": 0, "device": "cpu"}
    common |= setting.options

    def build(cls, **extra):
        # Both peers and ours write into policy_kwargs; each gets its own.
        own = {k: dict(v) if isinstance(v, dict) else v for k, v in common.items()}
        return cls(setting.policy, setting.env(), **own, **extra)

    agents = {f"{'SB3' if setting.peer is DQN else 'sb3-contrib'} {setting.peer.__name__}": None}
    agents = {name: build(setting.peer) for name in agents}
    if setting.peer is DQN and (sbx := sbx_dqn()) is not None and setting.policy == "MlpPolicy":
        agents["SBX DQN"] = build(sbx)
    for name, family in FAMILIES.items():
        agents[f"{ours.__name__} {name}"] = build(ours, **family, **setting.ours)
    return agents


def sbx_dqn():
    try:
        from sbx import DQN as SBX
    except ImportError:
        return None
    return SBX


def milliseconds_per_update(agent, updates):
    begun = time.process_time()
    agent.learn(4 * updates, reset_num_timesteps=False)
    return 1e3 * (time.process_time() - begun) / updates


def measure(agents, updates, rounds, warm_up):
    for agent in agents.values():
        agent.learn(warm_up)
    times = {name: [] for name in agents}
    for _ in range(rounds):
        for name, agent in agents.items():
            times[name].append(milliseconds_per_update(agent, updates))
    return {name: statistics.median(values) for name, values in times.items()}


def multiplications(network, observation, batch, copies):
    """Return the (m, k, n) of all matrix products of an update with its four steps."""
    shapes = []

    def note(module, inputs, output):
        if isinstance(module, torch.nn.Linear):
            shapes.append((1, module.in_features, module.out_features))
        elif isinstance(module, torch.nn.Conv2d):
            places = output.shape[-2] * output.shape[-1]
            shapes.append((places, math.prod(module.weight.shape[1:]), module.out_channels))

    hooks = [m.register_forward_hook(note) for m in network.modules()]
    with torch.no_grad():
        network(observation)
    for hook in hooks:
        hook.remove()
    products = []
    for i, (places, k, n) in enumerate(shapes):
        rows = batch * places
        products += [(copies * rows, k, n), (rows, k, n), (k, rows, n)] + 4 * [(places, k, n)]
        products += [(rows, n, k)] if i else []  # nobody asks for the gradient of the input
    return products


def gemm_floor(agent, setting, copies):
    """Return the time of the multiplications alone, each measured on its own, and their rate."""
    net = agent.policy.q_net if setting.peer is DQN else agent.policy.quantile_net
    observation = torch.as_tensor(agent.env.reset())
    products = multiplications(net, observation, agent.batch_size, copies)
    total = 0.0
    for m, k, n in products:
        a, b = torch.randn(m, k), torch.randn(k, n)
        out = torch.empty(m, n)
        times = []
        for _ in range(5):
            begun = time.perf_counter()
            torch.mm(a, b, out=out)
            times.append(time.perf_counter() - begun)
        total += min(times)
    return 1e3 * total, sum(2 * m * k * n for m, k, n in products) / total / 1e9


def peak_gemm_rate():
    a = torch.randn(1024, 1024)
    out = torch.empty_like(a)
    times = []
    for _ in range(10):
        begun = time.perf_counter()
        torch.mm(a, a, out=out)
        times.append(time.perf_counter() - begun)
    return 2 * 1024**3 / min(times) / 1e9


def replay_bytes(agent):
    arrays = {}
    for holder in (agent.replay_buffer, getattr(agent.replay_buffer, "observations", None)):
        for value in vars(holder).values() if hasattr(holder, "__dict__") else ():
            if isinstance(value, np.ndarray):
                base = value if value.base is None else value.base
                arrays[id(base)] = base.nbytes
    return sum(arrays.values())


def run(name, setting, rounds, scale, profile):
    agents = contenders(setting)
    updates = max(4, int(setting.updates * scale))
    times = measure(agents, updates, rounds, int(setting.warm_up * scale))
    peer = next(iter(times))
    table = Table(title=setting.title, title_justify="left")
    for column in ("agent", "ms/update", "steps/s", "vs peer", "vs q = ∞", "replay MB"):
        table.add_column(column, justify="left" if column == "agent" else "right")
    greedy = next(t for n, t in times.items() if n.endswith("q = ∞"))
    for agent, ms in times.items():
        relative = f"{ms / greedy:.2f}" if "q = " in agent else ""
        table.add_row(
            agent,
            f"{ms:.2f}",
            f"{4e3 / ms:.0f}",
            f"{times[peer] / ms:.2f}×",
            relative,
            f"{replay_bytes(agents[agent]) / 1e6:.0f}" if "SBX" not in agent else "",
        )
    console.print(table)
    ours = next(n for n in times if n.endswith("q = 2"))
    for copies, label in ((1, "DQN's"), (2, "MVI(q)'s")):
        floor, rate = gemm_floor(agents[ours], setting, copies)
        console.print(f"{label} multiplications alone: {floor:.2f} ms at {rate:.0f} GFLOP/s")
    reached = times[peer] / times[ours]
    verdict = "reached" if reached >= setting.goal else "NOT reached"
    console.print(
        f"goal at q = 2: {setting.goal}× {peer}: {reached:.2f}×, {verdict}; "
        f"the multiplications alone would allow {times[peer] / floor:.1f}×\n"
    )
    if profile:
        profiler = cProfile.Profile()
        profiler.runcall(milliseconds_per_update, agents[ours], updates)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=", ".join(SETTINGS))
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--profile", action="store_true", help="where our time goes")
    arguments = parser.parse_args()
    unknown = set(arguments.settings) - SETTINGS.keys()
    if unknown:
        parser.error(f"SETTING must be one of {', '.join(SETTINGS)}, got {', '.join(unknown)}")
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    console.print(f"matrix product of 1024: {peak_gemm_rate():.0f} GFLOP/s on one thread\n")
    rounds, scale = (3, 0.3) if arguments.quick else (7, 1.0)
    for name in arguments.settings or SETTINGS:
        run(name, SETTINGS[name], rounds, scale, arguments.profile)
        gc.collect()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    console.print(f"peak memory of this process: {peak:.0f} MB")


if __name__ == "__main__":
    main()
