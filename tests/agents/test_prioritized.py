"""Prioritised replay against a plain implementation, and against Stable-Baselines3's n-step one."""

from copy import deepcopy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.utils import set_random_seed

from mviq.agents import (
    IQMVI,
    MVI,
    QRMVI,
    DivergenceError,
    FrameReplayBuffer,
    PrioritizedFrameReplayBuffer,
    PrioritizedReplayBuffer,
)
from mviq.agents.kernels.sums import find_leaves, set_leaves
from problems import Observed, made

SPACE, FRAMES = spaces.Box(-9, 9, (2,), np.float32), spaces.Box(0, 255, (2, 3, 3), np.uint8)
ACTIONS = spaces.Discrete(3)


class Plain:
    """The definition, in O(n): probabilities p/Σp, drawn from their running sum."""

    def __init__(self, number, exponent, beta):
        self.p, self.largest, self.exponent, self.beta = np.zeros(number), 1.0, exponent, beta

    def sample(self, batch):
        places = (np.arange(batch) + np.random.rand(batch)) / batch * self.p.sum()  # noqa: NPY002
        self.drawn = np.searchsorted(np.cumsum(self.p), places, side="right")
        return self.drawn

    def weigh(self, errors, remaining):
        """Return importance weights (N P)^−β over their largest, and set the priorities."""
        chances = self.p[self.drawn] / self.p.sum()
        weights = (len(self.p) * chances) ** -(1 - (1 - self.beta) * remaining)
        for i, error in zip(self.drawn, errors, strict=True):
            self.p[i] = (error + 1e-6) ** self.exponent
            self.largest = max(self.largest, self.p[i])
        return weights / weights.max()


def add(buffer, rng, end=0.2, number=1):
    for _ in range(number):
        n, space = buffer.n_envs, buffer.observation_space
        seen = [space.sample() for _ in range(2 * n)]
        done = rng.random(n) < end
        infos = [{"TimeLimit.truncated": bool(x)} for x in done & (rng.random(n) < 0.5)]
        transition = rng.integers(3, size=n), rng.normal(size=n), done
        buffer.add(np.stack(seen[:n]), np.stack(seen[n:]), *transition, infos)


def made_buffer(kind=PrioritizedReplayBuffer, size=40, n_envs=2, space=SPACE, **options):
    space.seed(0)
    return kind(size, space, ACTIONS, "cpu", n_envs, **options)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_draws_and_weights_are_those_of_the_definition(exponent):
    buffer = made_buffer(exponent=exponent)
    plain, rng = Plain(40, exponent, 0.4), np.random.default_rng(0)
    for step in range(60):
        row, before = buffer.pos, plain.largest
        add(buffer, rng)
        plain.p[2 * row : 2 * row + 2] = before
        set_random_seed(step)
        buffer.sample(16)
        set_random_seed(step)
        np.testing.assert_array_equal(buffer._drawn, plain.sample(16))
        errors, weights = rng.gamma(1.0, 3.0, 16), buffer.importance_weights(1 - step / 60)
        buffer.update_priorities(errors)
        expected = plain.weigh(errors, 1 - step / 60)
        np.testing.assert_allclose(weights, expected, rtol=1e-12)
        np.testing.assert_allclose(buffer.priorities.ravel(), plain.p, rtol=1e-14)


def test_frequencies_are_the_probabilities_and_zero_is_never_drawn():
    buffer = made_buffer(size=13, n_envs=1)
    add(buffer, np.random.default_rng(0), number=13)
    buffer.state()[0]["priorities"][:, 0] = np.arange(13) % 5 * 0.1
    set_random_seed(0)
    for _ in range(400):
        buffer.sample(100)
        counts = np.bincount(buffer._drawn, minlength=13)
        expected = 100 * buffer.priorities[:, 0] / buffer.priorities.sum()
        assert (abs(counts - expected) < 2).all()  # one draw from each hundredth of the sum
        assert not counts[expected == 0].any()


def test_rounding_errors_do_not_lead_to_a_leaf_of_zero():
    tree, found = np.zeros(8), np.empty(2, np.int64)
    set_leaves(tree, np.arange(4), np.array([0.1, 0.2, 0.0, 0.0]))
    find_leaves(tree, np.array([tree[1], 2 * tree[1]]), found)  # beyond the last interval
    assert found.tolist() == [1, 1]


