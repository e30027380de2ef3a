"""``MVI``, the scalar agent: a subclass of Stable-Baselines3's ``DQN``."""

from stable_baselines3 import DQN
from stable_baselines3.common.policies import BasePolicy

from mviq.agents.acting import Actor
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.losses import huber
from mviq.agents.update import Trainer


class MVI(Learner, Actor, Trainer, SafeFiles, DQN):
    """Deep MVI(q): DQN with the regularised target of the MVI(q) family.

        y = r + α m(s,a) + γ(1−d) [ ⟨π,Q⟩ + c τ S_q(π) ](s'),   π the Tsallis policy of Q

    with Q the target network. It takes every argument of ``DQN``, and those of the family:

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
    :param value_limit: an action value beyond ±value_limit raises ``DivergenceError``

    >>> agent = MVI("MlpPolicy", "CartPole-v1", q=2.0, seed=0, device="cpu")
    >>> agent.learn(200).status
    'finished'
    """

    base = DQN
    _loss = staticmethod(huber)

    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        return self.q_net, self.q_net_target
