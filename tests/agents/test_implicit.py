"""``IQMVI`` is M-IQN and IQN where it should be, and learns distributions that are known."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.utils import set_random_seed
from torch.nn.functional import huber_loss

from mviq.agents import IQMVI, quantile_huber_loss
from problems import TableMDP, learnt, made


def m_iqn_target(r, a, d, z_next, z, gamma, temperature=0.03, alpha=0.9):
    """Munchausen-IQN as Vieillard et al. (2020) print it, one set of samples for each state."""

    def tau_log_pi(q_values):
        best = q_values.max(-1, keepdim=True).values
        gaps = q_values - best
        return gaps - temperature * torch.logsumexp(gaps / temperature, -1, keepdim=True)

    log_next, log_now = tau_log_pi(z_next.mean(1)), tau_log_pi(z.mean(1))
    pi = torch.softmax(z_next.mean(1) / temperature, -1)
    future = (pi.unsqueeze(1) * (z_next - log_next.unsqueeze(1))).sum(-1)
    return r + alpha * log_now.gather(1, a).clamp(-1, 0) + gamma * (1 - d) * future


def iqn_target(r, a, d, z_next, z, gamma):
    best = z_next.mean(1).argmax(-1)
    return r + gamma * (1 - d) * z_next[torch.arange(len(r)), :, best]


CASES = {
    "M-IQN": (
        {"q": 1.0, "form": "log", "clip": (-1.0, 0.0), "temperature": 0.03},
        m_iqn_target,
    ),
    "IQN": ({"q": math.inf, "munchausen_alpha": 0.0}, iqn_target),
}


def test_the_cosines_are_multiplied_before_the_last_hidden_layer():
    network = made(IQMVI, policy_kwargs={"net_arch": [5, 6, 7], "fractions": (3, 4)}).quantile_net
    first, second, embedding = *network.features_net[::2], network.embedding
    third, last = network.quantile_net[::2]
    observations = torch.randn(2, *network.observation_space.shape)
    cosines = torch.stack([torch.cos(math.pi * i * network.midpoints) for i in range(64)], -1)
    features = torch.relu(second(torch.relu(first(observations))))
    x = features[:, None] * torch.relu(embedding(cosines))
    expected = last(torch.relu(third(x)))
    assert x.shape == (2, 4, 6)
    torch.testing.assert_close(network(observations), expected)


@pytest.mark.parametrize(("family", "target"), CASES.values(), ids=CASES)
def test_an_update_is_the_published_one_written_out(family, target):
    agent = made(IQMVI, learning_starts=10, learning_rate=0.01, **family).learn(60)
    online, other = agent._networks()
    with torch.no_grad():
        for weight in other.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    before = agent.get_state()
    set_random_seed(1)
    agent._update(16)
    found = [weight.clone() for weight in online.parameters()]
    agent.set_state(before)

    set_random_seed(1)
    batch = agent.replay_buffer.sample(16)
    online.sampling = other.sampling = True
    with torch.no_grad():
        z = other(batch.observations) if agent.munchausen_alpha else None  # draws its fractions
        z_next = other(batch.next_observations)
        transitions = batch.rewards, batch.actions, batch.dones
        y = target(*transitions, z_next, z, agent.gamma).unsqueeze(1)
    theta = online(batch.observations)[torch.arange(16), :, batch.actions.squeeze(1)].unsqueeze(2)
    below = (y < theta).float()
    huber = huber_loss(theta.expand(-1, -1, 8), y.expand(-1, 8, -1), reduction="none")
    asymmetry = (online.fractions.unsqueeze(2) - below).abs()
    agent.policy.optimizer.zero_grad()
    (asymmetry * huber).sum(1).mean().backward()
    agent.policy.optimizer.step()
    for ours, expected in zip(found, online.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def test_at_midpoints_the_loss_is_that_of_fixed_quantiles():
    agent, (theta, y) = made(IQMVI), torch.randn(2, 5, 8)
    fractions = ((torch.arange(8) + 0.5) / 8).expand(5, 8)
    theta.requires_grad_()
    expected = quantile_huber_loss(theta, y)
    expected.backward()
    torch.testing.assert_close(agent._loss(theta, y, fractions), (expected.detach(), theta.grad))


class Dice(gym.Env):
    """One state, one step, a reward that is uniform on {0, …, 9}; known are all its quantiles."""

    observation_space, action_space = spaces.Box(1, 1, (1,), np.float32), spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.ones(1, np.float32), {}

    def step(self, action):
        return np.ones(1, np.float32), float(self.np_random.integers(10)), True, False, {}


def test_the_quantiles_of_a_known_distribution_are_learnt():
    options = {"learning_rate": lambda left: 0.01 * left, "train_freq": 1}
    options |= {"policy_kwargs": {"net_arch": [32]}}
    agent = made(IQMVI, Dice(), q=math.inf, munchausen_alpha=0.0, **options).learn(1_200)
    with torch.no_grad():
        found = agent.quantile_net(torch.ones(1, 1)).flatten()
    fractions = agent.quantile_net.midpoints
    assert abs(float(found.mean()) - 4.5) < 0.5
    assert float((found - (10 * fractions - 0.5)).abs()[2:-2].max()) < 1  # Huber rounds corners


def test_two_steps_are_discounted_once_and_munchausen_widens_gaps():
    chain = TableMDP([[0.0, 0.0], [1.0, -1.0]], [[1, 1], [-1, -1]])
    found = learnt(IQMVI, chain, gamma=0.8, q=math.inf, munchausen_alpha=0.0, updates=500)
    torch.testing.assert_close(
        found, torch.tensor([[0.8, 0.8], [1.0, -1.0]]).double(), rtol=0, atol=0.05
    )
    bandit = TableMDP([[1.0, 0.5]], [[-1, -1]])
    found = learnt(IQMVI, bandit, q=2.0, temperature=0.03, munchausen_alpha=0.5, updates=500)
    torch.testing.assert_close(found, torch.tensor([[1.0, 0.0]]).double(), rtol=0, atol=0.05)


def test_a_dueling_head_is_a_value_and_advantages():
    agent = made(IQMVI, policy_kwargs={"head": "dueling", "fractions": (4, 6)}).learn(130)
    assert agent._compiled is None  # which has no loops for it
    net, seen = agent.quantile_net, torch.randn(3, 4)
    with torch.no_grad():
        quantiles = net(seen)
        assert quantiles.shape == (3, 6, 2)
        for weight in net.quantile_net.parameters():
            weight.zero_()
        value = net(seen)
    assert torch.equal(value[..., 0], value[..., 1])  # without advantages
    torch.testing.assert_close(value[..., 0], quantiles.mean(-1))


def tie(network):
    network.embedding.bias = network.quantile_net[0].bias


def freeze(network):
    network.embedding.bias.requires_grad_(False)


def more_samples(network):
    network.n_quantiles += 1


def other_embedding(network):
    network.embedding = torch.nn.Sequential(network.embedding)
    network.embedding.in_features = 64


@pytest.mark.parametrize("change", [tie, freeze, more_samples, other_embedding])
def test_what_a_user_changes_in_a_network_is_not_compiled_away(change):
    kwargs = {"net_arch": [4]}
    agent = made(IQMVI, policy_kwargs=kwargs, learning_starts=10).learn(40)
    assert agent._compiled is not None
    change(agent.quantile_net)
    agent.train(2, 8)
    assert agent._compiled is None


def test_acting_draws_nothing_and_updates_draw_from_the_generator_of_torch():
    agent = made(IQMVI, learning_starts=10).learn(40)
    before = torch.get_rng_state()
    seen = agent.env.reset()
    first, second = agent.q_values(seen), agent.q_values(seen)
    agent.predict(seen, deterministic=True)
    assert torch.equal(first, second)
    assert torch.equal(before, torch.get_rng_state())
    agent.train(1, 8)
    assert not torch.equal(before, torch.get_rng_state())


class Asking(IQMVI):
    """Asks for action values within an update, as a target of one's own may."""

    def target(self, batch, next_outcomes, outcomes=None):
        first, second = self.q_values(batch.observations), self.q_values(batch.observations)
        assert torch.equal(first, second)
        return super().target(batch, next_outcomes, outcomes)


def test_only_the_two_predictions_of_an_update_are_at_random_fractions(monkeypatch):
    made(Asking, learning_starts=10).learn(40)
    weights = []
    for every in (1, 10**6):  # diagnosing an update does not change it
        monkeypatch.setattr("mviq.agents.update.DIAGNOSE_EVERY", every)
        agent = made(IQMVI, learning_starts=10).learn(40)
        weights.append(torch.cat([p.flatten() for p in agent.policy.parameters()]))
    assert torch.equal(*weights)


UNFIT = [{"fractions": x} for x in ((8, 0), [8], 8, (8, 10**7), (10**7, 8))]


@pytest.mark.parametrize("wrong", [{"head": "duelling"}, {"n_quantiles": 50}, *UNFIT])
def test_what_a_network_cannot_have_is_refused(wrong):
    with pytest.raises(ValueError, match=rf"{next(iter(wrong))} must be .*, got"):
        made(IQMVI, policy_kwargs=wrong)