def test_priorities_can_be_read_and_only_transitions_that_are_there_are_drawn():
    buffer = made_buffer(size=20, n_envs=2)
    add(buffer, np.random.default_rng(0), number=6)
    with pytest.raises(ValueError, match="read-only"):
        buffer.priorities[:] = 0
    priorities = buffer.state()[0]["priorities"]
    priorities[:] = 1  # also where nothing is stored, as in a damaged file
    for _ in range(20):
        buffer.sample(8)
        assert buffer._drawn.max() < 12
    priorities = buffer.state()[0]["priorities"]
    priorities[:] = 0
    with pytest.raises(ValueError, match="priorities of the replay buffer are all 0"):
        buffer.sample(8)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("number", [7, 50])
@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, PrioritizedFrameReplayBuffer])
def test_transitions_are_those_of_stable_baselines(kind, number, n_steps):
    frames = kind is PrioritizedFrameReplayBuffer
    options = {"space": FRAMES if frames else SPACE, "n_steps": n_steps, "gamma": 0.9}
    theirs = made_buffer(NStepReplayBuffer, **options)
    ours = made_buffer(kind, **options | ({"spare": 4.0} if frames else {}))  # keeps them all
    for buffer in (ours, theirs):
        options["space"].seed(0)
        add(buffer, np.random.default_rng(1), number=number)
    rows = np.random.default_rng(2).integers(theirs.size(), size=64)
    set_random_seed(3)
    expected = theirs._get_samples(rows)
    set_random_seed(3)
    found = ours.transitions(rows, np.random.randint(0, 2, size=64))  # noqa: NPY002
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype


def test_integers_of_several_environments_are_stored_as_by_stable_baselines():
    whole = spaces.Discrete(9)
    ours, theirs = (
        made_buffer(kind, space=whole) for kind in (PrioritizedReplayBuffer, NStepReplayBuffer)
    )
    for buffer in (ours, theirs):
        whole.seed(0)
        add(buffer, np.random.default_rng(1), number=30)
    assert np.array_equal(ours.observations, theirs.observations)
    assert np.array_equal(ours.next_observations, theirs.next_observations)
    assert ours.sample(5).observations.shape == (5, 1)


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, PrioritizedFrameReplayBuffer])
def test_a_transition_can_be_added_by_keywords(kind):
    buffer = made_buffer(kind, 5, 1, FRAMES)
    seen, nothing = np.ones((1, 2, 3, 3), np.uint8), np.zeros(1)
    rest = {"action": nothing, "reward": np.ones(1), "done": nothing, "infos": [{}]}
    buffer.add(obs=seen, next_obs=seen, **rest)
    assert buffer.sample(1).rewards == 1


def test_frames_are_stored_once_and_forgotten_ones_are_not_drawn():
    buffer = made_buffer(PrioritizedFrameReplayBuffer, 30, 1, FRAMES, spare=0.0)
    add(buffer, np.random.default_rng(0), end=1.0, number=100)
    assert buffer.forgotten > 0
    kept = {int(buffer._row(i)) for i in range(buffer.size())}
    assert {int(row) for row in np.flatnonzero(buffer.priorities)} == kept
    plain = made_buffer(FrameReplayBuffer, 30, 1, FRAMES, spare=0.0)
    assert buffer.frames.shape == plain.frames.shape


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, PrioritizedFrameReplayBuffer])
@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_every_critic_learns_saves_and_goes_on(cls, kind, tmp_path):
    frames = kind is PrioritizedFrameReplayBuffer
    options = {"replay_buffer_class": kind, "replay_buffer_kwargs": {"exponent": 0.7}}
    options |= {"policy_kwargs": {"net_arch": [8]}, "n_steps": 2, "buffer_size": 150}
    if frames:
        options["policy_kwargs"]["normalize_images"] = False
    env = Observed(FRAMES) if frames else "CartPole-v1"
    agent = made(cls, env, learning_starts=10, batch_size=8, **options).learn(60)
    assert len(np.unique(agent.replay_buffer.priorities[:60])) > 10
    agent.save(tmp_path / "agent")
    agent.save_replay_buffer(tmp_path / "replay")
    again = cls.load(tmp_path / "agent", env=agent.env)
    again.load_replay_buffer(tmp_path / "replay")
    weights = []
    for one in (agent, again):
        set_random_seed(5)
        one._logger = agent.logger
        one.train(3, 8)
        weights.append(torch.cat([p.flatten() for p in one.policy.parameters()]))
    assert torch.equal(*weights)
    assert np.array_equal(agent.replay_buffer._tree[1:], again.replay_buffer._tree[1:])


