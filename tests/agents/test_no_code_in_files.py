"""No file can run code: neither Stable-Baselines3's, nor a pickle, nor a name in ours."""

import base64
import json
import os
import pickle
import zipfile

import cloudpickle
import pytest
import safetensors.torch
from stable_baselines3 import DQN

from mviq.agents import MVI

SMALL = {"policy_kwargs": {"net_arch": [16]}, "buffer_size": 500, "seed": 0, "device": "cpu"}


def made(cls, **options):
    return cls("MlpPolicy", "CartPole-v1", **(SMALL | options))


class Bomb:
    """Pickles to a call that would leave a trace."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "executed"
    yield path
    assert not path.exists(), "code from the file was run"


def test_a_malicious_sb3_file_is_refused_and_not_executed(tmp_path, trace):
    genuine = tmp_path / "sb3.zip"
    DQN("MlpPolicy", "CartPole-v1", **SMALL).save(genuine)
    armed = base64.b64encode(cloudpickle.dumps(Bomb(trace))).decode()
    malicious = tmp_path / "malicious.zip"
    with zipfile.ZipFile(genuine) as source, zipfile.ZipFile(malicious, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "data":
                data = json.loads(content)
                data["learning_rate"] = {":type:": "<class 'float'>", ":serialized:": armed}
                content = json.dumps(data).encode()
            if name.endswith(".pth"):
                content = pickle.dumps(Bomb(trace))
            target.writestr(name, content)
    # It is a bomb: Stable-Baselines3 sets it off.
    with pytest.raises(Exception):  # noqa: B017, PT011 - any way it dies will do
        DQN.load(malicious)
    assert trace.exists()
    trace.rmdir()
    with pytest.raises(ValueError, match="saved by Stable-Baselines3"):
        MVI.load(malicious)
    with pytest.raises(ValueError, match="saved by Stable-Baselines3"):
        made(MVI).set_parameters(malicious)


def test_pickles_in_place_of_data_are_refused(tmp_path, trace):
    bomb = pickle.dumps(Bomb(trace))
    (tmp_path / "replay.pkl").write_bytes(bomb)
    with pytest.raises(ValueError, match="not a replay buffer"):
        made(MVI).load_replay_buffer(tmp_path / "replay.pkl")
    (tmp_path / "agent.zip").write_bytes(bomb)
    with pytest.raises(ValueError, match="cannot be loaded as an mviq agent"):
        MVI.load(tmp_path / "agent.zip")
    made(MVI).save(tmp_path / "good.zip")
    with zipfile.ZipFile(tmp_path / "good.zip") as source:
        parts = {name: source.read(name) for name in source.namelist()}
    for name in parts:
        with zipfile.ZipFile(tmp_path / "bad.zip", "w") as target:
            for part, content in parts.items():
                target.writestr(part, bomb if part == name else content)
        with pytest.raises(ValueError, match="cannot be loaded as an mviq agent"):
            MVI.load(tmp_path / "bad.zip")


@pytest.mark.parametrize("described", [{"class": "Popen"}, {"eval": "1"}, {"class": "os.system"}])
def test_a_file_cannot_name_what_is_not_known(described, tmp_path):
    made(MVI).save(tmp_path / "agent.zip")
    with zipfile.ZipFile(tmp_path / "agent.zip") as source:
        parts = {name: source.read(name) for name in source.namelist()}
    content = json.loads(parts["agent.json"])
    content["arguments"]["policy_kwargs"] = described
    parts["agent.json"] = json.dumps(content).encode()
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as target:
        for name, data in parts.items():
            target.writestr(name, data)
    with pytest.raises(ValueError, match=r"not known here|not a description"):
        MVI.load(tmp_path / "bad.zip")


def test_only_tensors_and_json_are_in_the_file(tmp_path):
    made(MVI).learn(150).save(tmp_path / "agent.zip")
    with zipfile.ZipFile(tmp_path / "agent.zip") as archive:
        assert sorted(archive.namelist()) == ["agent.json", "arrays.safetensors"]
        json.loads(archive.read("agent.json"))
        assert safetensors.torch.load(archive.read("arrays.safetensors"))
