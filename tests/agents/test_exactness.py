"""With q = ∞ and α = 0 the agents are DQN and QR-DQN: same seed, same weights."""

import math

import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env

from mviq.agents import IQMVI, MVI, QRMVI

GREEDY = {"q": math.inf, "munchausen_alpha": 0.0}
STEPS = 2100  # 500 updates after 100 steps of warm-up
COMMON = {
    "learning_rate": 1e-3,
    "target_update_interval": 50,
    "exploration_fraction": 0.5,
    "seed": 3,
    "device": "cpu",
}


@torch.no_grad()
def difference(ours, theirs):
    pairs = zip(ours.policy.parameters(), theirs.policy.parameters(), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize(("ours", "theirs"), [(MVI, DQN), (QRMVI, QRDQN)])
def test_same_weights_as_the_base(ours, theirs, n_steps):
    options = COMMON | {"n_steps": n_steps}
    if theirs is QRDQN:
        options["policy_kwargs"] = {"n_quantiles": 10}
    a = ours("MlpPolicy", "CartPole-v1", **GREEDY, **options).learn(STEPS)
    b = theirs("MlpPolicy", "CartPole-v1", **options).learn(STEPS)
    assert a._n_updates == b._n_updates == 500
    assert a.num_timesteps == b.num_timesteps
    assert difference(a, b) < 2e-4
    # The bound means something: the weights have moved much further than that,
    fresh = theirs("MlpPolicy", "CartPole-v1", **options)
    assert difference(b, fresh) > 0.1
    # and another member of the family ends elsewhere.
    soft = ours("MlpPolicy", "CartPole-v1", q=2.0, **options).learn(STEPS)
    assert difference(soft, b) > 0.02


def test_same_weights_with_several_environments():
    a, b = (
        cls("MlpPolicy", make_vec_env("CartPole-v1", 3), **COMMON, **family).learn(1800)
        for cls, family in ((MVI, GREEDY), (DQN, {}))
    )
    assert difference(a, b) < 2e-4


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_same_seed_same_run_bit_for_bit(cls):
    def weights(seed):
        agent = cls("MlpPolicy", "CartPole-v1", seed=seed, device="cpu").learn(400)
        return torch.cat([p.flatten() for p in agent.policy.parameters()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))
