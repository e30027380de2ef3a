"""Compiled networks are the networks of PyTorch, and give way where a part of them is changed."""

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.dqn.policies import DQNPolicy
from torch import nn

from mviq.agents import (
    IQMVI,
    MVI,
    QRMVI,
    DivergenceError,
    MinAtarCNN,
    PrioritizedReplayBuffer,
    RescaledExtractor,
)
from mviq.agents.compiled import CompiledNetwork, _window
from mviq.agents.kernels.convolution import convolution_gradient, convolve, find_nonzero, padded
from mviq.agents.losses import huber
from mviq.agents.networks import AutogradNetwork, PlainNetwork
from mviq.tsallis import Family
from problems import Observed

NUMBERS = spaces.Box(-1, 1, (2, 3), np.float32)
SCREEN = spaces.Box(0, 255, (4, 36, 36), np.uint8)
SAME_FRACTIONS = {"fractions": (8, 8)}  # in updates and in predictions
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
        (MVI, BOARD, "CnnPolicy", MINATAR),
        (QRMVI, BOARD, "CnnPolicy", MINATAR | {"net_arch": [12]}),
        (MVI, SCREEN, "CnnPolicy", MINATAR),
        (IQMVI, NUMBERS, "MlpPolicy", RESCALED | {"net_arch": [20], "fractions": (5, 7)}),
        (IQMVI, BOARD, "CnnPolicy", MINATAR),
        (IQMVI, NUMBERS, "MlpPolicy", {"net_arch": [20, 12, 9], "fractions": (5, 7)}),
    ],
    ids=[
        "mlp",
        "linear",
        "rescaled",
        "rescaled quantiles",
        "rescaled image",
        "board",
        "board quantiles",
        "one conv",
        "implicit",
        "board implicit",
        "deep implicit",
    ],
)


def made(cls, space, policy="MlpPolicy", policy_kwargs=None, **options):
    options = {"seed": 0, "device": "cpu", "buffer_size": 300} | options
    return cls(policy, Observed(space), policy_kwargs=policy_kwargs, **options)


def batch(space, size):
    space.seed(0)
    return np.stack([space.sample() for _ in range(size)])


FAMILIES = [
    {},
    {"q": math.inf, "munchausen_alpha": 0.0},
    {"q": 1.0, "form": "log", "clip": (-1.0, 0.0), "n_steps": 3},
    {"q": 3.0, "form": "truncated_log", "max_grad_norm": 0.01},
]


@CASES
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("size", "replay"), [(1, None), (24, None), (24, PrioritizedReplayBuffer)])
def test_a_compiled_update_is_that_of_autograd(
    cls, space, policy, policy_kwargs, family, size, replay
):
    found, family = [], family | {"replay_buffer_class": replay}
    for compiled in (True, False):
        agent = made(cls, space, policy, policy_kwargs, learning_starts=30, **family).learn(30)
        assert isinstance(agent._online, CompiledNetwork)
        torch.manual_seed(1)
        for weight in agent._networks()[1].parameters():
            weight.data += 0.1 * torch.randn_like(weight)
        if not compiled:
            agent._compiled = None
            both = (AutogradNetwork(x, agent._online.shape) for x in agent._networks())
            agent._online, agent._target = both
        np.random.seed(0)  # noqa: NPY002
        numbers = torch.tensor([agent._update(size) for _ in range(3)])
        weights = list(agent._networks()[0].parameters())
        found.append([numbers, *(w.grad for w in weights), *(w.detach() for w in weights)])
        if replay is not None:
            found[-1].append(torch.tensor(agent.replay_buffer.priorities))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@CASES
@pytest.mark.parametrize("size", [1, 24])
def test_values_are_those_of_the_network(cls, space, policy, policy_kwargs, size):
    agent = made(cls, space, policy, policy_kwargs)
    seen = torch.as_tensor(batch(space, size))
    before = seen.clone()
    (outcomes,) = agent._online.predict(*agent._online.prepare(seen))
    expected = agent._networks()[0](seen).reshape(outcomes.shape)
    torch.testing.assert_close(outcomes, expected)
    assert torch.equal(seen, before)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [(1, 1), (3, 3), (2, 4)])
