"""Networks by hand are the networks of torch, in value and in gradient, and say which they are."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import nn

from mviq.agents import MVI, QRMVI, MinAtarCNN, RescaledExtractor, descent, kernels
from mviq.agents.layers import PatchConvolution
from mviq.agents.networks import ByAutograd, ByHand
from problems import Observed

NUMBERS = spaces.Box(-1, 1, (2, 3), np.float32)
SCREEN = spaces.Box(0, 255, (4, 36, 36), np.uint8)
IMAGE = spaces.Box(0, 255, (3, 12, 12), np.uint8)
BOARD = spaces.Box(0, 1, (4, 10, 9), np.uint8)
MINATAR = {"features_extractor_class": MinAtarCNN, "net_arch": []}
RESCALED = {
    "features_extractor_class": RescaledExtractor,
    "features_extractor_kwargs": {"bounds": [0.1, 2.4, 5.0, 1.0, 6.3, 0.5]},
}
IN_THE_SPACE = {
    "features_extractor_class": RescaledExtractor,
    "features_extractor_kwargs": {"bounds": None},
}
CASES = pytest.mark.parametrize(
    ("cls", "space", "policy", "policy_kwargs"),
    [
        (MVI, NUMBERS, "MlpPolicy", {"net_arch": [20, 30]}),
        (QRMVI, NUMBERS, "MlpPolicy", {"net_arch": []}),
        (MVI, NUMBERS, "MlpPolicy", RESCALED),
        (QRMVI, NUMBERS, "MlpPolicy", RESCALED | {"n_quantiles": 5}),
        (MVI, IMAGE, "MlpPolicy", IN_THE_SPACE),
        (MVI, SCREEN, "CnnPolicy", {}),
        (QRMVI, SCREEN, "CnnPolicy", {"n_quantiles": 5}),
        (MVI, BOARD, "CnnPolicy", MINATAR),
        (QRMVI, BOARD, "CnnPolicy", MINATAR | {"net_arch": [12]}),
        (MVI, SCREEN, "CnnPolicy", MINATAR),
    ],
    ids=[
        "mlp",
        "linear",
        "rescaled",
        "rescaled quantiles",
        "rescaled image",
        "nature",
        "nature quantiles",
        "board",
        "board quantiles",
        "one conv",
    ],
)


def made(cls, space, policy="MlpPolicy", policy_kwargs=None, **options):
    options = {"seed": 0, "device": "cpu", "buffer_size": 300} | options
    return cls(policy, Observed(space), policy_kwargs=policy_kwargs, **options)


def batch(space, size):
    space.seed(0)
    return np.stack([space.sample() for _ in range(size)])


@CASES
def test_values_and_gradients_are_those_of_autograd(cls, space, policy, policy_kwargs):
    agent = made(cls, space, policy, policy_kwargs)
    network = agent._networks()[0]
    assert isinstance(agent._online, ByHand)
    seen = torch.as_tensor(batch(space, 24))
    before = seen.clone()
    outcomes, pull_back = agent._online.differentiable(agent._online.prepare(seen))
    expected = network(seen).reshape(outcomes.shape)
    slope = torch.randn_like(expected)
    torch.testing.assert_close(outcomes, expected)
    expected.backward(slope)
    wanted = [w.grad.clone() for w in network.parameters()]
    (together,) = pull_back(slope)
    for weight, gradient in zip(network.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-4, atol=1e-5)
        assert weight.grad.stride() == weight.stride()  # as the fused optimiser takes for granted
    norm = torch.nn.utils.get_total_norm(wanted)
    torch.testing.assert_close(torch.linalg.vector_norm(together), norm)
    assert torch.equal(seen, before)


@CASES
def test_one_observation_is_a_batch_of_one(cls, space, policy, policy_kwargs):
    agent = made(cls, space, policy, policy_kwargs)
    nature = policy == "CnnPolicy" and "features_extractor_class" not in policy_kwargs
    assert (agent._online.compiled is None) == nature
    for observation in batch(space, 3)[:, None]:
        found = agent._online.at(observation)
        torch.testing.assert_close(found, agent._online(torch.as_tensor(observation)))
    found = agent._online.at(batch(space, 3))
    torch.testing.assert_close(found, agent._online(torch.as_tensor(batch(space, 3))))


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 4)])
@pytest.mark.parametrize("size", [(10, 10), (7, 12)])
def test_compiled_convolution_and_patches(stride, kernel, size):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(5, 3, *kernel)).astype(np.float32)
    bias, x = rng.normal(size=5).astype(np.float32), rng.integers(0, 3, (2, 3, *size), np.uint8)
    pictures = torch.from_numpy(x).float()
    expected = torch.conv2d(pictures, torch.from_numpy(weight), torch.from_numpy(bias), stride)
    for rectified in (False, True):
        found = torch.from_numpy(kernels.convolution(weight, bias, x[0], stride, rectified))
        torch.testing.assert_close(found, expected[0].relu() if rectified else expected[0])
    patches = nn.functional.unfold(pictures, kernel, stride=stride)
    assert torch.equal(torch.from_numpy(kernels.patches(x, *kernel, stride)), patches)


class Doubled(FlattenExtractor):
    def forward(self, observations):
        return 2 * super().forward(observations)


@pytest.mark.parametrize(
    "policy_kwargs",
    [{"activation_fn": nn.Tanh}, {"features_extractor_class": Doubled}],
    ids=["tanh", "own features"],
)
def test_other_networks_are_left_to_autograd(policy_kwargs):
    agent = made(MVI, NUMBERS, policy_kwargs=policy_kwargs).learn(120)
    assert isinstance(agent._online, ByAutograd)
    seen = batch(NUMBERS, 2)
    torch.testing.assert_close(agent.q_values(seen), agent.q_net(torch.as_tensor(seen)))


def test_rescaled_observations_are_divided_by_their_bounds():
    plain, rescaled = made(MVI, NUMBERS), made(MVI, NUMBERS, policy_kwargs=RESCALED)
    rescaled.policy.load_state_dict(plain.policy.state_dict())  # bounds are no weights
    seen = batch(NUMBERS, 4)
    bounds = np.array(RESCALED["features_extractor_kwargs"]["bounds"], np.float32).reshape(2, 3)
    torch.testing.assert_close(rescaled.q_values(seen * bounds), plain.q_values(seen))


def test_the_bounds_of_a_space_where_it_has_some():
    low, high = np.array([-3, -np.inf, 0.0], np.float32), np.array([1, np.inf, 0.5], np.float32)
    agent = made(MVI, spaces.Box(low, high), policy_kwargs=IN_THE_SPACE)
    assert agent.q_net.features_extractor.bounds.tolist() == [3.0, 1.0, 0.5]
    numbered = made(MVI, spaces.Discrete(3), policy_kwargs=IN_THE_SPACE)
    assert numbered.q_net.features_extractor.bounds.tolist() == [1.0, 1.0, 1.0]
    numbered.learn(120)
    made(MVI, spaces.MultiBinary((2, 3)), policy_kwargs=IN_THE_SPACE).learn(120)


@pytest.mark.parametrize("bounds", [[1.0], [1.0] * 5 + [0.0], [1.0] * 5 + [math.inf]])
def test_bounds_that_do_not_fit_are_refused(bounds):
    wrong = RESCALED | {"features_extractor_kwargs": {"bounds": bounds}}
    with pytest.raises(ValueError, match="bounds must be 6 positive numbers, one for each"):
        made(MVI, NUMBERS, policy_kwargs=wrong)


def test_a_saved_agent_rescales_raw_observations_itself(tmp_path):
    agent = made(MVI, NUMBERS, policy_kwargs=RESCALED)
    agent.save(tmp_path / "agent")
    seen = batch(NUMBERS, 4)
    loaded = MVI.load(tmp_path / "agent")
    assert torch.equal(loaded.q_values(seen), agent.q_values(seen))
    assert isinstance(loaded._online, ByHand)


def test_several_convolutions_are_left_to_onednn():
    first = made(MVI, SCREEN, "CnnPolicy")._online.layers[0]
    assert not isinstance(first, PatchConvolution)
    assert isinstance(made(MVI, BOARD, "CnnPolicy", MINATAR)._online.layers[0], PatchConvolution)


def test_frozen_weights_stay_and_do_not_count():
    agent = made(MVI, BOARD, "CnnPolicy", MINATAR, learning_starts=20)
    frozen = agent.q_net.features_extractor.layers[0].weight.requires_grad_(False)
    before = frozen.clone()
    head = agent.q_net.q_net[0].weight.detach().clone()
    agent.learn(80)
    assert torch.equal(frozen, before)
    assert frozen.grad is None
    assert not agent._online.gradients[0][0].any()
    assert not torch.equal(agent.q_net.q_net[0].weight, head)


def test_weights_put_in_place_are_seen_at_once():
    agent, other = made(MVI, NUMBERS), made(MVI, NUMBERS, seed=1)
    seen = batch(NUMBERS, 1)
    before = agent.q_values(seen).clone()
    nn.utils.vector_to_parameters(  # gives every weight new memory
        nn.utils.parameters_to_vector(other.q_net.parameters()), agent.q_net.parameters()
    )
    torch.testing.assert_close(agent.q_values(seen), other.q_values(seen))
    assert not torch.allclose(agent.q_values(seen), before)


@pytest.mark.parametrize(("cls", "base"), [(MVI, DQN), (QRMVI, QRDQN)])
@pytest.mark.parametrize(("space", "kwargs"), [(SCREEN, {}), (BOARD, MINATAR)])
def test_convolutional_weights_are_those_of_the_base_too(cls, base, space, kwargs):
    greedy = {"q": math.inf, "munchausen_alpha": 0.0}
    weights = []
    for kind, family in ((cls, greedy), (base, {})):
        options = {"learning_starts": 20, "target_update_interval": 20, "n_steps": 1}
        chosen = kwargs | ({"n_quantiles": 8} if base is QRDQN else {})
        agent = made(kind, space, "CnnPolicy", dict(chosen), **options, **family).learn(180)
        weights.append(torch.cat([w.detach().flatten() for w in agent.policy.parameters()]))
    assert (weights[0] - weights[1]).abs().max() < 1e-4


@pytest.mark.parametrize("extra", [{}, {"weight_decay": 0.1}, {"amsgrad": True}])
def test_a_step_is_the_step_of_the_optimiser(extra):
    torch.manual_seed(0)
    start, gradients = torch.randn(5, 7), torch.randn(6, 5, 7)
    ended = []
    for take in (descent.step, torch.optim.Adam.step):
        weight, idle = nn.Parameter(start.clone()), nn.Parameter(torch.ones(2))
        optimizer = torch.optim.Adam([weight, idle], 0.1, fused=True, **extra)
        for gradient in gradients:
            weight.grad = gradient.clone()
            take(optimizer)
        ended.append((weight, optimizer.state_dict()["state"]))
    (ours, state), (theirs, expected) = ended
    assert torch.equal(ours, theirs)
    assert state.keys() == expected.keys() == {0}
    assert all(torch.equal(state[0][name], value) for name, value in expected[0].items())


def test_hooks_of_the_optimiser_are_called():
    agent, calls = made(MVI, NUMBERS, learning_starts=20), []
    agent.policy.optimizer.register_step_post_hook(lambda *_: calls.append(1))
    agent.learn(60)
    assert len(calls) == agent._n_updates > 5
