"""``QRMVI``, the quantile agent: a subclass of sb3-contrib's ``QRDQN``."""

from sb3_contrib import QRDQN
from stable_baselines3.common.policies import BasePolicy

from mviq.agents.acting import Actor
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.losses import quantile_huber
from mviq.agents.update import Trainer


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

    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        return self.quantile_net, self.quantile_net_target