@pytest.mark.parametrize("size", [(10, 10), (7, 12)])
@pytest.mark.parametrize("filters", [3, 16, 20])
def test_a_convolution_is_that_of_pytorch(stride, kernel, size, filters):
    layer = nn.Conv2d(3, filters, kernel, stride)
    boards = torch.randn(5, 3, *size) * (torch.rand(5, 3, *size) < 0.3)
    expected = layer(boards)
    slope = torch.randn_like(expected)
    expected.backward(slope)
    window, places = _window(layer, boards.shape[1:])
    rows, lanes = boards.reshape(5, -1).numpy(), padded(filters)
    nonzero = np.empty((5, rows.shape[1] + 1), np.int64), np.empty(5, np.int64)
    find_nonzero(rows, *nonzero)
    weight, bias = layer.weight.detach().numpy().reshape(filters, -1), layer.bias.detach().numpy()
    room, found = np.empty((5, places * lanes), np.float32), torch.empty(filters * places, 5)
    convolve(rows, nonzero, window, weight, bias, False, room, found.numpy())
    torch.testing.assert_close(found.T.reshape(expected.shape), expected)
    gradient, columns = np.empty_like(weight), slope.reshape(5, -1).T.contiguous().numpy()
    convolution_gradient(rows, nonzero, window, columns, room, gradient)
    wanted = layer.weight.grad.reshape(filters, -1)
    torch.testing.assert_close(torch.as_tensor(gradient), wanted, rtol=1e-4, atol=1e-5)


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
    assert isinstance(agent._online, PlainNetwork)
    seen = batch(NUMBERS, 2)
    torch.testing.assert_close(agent.q_values(seen), agent.q_net(torch.as_tensor(seen)))


def test_rescaled_observations_are_divided_by_their_bounds():
    plain, rescaled = made(MVI, NUMBERS), made(MVI, NUMBERS, policy_kwargs=RESCALED)
    rescaled.policy.load_state_dict(plain.policy.state_dict())  # bounds are no weights
    seen = batch(NUMBERS, 4)
    bounds = np.array(RESCALED["features_extractor_kwargs"]["bounds"], np.float32).reshape(2, 3)
    torch.testing.assert_close(rescaled.q_values(seen * bounds), plain.q_values(seen))


def test_the_bounds_of_a_space_enlarge_and_never_shrink():
    low, high = np.array([-3, -np.inf, 0.0], np.float32), np.array([1, np.inf, 0.5], np.float32)
    agent = made(MVI, spaces.Box(low, high), policy_kwargs=IN_THE_SPACE)
    assert agent.q_net.features_extractor.bounds.tolist() == [1.0, 1.0, 0.5]
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
    assert isinstance(loaded._online, CompiledNetwork)


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
@pytest.mark.parametrize("size", [1, 5])
def test_large_convolutions_by_pytorch_give_the_values_and_gradients_of_the_network(cls, size):
    agent = made(cls, SCREEN, "CnnPolicy", policy_kwargs=SAME_FRACTIONS if cls is IQMVI else None)
    online, (network, _) = agent._online, agent._networks()
    assert isinstance(online, PlainNetwork)
    seen, others = torch.as_tensor(batch(SCREEN, 2 * size)).chunk(2)
    prepared = online.prepare(seen, others)
    for outcomes, pictures in zip(online.predict(*prepared), (seen, others), strict=True):
        torch.testing.assert_close(outcomes, network(pictures).reshape(outcomes.shape))
    expected = network(others)
    slope = torch.randn(size, *online.shape)
    expected.backward(slope.reshape(expected.shape))
    wanted = [w.grad.clone() for w in network.parameters()]
    online.forward(prepared[1])
    norm = online.backward(slope)
    for weight, gradient in zip(network.parameters(), wanted, strict=True):
        torch.testing.assert_close(weight.grad, gradient, rtol=1e-3, atol=1e-4)
    assert norm == pytest.approx(torch.nn.utils.get_total_norm(wanted).item(), rel=1e-4)


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


def learnt(kind, prepare=lambda agent: None, steps=150, **options):
    """Return the weights of MVI at q = ∞ and α = 0, or of DQN, both prepared in the same way."""
    greedy = {"q": math.inf, "munchausen_alpha": 0.0} if kind is MVI else {}
    options = {"learning_starts": 20, "target_update_interval": 20, "learning_rate": 0.01} | options
    agent = made(kind, NUMBERS, **options, **greedy)
    prepare(agent)
    agent.learn(steps)
    return torch.cat([w.detach().flatten() for w in agent.policy.parameters()])


