"""Train MVI(2) on CartPole with the settings of the paper's Table 1 and M-DQN, save and load it.

    python examples/cartpole.py

3000 steps are only a demonstration; after 30 000 steps, about a minute, the pole stays up.
"""

import math
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from stable_baselines3.common.evaluation import evaluate_policy

from mviq import envs
from mviq.agents import MVI, RescaledExtractor

STEPS = 3_000
torch.set_num_threads(1)  # fastest for networks of this size

agent = MVI(
    "MlpPolicy",
    envs.make("CartPole-v1", seed=0),
    q=2.0,
    temperature=0.03,
    munchausen_alpha=0.9,
    clip=(-1, 1),
    learning_rate=1e-3,
    batch_size=128,
    buffer_size=50_000,
    learning_starts=500,
    target_update_interval=100,
    exploration_initial_eps=0.01,
    exploration_final_eps=0.01,
    max_grad_norm=None,
    replay_buffer_kwargs={"handle_timeout_termination": False},  # a timeout is terminal
    policy_kwargs={
        "net_arch": [512, 512],
        "optimizer_kwargs": {"eps": 3.125e-4},
        "features_extractor_class": RescaledExtractor,
        "features_extractor_kwargs": {"bounds": [2.4, 5.0, math.pi / 12, 2 * math.pi]},
    },
    seed=0,
)
agent.learn(STEPS, progress_bar=sys.stdout.isatty())

with TemporaryDirectory() as folder:
    agent.save(Path(folder) / "cartpole")
    loaded = MVI.load(Path(folder) / "cartpole")
mean, deviation = evaluate_policy(loaded, envs.make("CartPole-v1", seed=1), n_eval_episodes=10)
print(f"{agent.status} after {agent.num_timesteps} steps: return {mean:.0f} ± {deviation:.0f}")
