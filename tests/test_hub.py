"""The Hub is a folder here: calls are checked against huggingface_hub's own signatures."""

import shutil
import sys
from unittest.mock import create_autospec

import huggingface_hub
import pytest
import torch
from stable_baselines3 import DQN

from mviq.agents import MVI
from mviq.hub import load_from_hub, push_to_hub
from problems import made


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A directory in the place of the Hub."""
    place = tmp_path / "hub"

    def create_repo(api, repo_id, **options):
        (place / repo_id).mkdir(parents=True, exist_ok=options["exist_ok"])
        return f"https://huggingface.co/{repo_id}"

    def upload_folder(api, *, repo_id, folder_path, **options):
        shutil.copytree(folder_path, place / repo_id, dirs_exist_ok=True)

    def download(repo_id, filename, **options):
        return str(place / repo_id / filename)

    api = huggingface_hub.HfApi
    for owner, fake in ((api, create_repo), (api, upload_folder), (huggingface_hub, download)):
        name = "hf_hub_download" if fake is download else fake.__name__
        spec = create_autospec(getattr(owner, name), side_effect=fake)
        monkeypatch.setattr(owner, name, spec)
    return place


def test_an_agent_goes_up_and_comes_down(hub, tmp_path):
    agent = made(MVI, q=3.0)
    agent.save(tmp_path / "out" / "agent")
    (tmp_path / "out" / "README.md").write_text("an agent")
    for _ in range(2):  # a second upload adds to the same repository
        address = push_to_hub(tmp_path / "out", "someone/cartpole")
    assert address == "https://huggingface.co/someone/cartpole"
    assert load_from_hub("someone/cartpole", "README.md").read_text() == "an agent"
    again = MVI.load(load_from_hub("someone/cartpole", "agent.zip"))
    assert again.q == 3.0
    for weight, other in zip(agent.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(weight, other)


def test_what_cannot_go_up_is_named(hub, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="must be a directory with files"):
        push_to_hub(tmp_path / "nothing", "someone/x")
    (tmp_path / "out").mkdir()
    for name in ("vec_normalize.pkl", "policy.PTH"):
        (tmp_path / "out" / name).touch()
    with pytest.raises(ValueError, match=r"holds policy\.PTH, vec_normalize\.pkl"):
        push_to_hub(tmp_path / "out", "someone/x")
    (tmp_path / "sb3").mkdir()
    DQN("MlpPolicy", "CartPole-v1", buffer_size=10).save(tmp_path / "sb3" / "model.zip")
    with pytest.raises(ValueError, match=r"model\.zip/policy\.pth"):
        push_to_hub(tmp_path / "sb3", "someone/x")
    assert not hub.exists()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ValueError, match=r"mviq\[hub\]"):
        load_from_hub("someone/x", "agent.zip")
