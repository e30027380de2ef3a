"""The speed-up from learning while the emulators work: times with and without, measured in turns.

The agents differ only in the backend, vector or overlap. The result is the median over rounds of
the ratio within a round. Its upper bound, (e + u) / max(e, u), where e is the time of the emulators
and u that of updates and acting, is printed as well. Times are wall-clock times, because waiting
uses no CPU time. So the machine should be idle and have a core for the emulators.

    python benchmarks/overlap.py [--envs 64] [--rounds 15]
"""

import argparse
import os
import time

import numpy as np
import torch

from mviq import envs
from mviq.agents import IQMVI, PrioritizedFrameReplayBuffer

ROLLOUTS = 20  # per round


def make_agent(backend, number):
    """Return M-IQN on Pong with DQN's network: an update takes about as long as the emulators."""
    return IQMVI(
        "CnnPolicy",
        envs.make("ALE/Pong-v5", number, seed=0, protocol="machado", backend=backend),
        **{"q": 1, "form": "log", "clip": (-1, 0), "temperature": 0.03},
        replay_buffer_class=PrioritizedFrameReplayBuffer,
        **{"buffer_size": 100 * number, "learning_starts": number, "batch_size": 32},
        **{"train_freq": 1, "n_steps": 3, "seed": 0, "device": "cpu"},
    )


def seconds(agent):
    begun = time.perf_counter()
    agent.learn(ROLLOUTS * agent.n_envs, reset_num_timesteps=False)
    return time.perf_counter() - begun


def seconds_of_emulators(env):
    begun = time.perf_counter()
    for _ in range(ROLLOUTS):
        env.step(np.zeros(env.num_envs, int))
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    waiting, meanwhile = (make_agent(name, arguments.envs) for name in ("vector", "overlap"))
    alone = waiting.env
    for agent in (waiting, meanwhile):
        agent.learn(5 * agent.n_envs)
    times = np.array(
        [
            (seconds(waiting), seconds(meanwhile), seconds_of_emulators(alone))
            for _ in range(arguments.rounds)
        ]
    )
    before, after, emulators = times.T / ROLLOUTS * 1e3
    low, gain, high = np.quantile(before / after, (0.25, 0.5, 0.75))
    bound = np.median(before / np.maximum(emulators, before - emulators))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {arguments.envs} environments")
    print(f"a step of all: {np.median(emulators):.1f} ms by the emulators alone")
    print(f"with an update: vector {np.median(before):.1f} ms, overlap {np.median(after):.1f} ms")
    print(f"gain {gain:.2f}× [{low:.2f}, {high:.2f}], at best {bound:.2f}×")


if __name__ == "__main__":
    main()