def test_a_copy_of_a_buffer_draws_by_priorities_of_its_own():
    buffer = made_buffer(size=8, n_envs=1)
    add(buffer, np.random.default_rng(0), number=8)
    copied = deepcopy(buffer)
    copied.sample(4)
    copied.update_priorities(np.full(4, 9.0))
    assert (copied.priorities.max(), buffer.priorities.max()) == (pytest.approx(3), 1)
    copied.reset()
    assert not copied.priorities.any()


class OwnWeights(PrioritizedReplayBuffer):
    def importance_weights(self, remaining):
        return np.array([2], np.int32)  # for all of the batch

    def update_priorities(self, errors):
        self.errors = errors
        super().update_priorities(errors)


@pytest.mark.parametrize("compiled", [True, False])
def test_weights_of_ones_own_may_be_any_numbers(compiled):
    options = {"replay_buffer_class": OwnWeights, "learning_starts": 10, "batch_size": 8}
    network = {} if compiled else {"policy_kwargs": {"activation_fn": torch.nn.Tanh}}
    agent = made(MVI, **options, **network).learn(40)
    assert (agent._compiled is not None) == compiled
    assert len(set(agent.replay_buffer.errors)) == 8


def test_arguments_of_a_buffer_can_be_used_for_two_agents():
    arguments, first = {"exponent": 0.5}, {"n_steps": 3, "gamma": 0.9}
    options = {"replay_buffer_class": PrioritizedReplayBuffer, "replay_buffer_kwargs": arguments}
    buffers = [made(MVI, **options, **own).replay_buffer for own in (first, {})]
    assert [(buffer.n_steps, buffer.gamma) for buffer in buffers] == [(3, 0.9), (1, 0.99)]
    assert arguments == {"exponent": 0.5}


def test_an_empty_buffer_has_nothing_to_sample():
    with pytest.raises(ValueError, match="the replay buffer is empty"):
        made_buffer().sample(1)


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_priorities_stay_as_they_were_where_learning_diverges(cls):
    options = {"replay_buffer_class": PrioritizedReplayBuffer, "buffer_size": 40}
    agent = made(cls, learning_starts=10, batch_size=8, **options).learn(30)
    before = agent.replay_buffer.priorities.copy()
    with torch.no_grad():
        next(agent._networks()[0].parameters()).fill_(torch.nan)
    with pytest.raises(DivergenceError, match="the loss is nan"):
        agent.train(1, 8)
    assert np.array_equal(agent.replay_buffer.priorities, before)


@pytest.mark.parametrize("wrong", [{"exponent": -1}, {"beta": 1.5}, {"beta": "x"}])
def test_numbers_outside_their_interval_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be between 0 and 1"):
        made_buffer(**wrong)


@pytest.mark.parametrize("kind", [PrioritizedReplayBuffer, PrioritizedFrameReplayBuffer])
def test_dictionary_observations_are_refused_with_a_sentence(kind):
    parts = Observed(spaces.Dict({"seen": SPACE}))
    with pytest.raises(ValueError, match=f"for dictionary observations, got {kind.__name__}"):
        made(MVI, parts, "MultiInputPolicy", replay_buffer_class=kind)


def test_a_file_with_impossible_priorities_is_refused(tmp_path):
    options = {"replay_buffer_class": PrioritizedReplayBuffer, "buffer_size": 20}
    agent = made(MVI, **options).learn(5)
    agent.replay_buffer.state()[0]["priorities"][3] = np.nan
    agent.save_replay_buffer(tmp_path / "replay")
    with pytest.raises(ValueError, match="priorities must be between"):
        made(MVI, **options).load_replay_buffer(tmp_path / "replay")