class Masked(DQNPolicy):
    """Never takes action 0."""

    def _predict(self, obs, deterministic=True):
        q_values = self.q_net(obs)
        q_values[:, 0] = -math.inf
        return q_values.argmax(1).reshape(-1)


class Loud(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


def replace_head(agent):
    torch.manual_seed(5)
    for network in (agent.q_net, agent.q_net_target):
        network.q_net[-1] = Loud(64, 2)
    agent.policy.optimizer.add_param_group({"params": list(agent.q_net.q_net[-1].parameters())})


def give_new_weights(agent):
    torch.manual_seed(5)
    head = agent.q_net.q_net[-1]
    head.weight = nn.Parameter(torch.randn_like(head.weight))
    agent.policy.optimizer.add_param_group({"params": [head.weight]})


def hook_forward(agent):
    agent.q_net.q_net[0].register_forward_hook(lambda module, x, y: 2 * y)


def hook_tensor(agent):
    agent.q_net.q_net[0].weight.register_hook(lambda gradient: 0 * gradient)


def override_forward(agent):
    network = agent.q_net.q_net[0]
    network.forward = lambda x: 3 * nn.Linear.forward(network, x)


def normalise_weights(agent):
    for network in (agent.q_net, agent.q_net_target):
        nn.utils.parametrizations.weight_norm(network.q_net[0])


def freeze(agent):
    agent.q_net.q_net[0].weight.requires_grad_(False)


def leave_out_biases(agent):
    agent.max_grad_norm = 0.01
    for network in (agent.q_net, agent.q_net_target):
        network.q_net[0].bias = network.q_net[-1].bias = None


def give_a_target_network(agent):
    agent.q_net_target = copy.deepcopy(agent.q_net_target)
    agent.q_net_target.q_net[-1].bias.data += 1


@pytest.mark.parametrize(
    "prepare",
    [
        *(replace_head, give_new_weights, hook_forward, hook_tensor),
        *(override_forward, normalise_weights, freeze),
        *(leave_out_biases, give_a_target_network),
    ],
)
def test_what_is_changed_in_a_network_counts_as_in_dqn(prepare):
    ours, theirs, unchanged = learnt(MVI, prepare), learnt(DQN, prepare), learnt(DQN)
    assert (ours - theirs).abs().max() < 1e-3
    assert len(ours) != len(unchanged) or (ours - unchanged).abs().max() > 1e-2


@pytest.mark.parametrize(
    "optimizer_kwargs", [{}, {"weight_decay": 0.1}, {"amsgrad": True}, {"betas": (0.5, 0.9)}]
)
def test_a_step_is_the_step_of_the_optimiser(optimizer_kwargs):
    chosen = {"optimizer_kwargs": optimizer_kwargs}
    ours, theirs = (learnt(kind, policy_kwargs=dict(chosen)) for kind in (MVI, DQN))
    assert (ours - theirs).abs().max() < 1e-3


def test_a_policy_that_predicts_otherwise_is_asked():
    agent = MVI(Masked, Observed(NUMBERS), seed=0, device="cpu", exploration_initial_eps=0.0)
    agent.exploration_final_eps = 0.0
    agent.learn(120)
    assert agent.replay_buffer.actions[100:120].min() > 0  # the first hundred are random


def test_changes_in_the_middle_of_learning_are_noticed():
    class Swap(BaseCallback):
        def _on_step(self):
            if self.n_calls == 60:
                hook_forward(self.model)
            return True

    weights = []
    for kind in (MVI, DQN):
        greedy = {"q": math.inf, "munchausen_alpha": 0.0} if kind is MVI else {}
        options = {"learning_starts": 20, "target_update_interval": 20} | greedy
        agent = made(kind, NUMBERS, **options).learn(150, callback=Swap())
        weights.append(torch.cat([w.detach().flatten() for w in agent.policy.parameters()]))
    assert (weights[0] - weights[1]).abs().max() < 1e-4


def test_a_family_of_ones_own_is_asked():
    class Doubled(Family):
        def bootstrap(self, at):
            return 2 * super().bootstrap(at)

    agent = made(MVI, NUMBERS, learning_starts=20).learn(40)
    assert agent._compiled is not None
    agent.family = Doubled()
    agent.train(1, 8)
    assert agent._compiled is None


def test_what_the_optimiser_does_not_have_stays():
    agent = made(MVI, NUMBERS, learning_starts=20)
    agent.policy.optimizer = torch.optim.Adam(agent.q_net.q_net[-1].parameters())
    before = agent.q_net.q_net[0].weight.clone()
    agent.learn(60)
    assert torch.equal(agent.q_net.q_net[0].weight, before)


def test_another_loss_is_noticed():
    agent = made(QRMVI, NUMBERS, policy_kwargs={"n_quantiles": 8}, learning_starts=20).learn(40)
    assert agent._compiled.quantiles
    agent._loss = huber
    agent.train(1, 8)
    assert agent._compiled is None  # there are no loops for quantiles with this loss


def test_hooks_of_the_optimiser_are_called():
    agent, calls = made(MVI, NUMBERS, learning_starts=20), []
    agent.policy.optimizer.register_step_post_hook(lambda *_: calls.append(1))
    agent.learn(60)
    assert len(calls) == agent._n_updates > 5


def test_a_new_policy_is_the_one_that_learns():
    agent = made(MVI, NUMBERS, learning_starts=20).learn(60)
    agent._setup_model()
    before = [weight.clone() for weight in agent.q_net.parameters()]
    agent.learn(60)
    pairs = zip(before, agent.q_net.parameters(), strict=True)
    assert not any(torch.equal(old, new) for old, new in pairs)
    seen = batch(NUMBERS, 4)
    torch.testing.assert_close(agent.q_values(seen), agent.q_net(torch.as_tensor(seen)))


def test_an_optimiser_that_steps_otherwise_and_a_prediction_of_ones_own_are_asked():
    agent, calls = made(MVI, NUMBERS, learning_starts=20, exploration_initial_eps=0.0), []
    agent.exploration_final_eps = 0.0
    agent.policy.optimizer.step = lambda *_: calls.append(1)
    agent.predict = lambda observation, *_, **__: (np.ones(len(observation), int), None)
    agent.learn(60)
    assert len(calls) == agent._n_updates > 5
    assert agent.replay_buffer.actions[20:60].min() == 1


def test_images_that_are_no_longer_rescaled():
    agent = made(MVI, IMAGE, policy_kwargs={"net_arch": [8]})
    agent.q_values(batch(IMAGE, 2))
    agent.q_net.normalize_images = agent.q_net_target.normalize_images = False
    seen = batch(IMAGE, 2)
    torch.testing.assert_close(agent.q_values(seen), agent.q_net(torch.as_tensor(seen)))


@pytest.mark.parametrize("policy_kwargs", [{}, {"activation_fn": nn.Tanh}])
def test_an_agent_that_has_learnt_can_be_copied(policy_kwargs):
    agent = made(MVI, NUMBERS, policy_kwargs=policy_kwargs, learning_starts=20).learn(60)
    copied = copy.deepcopy(agent)
    before = [weight.clone() for weight in agent.q_net.parameters()]
    copied.train(3, 8)
    pairs = zip(before, agent.q_net.parameters(), strict=True)
    assert all(torch.equal(old, new) for old, new in pairs)


def test_half_precision_observations():
    space = spaces.Box(-1, 1, (3,), np.float16)
    agent = made(MVI, space, learning_starts=20).learn(60)
    seen = batch(space, 4)
    torch.testing.assert_close(agent.q_values(seen), agent.q_net(torch.as_tensor(seen)))


def test_values_at_s_are_looked_at_too():
    agent = made(MVI, NUMBERS, learning_starts=20).learn(40)
    agent.replay_buffer.observations[:] = 1e9  # and the following observations as they were
    with pytest.raises(DivergenceError, match="an action value of the target network"):
        agent.train(1, 8)


def test_an_action_that_the_network_does_not_know_is_refused():
    agent = made(MVI, NUMBERS, learning_starts=20).learn(40)
    agent.replay_buffer.actions[:] = 7
    with pytest.raises(IndexError, match="an action of the batch is none that the network knows"):
        agent.train(1, 8)
