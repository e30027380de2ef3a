"""Damaged and hostile files: one ValueError that names the file, and nothing half done."""

import copy
import json
import zipfile

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import safe_open
from stable_baselines3.common.logger import Logger

from mviq.agents import MVI, QRMVI, FrameReplayBuffer
from mviq.agents.replay_files import read_buffer, write_buffer

SMALL = {"policy_kwargs": {"net_arch": [4]}, "buffer_size": 20, "seed": 0, "device": "cpu"}
WRONG = (None, "x", -1, 1e400, 10**30, [], [[1], 2], {}, {"class": "system"}, {"tuple": "ab"})


def made(cls=MVI, **options):
    return cls("MlpPolicy", "CartPole-v1", **(SMALL | options))


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path, parts, **options):
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "agent.zip"
    made().learn(110).save(path)
    return parts_of(path)


def complaint(path, cls=MVI):
    """Return the one line that names the file, or "" if an agent comes out of it that works."""
    try:
        agent = cls.load(path, device="cpu")
    except ValueError as error:
        message = str(error)
    else:
        works(agent)
        return ""
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return message


def refused(path, what="cannot be loaded", cls=MVI):
    assert what in complaint(path, cls)


def nodes(tree, path=()):
    """Return where every value of a JSON tree is."""
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in inside:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from nodes(value, (*path, key))


def changed(tree, where, value):
    """Return the tree with another value somewhere, or without it for ``...``."""
    tree = copy.deepcopy(tree)
    holder = tree
    for key in where[:-1]:
        holder = holder[key]
    if value is ...:
        del holder[where[-1]]
    else:
        holder[where[-1]] = value
    return tree


def works(agent):
    """Predict, and make an update from a few transitions."""
    states = np.zeros((1, 4), np.float32)
    assert agent.predict(states, deterministic=True)[0] in (0, 1)
    agent.set_logger(Logger(None, []))
    for _ in range(6):
        shape = (agent.n_envs, 4)
        zeros = np.zeros(agent.n_envs)
        agent.replay_buffer.add(np.ones(shape), np.ones(shape), zeros, zeros, zeros, [{}])
    agent.train(1, 4)


