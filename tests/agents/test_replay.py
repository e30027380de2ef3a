"""The frame buffer against Stable-Baselines3's plain buffers, transition for transition."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.envs import FakeImageEnv

from mviq.agents import MVI, FrameReplayBuffer, PrioritizedReplayBuffer
from mviq.agents.replay_files import read_buffer, write_buffer
from problems import made

DEPTH, SIDE = 4, 3
ACTIONS = spaces.Discrete(3)
PADDING = ("blank", "repeat", "other")


class StackedStream:
    """A random stream of stacked frames, with every way in which an episode can end and begin."""

    def __init__(self, rng, space, padding, end, continues):
        self.rng, self.space, self.padding = rng, space, padding
        self.end, self.continues = end, continues
        self.stack = self.first()

    def frame(self):
        shape = (1, *self.space.shape[1:])
        return self.rng.integers(1, 255, shape, np.uint8)

    def first(self):
        frame = self.frame()
        depth = self.space.shape[0]
        if self.padding == "repeat":
            return np.concatenate([frame] * depth)
        if self.padding == "blank":
            return np.concatenate([np.zeros_like(frame)] * (depth - 1) + [frame])
        return np.concatenate([self.frame() for _ in range(depth)])

    def step(self):
        """Return obs, next_obs, action, reward, done, truncated."""
        now, following = self.stack, np.concatenate([self.stack[1:], self.frame()])
        done = self.rng.random() < self.end
        truncated = done and self.rng.random() < 0.4
        # A lost life: the game goes on from the very frames that ended the episode.
        self.stack = following if not done or self.rng.random() < self.continues else self.first()
        return now, following, self.rng.integers(3), self.rng.normal(), done, truncated


def fill(buffers, streams, steps):
    for _ in range(steps):
        columns = list(zip(*(stream.step() for stream in streams), strict=True))
        obs, following, action, reward, done, truncated = (np.stack(c) for c in columns)
        infos = [{"TimeLimit.truncated": bool(t)} for t in truncated]
        for buffer in buffers:
            buffer.add(obs, following, action, reward, done, infos)


def all_samples(buffer, rows, seed):
    np.random.seed(seed)  # noqa: NPY002 - Stable-Baselines3 draws the environments from it
    return buffer._get_samples(rows)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n_envs=st.integers(1, 3),
    n_steps=st.sampled_from([1, 2, 3]),
    steps=st.integers(1, 90),
    end=st.sampled_from([0.02, 0.1, 0.4]),
    padding=st.sampled_from(PADDING),
    continues=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_equals_the_plain_buffer(seed, n_envs, n_steps, steps, end, padding, continues):
    size = 30 * n_envs
    space = spaces.Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
    rng = np.random.default_rng(seed)
    streams = [StackedStream(rng, space, padding, end, continues) for _ in range(n_envs)]
    options = {"device": "cpu", "n_envs": n_envs}
    ours = FrameReplayBuffer(size, space, ACTIONS, n_steps=n_steps, spare=0.5, **options)
    oracle = NStepReplayBuffer(size, space, ACTIONS, n_steps=n_steps, gamma=0.99, **options)
    fill((ours, oracle), streams, steps)
    rows = ours._row(np.arange(ours.size()))
    assert len(set(rows)) == ours.size() >= 1
    found, expected = (all_samples(b, rows, seed) for b in (ours, oracle))
    for name, a, b in zip(found._fields, found, expected, strict=True):
        assert torch.equal(a, b), name


@pytest.mark.parametrize("n_envs", [1, 2])
def test_one_step_samples_are_those_of_the_plain_buffer_from_the_same_seed(n_envs):
    space = spaces.Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
    rng = np.random.default_rng(0)
    streams = [StackedStream(rng, space, "blank", 0.02, 0.5) for _ in range(n_envs)]
    ours = FrameReplayBuffer(80, space, ACTIONS, device="cpu", n_envs=n_envs, spare=0.2)
    oracle = ReplayBuffer(80, space, ACTIONS, device="cpu", n_envs=n_envs)
    fill((ours, oracle), streams, 150)
    assert ours.forgotten == 0
    for buffer in (ours, oracle):
        np.random.seed(5)  # noqa: NPY002
        buffer.drawn = buffer.sample(64)
    for name in ("observations", "next_observations", "actions", "rewards", "dones"):
        assert torch.equal(getattr(ours.drawn, name), getattr(oracle.drawn, name)), name


def test_a_frame_is_stored_once():
    space = spaces.Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
    stream = StackedStream(np.random.default_rng(0), space, "blank", 0.0, 0.0)
    buffer = FrameReplayBuffer(100, space, ACTIONS, device="cpu")
    fill((buffer,), [stream], 60)
    assert buffer.written[0] == 61  # the first observation's and one for each step


def test_forgets_early_rather_than_sampling_wrong_frames():
    space = spaces.Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
    stream = StackedStream(np.random.default_rng(0), space, "other", 1.0, 0.0)
    buffer = FrameReplayBuffer(100, space, ACTIONS, device="cpu", spare=0.0)
    fill((buffer,), [stream], 300)
    assert 0 < buffer.size() < 100  # every episode has one transition and five frames
    drawn = buffer.sample(256)
    assert (drawn.observations[:, 1:] == drawn.next_observations[:, :-1]).all()


def test_frames_that_stay_for_ever_are_not_overwritten_while_they_are_used():
    space = spaces.Box(0, 255, (3, SIDE, SIDE), np.uint8)
    buffer = FrameReplayBuffer(20, space, ACTIONS, device="cpu")
    options = {"device": "cpu"}
    plain = ReplayBuffer(20, space, ACTIONS, **options)

    def picture(t):  # two constant planes, as of a colour image, and one that changes
        planes = [np.full((1, 1, SIDE, SIDE), x, np.uint8) for x in (9, 9, t)]
        return np.concatenate(planes, axis=1)

    for t in range(100):
        for each in (buffer, plain):
            transition = picture(t), picture(t + 1), np.zeros(1), np.zeros(1), np.zeros(1)
            each.add(*transition, [{}])
        rows = buffer._row(np.arange(buffer.size()))
        found, expected = (each._get_samples(rows) for each in (buffer, plain))
        assert torch.equal(found.observations, expected.observations)
        assert torch.equal(found.next_observations, expected.next_observations)


def test_a_million_atari_transitions_fit_into_seven_and_a_half_gigabytes():
    space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    buffer = FrameReplayBuffer(1_000_000, space, ACTIONS, device="cpu")  # zeros, not yet in memory
    arrays, _ = buffer.state()
    assert sum(array.nbytes for array in arrays.values()) <= 7.5e9


def test_colour_frames():
    space = spaces.Box(0, 255, (6, SIDE, SIDE), np.uint8)
    buffer = FrameReplayBuffer(10, space, ACTIONS, device="cpu", channels=3)
    obs, following = np.random.default_rng(0).integers(0, 255, (2, 1, 6, SIDE, SIDE), np.uint8)
    buffer.add(obs, following, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    drawn = buffer.sample(1)
    assert np.array_equal(drawn.observations, obs)
    assert np.array_equal(drawn.next_observations, following)


def test_saved_and_loaded(tmp_path):
    space = spaces.Box(0, 255, (DEPTH, SIDE, SIDE), np.uint8)
    stream = StackedStream(np.random.default_rng(0), space, "blank", 0.1, 0.5)
    buffer, again, other = (
        FrameReplayBuffer(size, space, ACTIONS, device="cpu") for size in (40, 40, 50)
    )
    fill((buffer,), [stream], 70)
    write_buffer(tmp_path / "replay", buffer)
    read_buffer(tmp_path / "replay", again)
    fill((buffer, again), [stream], 15)  # goes on as if nothing had happened
    for a, b in zip(
        *(all_samples(x, x._row(np.arange(x.size())), 0) for x in (buffer, again)), strict=True
    ):
        assert torch.equal(a, b)
    with pytest.raises(ValueError, match="expected"):
        read_buffer(tmp_path / "replay", other)


def test_refuses_what_is_not_a_stack():
    with pytest.raises(ValueError, match="frames, height, width"):
        FrameReplayBuffer(10, spaces.Box(0, 1, (4,)), ACTIONS)


def test_an_agent_tells_its_buffer_of_n_steps_and_discount():
    env = FakeImageEnv(screen_height=36, screen_width=36, n_channels=4, channel_first=True)
    options = {"n_steps": 3, "gamma": 0.5, "buffer_size": 100, "device": "cpu"}
    agent = MVI("CnnPolicy", env, replay_buffer_class=FrameReplayBuffer, **options)
    assert (agent.replay_buffer.n_steps, agent.replay_buffer.gamma) == (3, 0.5)
    with pytest.raises(ValueError, match=r"gamma of the replay buffer must be the agent's 0.5"):
        MVI(
            "CnnPolicy",
            env,
            replay_buffer_class=FrameReplayBuffer,
            replay_buffer_kwargs={"gamma": 0.9},
            **options,
        )


@pytest.mark.parametrize("cls", [DQN, MVI])
def test_a_buffer_without_n_steps_is_warned_of(cls):
    options = {"n_steps": 3, "buffer_size": 100, "device": "cpu"}
    with pytest.warns(UserWarning, match="`n_steps=3` is ignored"):
        cls("MlpPolicy", "CartPole-v1", replay_buffer_class=ReplayBuffer, **options)


class Endless(gym.Env):
    """Episodes that never end; an observation is the number of its episode."""

    observation_space, action_space, episode = spaces.Box(0, 99, (1,)), spaces.Discrete(2), 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        return np.full(1, self.episode, np.float32), {}

    def step(self, action):
        return np.full(1, self.episode, np.float32), 1.0, False, False, {}


@pytest.mark.parametrize("by", ["learn", "set_env"])
@pytest.mark.parametrize("bootstraps", [True, False])
@pytest.mark.parametrize("kind", [None, PrioritizedReplayBuffer])
def test_no_return_spans_the_episodes_before_and_after_a_reset(kind, bootstraps, by):
    """Where ``learn`` resets the environments, the episode before is cut off, not ended."""
    settings = {"replay_buffer_kwargs": {"handle_timeout_termination": bootstraps}}
    settings |= {"replay_buffer_class": kind, "buffer_size": 12, "n_steps": 3, "gamma": 1.0}
    agent = made(MVI, Endless(), learning_starts=99, train_freq=1, **settings).learn(5)
    if by == "set_env":
        agent.set_env(agent.env)
    agent.learn(5, reset_num_timesteps=by == "learn")
    found = agent.replay_buffer.sample(200)
    assert set(found.observations.flatten().tolist()) == {1, 2}
    assert torch.equal(found.observations, found.next_observations)
    assert not found.dones.any()
    agent.learn(10, reset_num_timesteps=False)  # no reset, and the mark is overwritten
    assert not agent.replay_buffer.timeouts.any()
    assert not agent.replay_buffer.dones.any()
