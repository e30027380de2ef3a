"""The network of BTR: sizes, spectral norms, and a target network that is a copy."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from mviq.agents import IQMVI, MVI, ImpalaCNN, PrioritizedFrameReplayBuffer
from mviq.agents.impala import SpectralConv2d
from mviq.runs import resolve
from mviq.runs.building import build
from mviq.tsallis.family import named
from problems import Observed, made

FRAMES = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def test_the_features_are_6_by_6_of_64_channels():
    network = ImpalaCNN(FRAMES)
    assert network(torch.rand(2, 4, 84, 84)).shape == (2, network.features_dim) == (2, 2304)
    assert [m.out_channels for m in network.modules() if type(m) is nn.Conv2d] == [32, 64, 64]
    assert sum(isinstance(m, SpectralConv2d) for m in network.modules()) == 12


def test_there_are_as_many_weights_as_in_btr():
    """2.91 million, of which 2.52 million in linear layers (Clark et al. 2024, Figure E7)."""
    env = Observed(FRAMES)
    env.action_space = spaces.Discrete(18)
    kwargs = {"features_extractor_class": ImpalaCNN, "net_arch": [512], "head": "dueling"}
    network = made(IQMVI, env, "CnnPolicy", policy_kwargs=kwargs, buffer_size=1).quantile_net
    linear = nn.ModuleList(m for m in network.modules() if type(m) is nn.Linear)
    millions = [sum(p.numel() for p in part.parameters()) / 1e6 for part in (network, linear)]
    assert millions == pytest.approx([2.91, 2.52], abs=0.005)


def test_the_largest_singular_value_is_divided_out():
    torch.manual_seed(0)
    layer, x = SpectralConv2d(4), torch.randn(2, 4, 5, 5)
    for _ in range(200):
        layer(x)
    weight = layer.weight / torch.linalg.matrix_norm(layer.weight.flatten(1), 2)
    expected = nn.functional.conv2d(x, weight, layer.bias, padding=1)
    torch.testing.assert_close(layer(x), expected)
    (ours,) = torch.autograd.grad(layer(x).square().sum(), layer.weight)
    (theirs,) = torch.autograd.grad(expected.square().sum(), layer.weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    layer.eval()
    before = layer.running_left.clone()
    layer(x)
    assert torch.equal(layer.running_left, before)


def test_weights_of_zero_are_divided_by_something():
    layer = SpectralConv2d(4)
    nn.init.zeros_(layer.weight)
    assert layer(torch.ones(1, 4, 5, 5)).isfinite().all()


@pytest.mark.parametrize("cls", [MVI, IQMVI])
def test_the_target_network_becomes_a_copy_and_files_keep_it(cls, tmp_path):
    small = spaces.Box(0, 255, (4, 36, 36), np.uint8)
    network = {"features_extractor_class": ImpalaCNN, "features_extractor_kwargs": {"scale": 1}}
    options = {"learning_starts": 4, "batch_size": 4, "target_update_interval": 1}
    env, kwargs = Observed(small), network | {"net_arch": [16]}
    agent = made(cls, env, "CnnPolicy", buffer_size=20, policy_kwargs=kwargs, **options).learn(12)
    online, target = agent._networks()
    agent._on_step()
    seen = torch.randint(255, (3, 4, 36, 36), dtype=torch.uint8)
    online.set_training_mode(False)
    assert torch.equal(online(seen), target(seen))
    agent.save(tmp_path / "agent")
    again = cls.load(tmp_path / "agent")
    again.policy.set_training_mode(False)
    torch.testing.assert_close(again.q_values(seen), agent.q_values(seen))


def test_the_preset_of_btr_is_m_iqn_with_all_its_parts():
    small = {"n_envs": 2, "buffer_size": 40, "batch_size": 4, "total_steps": 14, "eval_every": 0}
    config = resolve("ALE/Pong-v5", "btr", algorithm="m-vi", learning_starts=8, **small)
    agent = build(config).learn(config.total_steps)
    assert type(agent) is IQMVI
    assert agent._n_updates == 2  # the last rollout is not learnt from
    assert type(agent.replay_buffer) is PrioritizedFrameReplayBuffer
    assert type(agent.quantile_net.features_extractor) is ImpalaCNN
    assert agent.family == named("m-vi", temperature=0.03)
    assert agent.family.clip == (-1, 0)
    agent.env.close()