def test_every_node_of_the_json_can_be_wrong(good, tmp_path):
    content = json.loads(good["agent.json"])
    refusals = 0
    for where in nodes(content):
        for value in (..., *WRONG):
            text = json.dumps(changed(content, where, value))
            path = pack(tmp_path / "bad.zip", good | {"agent.json": text})
            refusals += complaint(path) != ""
    assert refusals > 500


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"', "{}", "[" * 10**5, "{", "NaN", ""])
def test_json_of_another_kind(good, text, tmp_path):
    refused(pack(tmp_path / "bad.zip", good | {"agent.json": text}))


def test_what_is_wrong_is_said(good, tmp_path):
    content = json.loads(good["agent.json"])

    def message(*where, value=...):
        text = json.dumps(changed(content, where, value))
        return complaint(pack(tmp_path / "bad.zip", good | {"agent.json": text}))

    assert "_n_updates" in message("counters", "_n_updates")
    assert "num_timesteps must be a whole number" in message(
        "counters", "num_timesteps", value="many"
    )
    assert "gamma must be a number" in message("arguments", "gamma", value=2)
    assert "saved without gamma: pass it to load" in message("arguments", "gamma")
    assert "class 'Popen' is not known" in message("arguments", "policy", value={"class": "Popen"})
    assert "missing or unknown: ['shell']" in message("arguments", "shell", value="rm")
    assert "larger than its" in message(
        "arguments", "policy_kwargs", "dict", "net_arch", value=[99]
    )


def test_nothing_huge_is_made(good, tmp_path):
    """Spaces and layers of absurd size are refused before memory is filled with them."""
    content = json.loads(good["agent.json"])
    box = ("spaces", "observation_space", "Box")
    huge = (
        changed(content, (*box, 0, "shape"), [10**5, 10**6]),
        changed(content, (*box, 0, "shape"), [2**62, 2**62]),
        changed(content, ("spaces", "action_space"), {"Discrete": [2**24, 0]}),
        changed(content, ("spaces", "observation_space"), {"Discrete": [2**25, 0]}),
        changed(content, ("spaces", "observation_space"), {"MultiBinary": 2**40}),
        changed(content, ("arguments", "policy_kwargs", "dict", "net_arch"), [2**14, 2**14]),
        changed(content, ("arguments", "policy_kwargs", "dict", "net_arch"), [2**40]),
        changed(content, ("arguments", "buffer_size"), 10**17),
        changed(content, ("counters", "n_envs"), 10**9),
    )
    for text in map(json.dumps, huge):
        refused(pack(tmp_path / "bad.zip", good | {"agent.json": text}))


def test_zip_bombs_are_not_unpacked(good, tmp_path):
    bomb = good | {"policy.safetensors": bytes(10**7)}
    path = pack(tmp_path / "bomb.zip", bomb, compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**5
    refused(path, "compressed")
    refused(pack(tmp_path / "long.zip", good | {"agent.json": " " * 2**25}), "more than")


def test_truncated_and_flipped_files(good, tmp_path):
    whole = pack(tmp_path / "good.zip", good).read_bytes()
    path = tmp_path / "bad.zip"
    for length in (0, 1, 30, len(whole) // 2, len(whole) - 30, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(path)
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        complaint(path)


@pytest.mark.parametrize("part", ["policy", "optimizer"])
def test_tensors_of_another_shape_name_or_type(good, part, tmp_path):
    tensors = safetensors.torch.load(good[f"{part}.safetensors"])
    first = next(name for name, value in tensors.items() if value.shape == (2, 4))
    without = {name: value for name, value in tensors.items() if name != first}
    for wrong in (
        without,
        without | {first: tensors[first].T.contiguous()},
        without | {first: torch.zeros(2, 2, 2)},
        tensors | {"other": torch.zeros(3)},
        tensors | {"99.exp_avg": torch.zeros(3)},
        {},
    ):
        data = safetensors.torch.save(wrong)
        path = pack(tmp_path / "bad.zip", good | {f"{part}.safetensors": data})
        if part == "optimizer" and not wrong:  # an optimiser that has not moved yet
            works(MVI.load(path, device="cpu"))
        else:
            refused(path)


def test_parameters_that_do_not_fit_change_nothing(good, tmp_path):
    agent = made()
    before = {name: value.clone() for name, value in agent.policy.state_dict().items()}
    tensors = safetensors.torch.load(good["policy.safetensors"])
    tensors["q_net_target.q_net.2.bias"] = torch.zeros(7)  # the last one to be looked at
    data = safetensors.torch.save(tensors)
    path = pack(tmp_path / "bad.zip", good | {"policy.safetensors": data})
    with pytest.raises(ValueError, match=r"bad\.zip.*q_net_target\.q_net\.2\.bias must be \(2,\)"):
        agent.set_parameters(path)
    with pytest.raises(ValueError, match="must be"):
        agent.set_parameters(
            {"policy": tensors, "policy.optimizer": agent.get_parameters()["policy.optimizer"]}
        )
    for name, value in agent.policy.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_file_of_the_other_agent(good, tmp_path):
    refused(pack(tmp_path / "agent.zip", good), "class 'MVI', not QRMVI", cls=QRMVI)


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
    agent = made().learn(15)
    agent.save_replay_buffer(tmp_path / "replay.safetensors")
    damaged_buffer(tmp_path / "replay.safetensors", arrays, **numbers)
    again = made()
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
    arrays = {"x": np.zeros(1)}
    metadata = {"kind": "TransitionReplayBuffer", "numbers": numbers}
    safetensors.numpy.save_file(arrays, tmp_path / "replay.safetensors", metadata)
    with pytest.raises(ValueError, match="how full"):
        made().load_replay_buffer(tmp_path / "replay.safetensors")
