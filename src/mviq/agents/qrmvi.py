"""``QRMVI``, the quantile agent: a subclass of sb3-contrib's ``QRDQN``."""

from typing import Any

import torch
from sb3_contrib import QRDQN
from sb3_contrib.qrdqn.policies import QRDQNPolicy
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule

from mviq.agents.acting import Actor
from mviq.agents.arguments import Acting
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.losses import quantile_huber
from mviq.agents.update import Trainer
from mviq.tsallis import Family
from mviq.tsallis.family import Form, PolicyMethod


class QRMVI(Learner, Actor, Trainer, SafeFiles, QRDQN):
    """Deep MVI(q) on quantiles of the return: QR-DQN with the target of the MVI(q) family.

        y_j = r + α m(s,a) + γ(1−d) [ Σ_b π(b|s') z_j(s',b) + c τ S_q(π(·|s')) ],   Q = mean_j z_j

    It takes every argument of ``QRDQN`` (the number of quantiles is ``n_quantiles`` in
    ``policy_kwargs``) and those of the family, which ``MVI`` describes.

    >>> agent = QRMVI("MlpPolicy", "CartPole-v1", policy_kwargs={"n_quantiles": 8}, device="cpu")
    >>> agent.learn(200).status
    'finished'
    """

    base = QRDQN
    _loss = staticmethod(quantile_huber)

    def __init__(
        self,
        policy: str | type[QRDQNPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 5e-5,
        buffer_size: int = 1_000_000,
        learning_starts: int = 100,
        batch_size: int = 32,
        tau: float = 1.0,
        gamma: float = 0.99,
        train_freq: int | tuple[int, str] = 4,
        gradient_steps: int = 1,
        replay_buffer_class: type[ReplayBuffer] | None = None,
        replay_buffer_kwargs: dict[str, Any] | None = None,
        optimize_memory_usage: bool = False,
        n_steps: int = 1,
        target_update_interval: int = 10_000,
        exploration_fraction: float = 0.005,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.01,
        max_grad_norm: float | None = None,
        stats_window_size: int = 100,
        tensorboard_log: str | None = None,
        policy_kwargs: dict[str, Any] | None = None,
        verbose: int = 0,
        seed: int | None = None,
        device: torch.device | str = "auto",
        _init_setup_model: bool = True,
        *,
        q: float | Schedule = Family.q,
        temperature: float | Schedule = Family.temperature,
        munchausen_alpha: float | Schedule = Family.munchausen_alpha,
        form: Form = Family.form,
        clip: tuple[float, float] | None = Family.clip,
        entropy_weight: float = Family.entropy_weight,
        policy_method: PolicyMethod = Family.policy_method,
        acting: Acting = "epsilon_greedy",
        value_limit: float = 1e6,
    ) -> None:
        arguments = locals()
        del arguments["self"], arguments["__class__"]
        super().__init__(**arguments)

    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        return self.quantile_net, self.quantile_net_target
