"""Which Q-values grow first when DQN diverges on CartPole with the paper's settings.

    python examples/divergence.py --steps 50000 --seed 0 --out divergence.png

Trains like ``mviq train CartPole-v1 --algorithm vi --seed 0``. Every 100 steps, it samples 1024
transitions from the replay buffer and records four means of the online network's Q-values: of the
action taken and of the other action, in the last states of episodes and in all other states. In a
last state the pole falls whatever the agent does, so both actions are worth about 1. The default of
1500 steps is only a first look.
"""

import argparse
import sys

import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from mviq.agents import DivergenceError
from mviq.processor import threads
from mviq.runs import resolve
from mviq.runs.building import make_agent, make_env

CURVES = {
    "last state, other action": ("C3", "--"),
    "last state, action taken": ("C3", "-"),
    "other states, other action": ("C0", "--"),
    "other states, action taken": ("C0", "-"),
}


def _fallen(observations: np.ndarray) -> np.ndarray:
    """Return whether the pole has fallen or the cart is off the track; not so at a time limit."""
    return (abs(observations[:, 0]) > 2.4) | (abs(observations[:, 2]) > np.radians(12))


class Look(BaseCallback):
    """Callback that records mean Q-values of replayed states."""

    def __init__(self, every: int = 100, states: int = 1024) -> None:
        super().__init__()
        self.every, self.states = every, states
        self.steps, self.means = [], {name: [] for name in CURVES}
        self.generator = np.random.default_rng(0)  # separate from that of training

    def _on_step(self) -> bool:
        buffer = self.model.replay_buffer
        if self.num_timesteps % self.every or buffer.size() < self.states:
            return True
        rows = self.generator.integers(0, buffer.size(), self.states)
        q_values = self.model.q_values(buffer.observations[rows, 0]).cpu().numpy()
        taken = buffer.actions[rows, 0, 0]
        last = _fallen(buffer.next_observations[rows, 0])
        of = {"action taken": taken, "other action": 1 - taken}
        for name, means in self.means.items():
            where, which = name.split(", ")
            chosen = last if where == "last state" else ~last
            values = q_values[np.arange(self.states), of[which]][chosen]
            means.append(values.mean() if values.size else np.nan)
        self.steps.append(self.num_timesteps)
        return True


parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("--steps", type=int, default=1_500)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--algorithm", default="vi", help="as of mviq train (vi is DQN)")
parser.add_argument("--out", default="divergence.png")
options = parser.parse_args([] if "pytest" in sys.modules else None)

config = resolve("CartPole-v1", algorithm=options.algorithm, seed=options.seed)
look = Look()
with threads(config.threads):
    agent = make_agent(config, make_env(config, 1, config.seed, evaluation=False))
    try:
        agent.learn(options.steps, callback=look)
    except DivergenceError as error:
        print(error)

figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
for name, (color, dashes) in CURVES.items():
    axes.plot(look.steps, look.means[name], dashes, color=color, label=name)
axes.axhline(100, color="gray", linewidth=0.8)
across = axes.get_yaxis_transform()  # x from 0 to 1
axes.text(0.02, 104, "the largest possible return, 1 / (1 − γ)", color="gray", transform=across)
axes.set_yscale("symlog", linthresh=100)
axes.set_ylim(bottom=-20)
axes.set_xlabel("step")
axes.set_ylabel("mean value of replayed states")
axes.legend(fontsize="small")
figure.savefig(options.out, dpi=150)
print(f"{agent.status} at step {agent.num_timesteps}: {options.out}")
