"""``MVI``, the scalar agent: a subclass of Stable-Baselines3's ``DQN``."""

from typing import Any

import torch
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, Schedule
from stable_baselines3.dqn.policies import DQNPolicy

from mviq.agents.acting import Actor
from mviq.agents.arguments import Acting
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.losses import huber
from mviq.agents.update import Trainer
from mviq.tsallis import Family
from mviq.tsallis.family import Form, PolicyMethod


class MVI(Learner, Actor, Trainer, SafeFiles, DQN):
    """Deep MVI(q): DQN with the regularised target of the MVI(q) family.

        y = r + α m(s,a) + γ(1−d) [ ⟨π,Q⟩ + c τ S_q(π) ](s'),   π the Tsallis policy of Q

    with Q the target network. It takes every argument of ``DQN``, and the family's:

    :param q: entropic index ≥ 1: 1 softmax, 2 sparsemax, ∞ greedy. Like a learning rate, q,
        temperature and munchausen_alpha may be functions of the progress remaining (from 1 to 0),
        and can be set at any time
    :param temperature: τ, the scale of action values at which the policy is soft
    :param munchausen_alpha: α, the weight of the Munchausen term
    :param form: the Munchausen term m: gap, log, truncated_log or naive_log
    :param clip: bounds of m, or None; M-DQN as published uses (−1, 0)
    :param entropy_weight: c, the weight of the entropy in the bootstrap
    :param policy_method: exact, or taylor for the paper's approximation
    :param acting: epsilon_greedy on Q, or sample, which draws from π and ignores ε
    :param value_limit: an action value beyond it counts as explosion

    >>> agent = MVI("MlpPolicy", "CartPole-v1", q=2.0, seed=0, device="cpu")
    >>> agent.learn(200).status
    'finished'
    """

    base = DQN
    _loss = staticmethod(huber)

    def __init__(
        self,
        policy: str | type[DQNPolicy],
        env: GymEnv | str | None,
        learning_rate: float | Schedule = 1e-4,
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
        exploration_fraction: float = 0.1,
        exploration_initial_eps: float = 1.0,
        exploration_final_eps: float = 0.05,
        max_grad_norm: float | None = 10,
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
        return self.q_net, self.q_net_target
