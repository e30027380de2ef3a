"""Replay buffers as files: what comes back, and what is refused without a trace."""

import json

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
from safetensors import safe_open
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from mviq.agents import MVI, FrameReplayBuffer, codec, register
from mviq.agents.replay_files import read_buffer, write_buffer
from problems import made


@pytest.mark.parametrize("options", [{}, {"n_steps": 3}])
def test_replay_buffers_come_back(options, tmp_path):
    agent = made(MVI, **options).learn(300)
    agent.save_replay_buffer(tmp_path / "replay")
    again = made(MVI, **options)
    again.load_replay_buffer(tmp_path / "replay")
    assert (again.replay_buffer.pos, again.replay_buffer.full) == (300, False)
    for name in ("observations", "next_observations", "actions", "rewards", "dones", "timeouts"):
        assert np.array_equal(*(getattr(a.replay_buffer, name) for a in (agent, again))), name


def test_hindsight_replay_is_truncated_or_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(codec, "_CLASSES", dict(codec._CLASSES))
    register(HerReplayBuffer)
    env = BitFlippingEnv(n_bits=4, max_steps=5)
    options = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 20}
    agent = made(MVI, env, "MultiInputPolicy", **options).learn(103)
    agent.save(tmp_path / "agent")
    agent.save_replay_buffer(tmp_path / "replay")
    unfinished = agent.replay_buffer.pos - agent.replay_buffer._current_ep_start[0]
    assert unfinished > 0
    again = MVI.load(tmp_path / "agent", env=env, device="cpu")
    again.load_replay_buffer(tmp_path / "replay", truncate_last_traj=False)
    assert np.array_equal(again.replay_buffer.ep_length, agent.replay_buffer.ep_length)
    with pytest.warns(UserWarning, match="last trajectory in the replay buffer will be truncated"):
        again.load_replay_buffer(tmp_path / "replay")
    assert again.replay_buffer._current_ep_start[0] == again.replay_buffer.pos
    assert again.replay_buffer.ep_length[103] == unfinished
    again.learn(20, reset_num_timesteps=False)


def damaged_buffer(path, arrays=None, **numbers):
    """Change some arrays or numbers in the file of a replay buffer."""
    with safe_open(path, "numpy") as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118
        metadata = stored.metadata()
    told = json.loads(metadata["numbers"]) | numbers
    metadata["numbers"] = json.dumps({k: v for k, v in told.items() if v is not ...})
    for name, array in (arrays or {}).items():
        tensors[name] = array
    safetensors.numpy.save_file({k: v for k, v in tensors.items() if v is not None}, path, metadata)


@pytest.mark.parametrize(
    ("arrays", "numbers", "what"),
    [
        ({}, {"pos": 20}, "pos must be below 20"),
        ({}, {"pos": -1}, "pos must be below 20"),
        ({}, {"pos": "3"}, "pos must be below 20"),
        ({}, {"pos": ...}, "how full"),
        ({}, {"full": 1}, "full"),
        ({"timeouts": None}, {}, "timeouts missing"),
        ({"timeouts": np.ones((20, 1))}, {}, "timeouts is .* float64, expected .* float32"),
        ({"timeouts": np.ones((3, 1), np.float32)}, {}, r"timeouts is \(3, 1\)"),
        ({"timeouts": np.full((20, 1), np.nan, np.float32)}, {}, "timeouts must be between"),
        ({"actions": np.full((20, 1, 1), 2)}, {}, "actions must be between 0 and 1"),
        ({"other": np.ones(1)}, {}, "other missing or unknown"),
    ],
)
def test_a_wrong_replay_buffer_changes_nothing(arrays, numbers, what, tmp_path):
    agent = made(MVI, buffer_size=20).learn(15)
    agent.save_replay_buffer(tmp_path / "replay.safetensors")
    damaged_buffer(tmp_path / "replay.safetensors", arrays, **numbers)
    again = made(MVI, buffer_size=20)
    with pytest.raises(ValueError, match=what):
        again.load_replay_buffer(tmp_path / "replay.safetensors")
    assert (again.replay_buffer.pos, again.replay_buffer.full) == (0, False)
    for name in ("observations", "next_observations", "actions", "rewards", "dones"):
        assert not getattr(again.replay_buffer, name).any(), name


