"""``IQMVI``, the implicit quantile agent: QR-DQN whose network predicts any quantile."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from sb3_contrib import QRDQN
from sb3_contrib.qrdqn.policies import CnnPolicy, MultiInputPolicy, QRDQNPolicy, QuantileNetwork
from stable_baselines3.common.torch_layers import create_mlp
from torch import Tensor, nn

from mviq.agents.acting import Actor
from mviq.agents.arguments import whole
from mviq.agents.codec import register
from mviq.agents.compilable import HEADS, POLICIES
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.losses import quantile_huber
from mviq.agents.update import Trainer

Head = Literal["none", "dueling"]
FRACTIONS = 8, 32  # N = N' of BTR (Clark et al. 2024), K of IQN (Dabney et al. 2018)
COSINES = 64  # of the embedding, Dabney et al. (2018)
_is_count, _expected = whole(1, 2**16)  # more, in a file, would fill the memory of who loads it


class ImplicitQuantileNetwork(QuantileNetwork):
    """The quantiles f(ψ(s) ⊙ φ(t)) at fractions t, with φ(t) = ReLU(W cos(π i t) + b), i < 64.

    f is the last layer of ``net_arch`` and the output; ψ are the features and the layers before.
    If ``sampling``, N fractions are drawn uniformly for every state. Otherwise all states use the
    K midpoints (k + ½)/K.
    """

    midpoints: Tensor

    def __init__(
        self,
        *args: Any,
        fractions: tuple[int, int],
        head: Head,
        features_dim: int,
        net_arch: list[int],
        **options: Any,
    ) -> None:
        width = [features_dim, *net_arch[:-1]][-1]
        last = {"features_dim": width, "net_arch": net_arch[-1:], "n_quantiles": 1}
        super().__init__(*args, **options | last)
        self.features_dim, self.net_arch = features_dim, net_arch
        self.n_quantiles, number = fractions
        self.features_net = nn.Sequential(
            *create_mlp(features_dim, 0, net_arch[:-1], self.activation_fn)
        )
        self.embedding = nn.Linear(COSINES, width)
        self.value_net: nn.Module | None = None
        if head == "dueling":
            value_net = create_mlp(width, 1, net_arch[-1:], self.activation_fn)
            self.value_net = nn.Sequential(*value_net)
        self.sampling = False
        self.fractions = torch.empty(0)  # of the last forward pass
        self.register_buffer("midpoints", (torch.arange(number) + 0.5) / number, persistent=False)

    def forward(self, obs: Any) -> Tensor:
        """Return quantiles (batch, fractions, actions)."""
        return self.quantiles(self.extract_features(obs, self.features_extractor))

    def quantiles(self, features: Tensor) -> Tensor:
        """Return quantiles (batch, fractions, actions) of states with these features."""
        self.fractions = self.draw_fractions(len(features))
        i = torch.arange(self.embedding.in_features, device=features.device)
        cosines = torch.cos(math.pi * i * self.fractions.unsqueeze(-1))
        x = self.features_net(features).unsqueeze(1) * torch.relu(self.embedding(cosines))
        quantiles: Tensor = self.quantile_net(x)
        if self.value_net is None:
            return quantiles
        value: Tensor = self.value_net(x)
        return value + quantiles - quantiles.mean(-1, keepdim=True)

    def draw_fractions(self, states: int) -> Tensor:
        """Return N random fractions for each state if ``sampling``, else the midpoints for all."""
        if self.sampling:
            return torch.rand(states, self.n_quantiles, device=self.midpoints.device)
        return self.midpoints.unsqueeze(0)


@register
class ImplicitPolicy(QRDQNPolicy):
    """The policy of ``IQMVI``.

    :param fractions: number of quantiles that an update samples, and that acting averages; None
        for (8, 32)
    :param head: dueling for a value and advantages (Wang et al. 2016), or none
    """

    def __init__(
        self,
        *args: Any,
        fractions: tuple[int, int] | None = None,
        head: Head = "none",
        **options: Any,
    ) -> None:
        counts = FRACTIONS if fractions is None else fractions
        listed = isinstance(counts, tuple | list) and len(counts) == 2
        if not (listed and all(map(_is_count, counts))):
            raise ValueError(f"fractions must be two, each {_expected}, got {fractions!r}")
        if options.setdefault("n_quantiles", counts[0]) != counts[0]:
            raise ValueError(
                "n_quantiles must be left out, the number of quantiles is fractions, "
                f"got {options['n_quantiles']!r}"
            )
        if head not in get_args(Head):
            raise ValueError(f"head must be one of {get_args(Head)}, got {head!r}")
        self.own_args: dict[str, Any] = {"fractions": tuple(counts), "head": head}
        super().__init__(*args, **options)

    def make_quantile_net(self) -> QuantileNetwork:
        net_args = self._update_features_extractor(self.net_args, features_extractor=None)
        return ImplicitQuantileNetwork(**net_args, **self.own_args).to(self.device)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return super()._get_constructor_parameters() | self.own_args


@register
class ImplicitCnnPolicy(ImplicitPolicy, CnnPolicy):
    """The policy of ``IQMVI`` for images."""


@register
class ImplicitMultiInputPolicy(ImplicitPolicy, MultiInputPolicy):
    """The policy of ``IQMVI`` for dictionary observations."""


POLICIES.update((ImplicitPolicy, ImplicitCnnPolicy))
HEADS[ImplicitQuantileNetwork] = "quantile_net"


class IQMVI(Learner, Actor, Trainer, SafeFiles, QRDQN):
    """Deep MVI(q) on implicit quantiles of the return: IQN with the target of the MVI(q) family.

    The target is that of ``QRMVI``, with quantiles z_j at random instead of fixed fractions:
    q = 1, the log form and clip (−1, 0) give M-IQN, q = ∞ and α = 0 give IQN. It takes every
    argument of ``QRDQN`` (``fractions`` and ``head`` in ``policy_kwargs``, see
    ``ImplicitPolicy``) and those of the family, which ``MVI`` describes.

    Acting averages quantiles at fixed fractions, the midpoints. Dabney et al. sample them; fixed
    ones integrate the quantile function with less error, and make greedy actions deterministic.

    >>> agent = IQMVI("MlpPolicy", "CartPole-v1", q=2.0, seed=0, device="cpu")
    >>> agent.learn(200).status
    'finished'
    """

    base = QRDQN
    _loss = staticmethod(quantile_huber)
    policy_aliases = {  # noqa: RUF012 - as in Stable-Baselines3
        "MlpPolicy": ImplicitPolicy,
        "CnnPolicy": ImplicitCnnPolicy,
        "MultiInputPolicy": ImplicitMultiInputPolicy,
    }
    quantile_net: ImplicitQuantileNetwork
    quantile_net_target: ImplicitQuantileNetwork

    def _networks(self) -> tuple[ImplicitQuantileNetwork, ImplicitQuantileNetwork]:
        return self.quantile_net, self.quantile_net_target

    @contextmanager
    def _drawing(self) -> Iterator[None]:
        """Let the networks predict quantiles at random fractions, as an update needs them."""
        networks = self._networks()
        before = [network.sampling for network in networks]
        try:
            for network in networks:
                network.sampling = True
            yield
        finally:
            for network, own in zip(networks, before, strict=True):
                network.sampling = own
