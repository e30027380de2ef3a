"""Damaged and hostile files: one ValueError that names the file, and nothing half done."""

import copy
import json
import zipfile

import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from stable_baselines3.common.logger import Logger

from mviq.agents import IQMVI, MVI, QRMVI

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

    assert "_n_updates" in message("state", "_n_updates")
    assert "num_timesteps must be a whole number" in message("state", "num_timesteps", value="many")
    assert "gamma must be a number" in message("arguments", "gamma", value=2)
    assert "saved without gamma: pass it to load" in message("arguments", "gamma")
    assert "class 'Popen' is not known" in message("arguments", "policy", value={"class": "Popen"})
    assert "missing or unknown: ['shell']" in message("arguments", "shell", value="rm")
    assert "larger than its" in message(
        "arguments", "policy_kwargs", "dict", "net_arch", value=[99]
    )


@pytest.mark.parametrize("value", [..., *WRONG])
@pytest.mark.parametrize("where", [("state",), ("spaces",), ("arguments",), ("n_envs",)])
def test_a_part_can_be_wrong_where_an_environment_is_given(good, where, value, tmp_path):
    text = json.dumps(changed(json.loads(good["agent.json"]), where, value))
    path = pack(tmp_path / "bad.zip", good | {"agent.json": text})
    with pytest.raises(ValueError, match=r"bad\.zip"):
        MVI.load(path, env="CartPole-v1", device="cpu")


def test_nothing_huge_is_made(good, tmp_path):
    """Spaces and layers of absurd size are refused before memory is filled with them."""
    content = json.loads(good["agent.json"])
    box = ("spaces", "observation_space", "Box")
    huge = (
        changed(content, (*box, 0, "ndarray"), ["<f4", [10**5, 10**6]]),
        changed(content, (*box, 0, "ndarray"), ["<f4", [2**62, 2**62]]),
        changed(content, ("spaces", "action_space"), {"Discrete": [2**24, 0]}),
        changed(content, ("spaces", "observation_space"), {"Discrete": [2**25, 0]}),
        changed(content, ("spaces", "observation_space"), {"MultiBinary": [2**40]}),
        changed(content, ("arguments", "policy_kwargs", "dict", "net_arch"), [2**14, 2**14]),
        changed(content, ("arguments", "policy_kwargs", "dict", "net_arch"), [2**40]),
        changed(content, ("arguments", "buffer_size"), 10**17),
        changed(content, ("arguments", "buffer_size"), 10**12),
        changed(content, ("n_envs",), 10**9),
    )
    for text in map(json.dumps, huge):
        refused(pack(tmp_path / "bad.zip", good | {"agent.json": text}))


@pytest.mark.parametrize("fractions", [[8, 2**25], [2**25, 32]])
def test_no_more_quantiles_are_made_than_memory_holds(fractions, tmp_path):
    made(IQMVI, policy_kwargs={"net_arch": [4], "fractions": (8, 32)}).save(tmp_path / "agent")
    parts = parts_of(tmp_path / "agent.zip")
    where = ("arguments", "policy_kwargs", "dict", "fractions", "tuple")
    text = json.dumps(changed(json.loads(parts["agent.json"]), where, fractions))
    path = pack(tmp_path / "bad.zip", parts | {"agent.json": text})
    refused(path, "fractions must be", cls=IQMVI)


def test_zip_bombs_are_not_unpacked(good, tmp_path):
    bomb = good | {"arrays.safetensors": bytes(10**7)}
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
    arrays = safetensors.torch.load(good["arrays.safetensors"])
    tensors = {name: value for name, value in arrays.items() if f"state.{part}." in name}
    first = next(name for name, value in tensors.items() if value.shape == (2, 4))
    without = {name: value for name, value in arrays.items() if name != first}
    for wrong in (
        without,
        without | {first: arrays[first].T.contiguous()},
        without | {first: torch.zeros(2, 2, 2)},
        arrays | {"other": torch.zeros(3)},
        arrays | {f"state.{part}.99.exp_avg": torch.zeros(3)},
        {name: value for name, value in arrays.items() if name not in tensors},
        {},
    ):
        data = safetensors.torch.save(wrong)
        refused(pack(tmp_path / "bad.zip", good | {"arrays.safetensors": data}))


def test_an_optimiser_that_has_not_moved_yet(good, tmp_path):
    arrays = safetensors.torch.load(good["arrays.safetensors"])
    rest = {name: value for name, value in arrays.items() if ".optimizer." not in name}
    where = ("state", "optimizer")
    text = json.dumps(changed(json.loads(good["agent.json"]), where, {"dict": {}}))
    parts = good | {"agent.json": text, "arrays.safetensors": safetensors.torch.save(rest)}
    works(MVI.load(pack(tmp_path / "new.zip", parts), device="cpu"))


def test_parameters_that_do_not_fit_change_nothing(good, tmp_path):
    agent = made()
    before = {name: value.clone() for name, value in agent.policy.state_dict().items()}
    arrays = safetensors.torch.load(good["arrays.safetensors"])
    arrays["state.policy.q_net_target.q_net.2.bias"] = torch.zeros(7)  # the last to be looked at
    data = safetensors.torch.save(arrays)
    path = pack(tmp_path / "bad.zip", good | {"arrays.safetensors": data})
    start = "state.policy."
    tensors = {name[len(start) :]: v for name, v in arrays.items() if name.startswith(start)}
    with pytest.raises(ValueError, match=r"bad\.zip.*q_net_target\.q_net\.2\.bias must be \(2,\)"):
        agent.set_parameters(path)
    with pytest.raises(RuntimeError, match="must be"):
        agent.set_parameters(
            {"policy": tensors, "policy.optimizer": agent.get_parameters()["policy.optimizer"]}
        )
    for name, value in agent.policy.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_file_of_the_other_agent(good, tmp_path):
    refused(pack(tmp_path / "agent.zip", good), "class 'MVI', not QRMVI", cls=QRMVI)