@pytest.mark.parametrize(
    ("arrays", "numbers", "what"),
    [
        ({}, {"forgotten": 3}, "forgotten must be at most 2"),
        ({}, {"forgotten": -1}, "forgotten must be at most 2"),
        ({"numbers": np.full((2, 10, 1, 4), 99, np.int32)}, {}, "numbers must be between 0 and"),
        ({"latest": np.full((1, 4), -5, np.int32)}, {}, "latest must be between 0 and"),
        ({"written": np.full(1, -1)}, {}, "written must be between 0 and"),
    ],
)
def test_a_wrong_frame_buffer_is_refused(arrays, numbers, what, tmp_path):
    space = gym.spaces.Box(0, 255, (4, 3, 3), np.uint8)
    buffer, again = (
        FrameReplayBuffer(10, space, gym.spaces.Discrete(2), device="cpu") for _ in range(2)
    )
    stack = np.arange(36, dtype=np.uint8).reshape(1, 4, 3, 3)
    for _ in range(3):
        buffer.add(stack, stack, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    path = tmp_path / "replay.safetensors"
    write_buffer(path, buffer)
    damaged_buffer(path, arrays, **numbers)
    with pytest.raises(ValueError, match=what):
        read_buffer(path, again)
    assert again.size() == 0
    assert not again.frames.any()


@pytest.mark.parametrize("numbers", ["[]", "{", "3", ""])
def test_a_replay_buffer_that_says_nothing(numbers, tmp_path):
    arrays = {"dones": np.zeros((20, 1), np.float32)}
    metadata = {"kind": "TransitionReplayBuffer", "numbers": numbers}
    safetensors.numpy.save_file(arrays, tmp_path / "replay.safetensors", metadata)
    with pytest.raises(ValueError, match="how full"):
        made(MVI, buffer_size=20).load_replay_buffer(tmp_path / "replay.safetensors")


def test_info_dictionaries_are_stored_as_data_and_refused_as_objects(tmp_path):
    options = {"replay_buffer_class": HerReplayBuffer, "learning_starts": 20}
    options["replay_buffer_kwargs"] = {"copy_info_dict": True}
    agent = made(MVI, BitFlippingEnv(3, max_steps=4), "MultiInputPolicy", buffer_size=20, **options)
    infos = agent.replay_buffer.infos
    plain = {
        "f": np.arange(4, dtype=np.float16),
        "n": np.int8(3),
        "x": float("nan"),
        "d": {"a": (1,)},
    }
    infos[3, 0] = plain
    agent.save_replay_buffer(tmp_path / "replay")
    infos[3, 0] = {}
    agent.load_replay_buffer(tmp_path / "replay", truncate_last_traj=False)
    again = agent.replay_buffer.infos[3, 0]
    np.testing.assert_equal(again, plain)
    assert (again["f"].dtype, type(again["n"])) == (np.float16, np.int8)
    path = tmp_path / "replay.safetensors"
    for text in (b"[]", b"{", b"[" * 9999, b'[[{"dict": 3}]]', json.dumps([[1]] * 20).encode()):
        damaged_buffer(path, {"infos": np.frombuffer(text, np.uint8)})
        with pytest.raises(ValueError, match="infos"):
            agent.load_replay_buffer(path)
    np.testing.assert_equal(agent.replay_buffer.infos[3, 0], plain)
    infos = agent.replay_buffer.infos
    infos[3, 0] = {"env": gym.Env()}
    with pytest.raises(ValueError, match=r"infos\.3\.0\.env cannot be described"):
        agent.save_replay_buffer(tmp_path / "replay")
