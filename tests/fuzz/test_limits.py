"""What was once used against it: bombs, absurd sizes, markup, and names that no terminal shows."""

import json
import os
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from comparing import assert_same_run
from mviq.cli.main import main
from mviq.runs.directory import RunDirectory
from mviq.runs.settings import load
from mviq.runs.training import train
from mviq.storage import digest
from mviq.tabular import MDP, garnet, save_mdp
from small_runs import Crashing, cartpole, crash
from small_studies import write_study
from stored_runs import write_run

LAUGHS = "a0: &a0 [1, 2]\n" + "\n".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)
)
MERGES = "a0: &a0 {k: 1}\n" + "\n".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "more than 1,000,000 values"),
        (MERGES, "more than 1,000,000 values"),
        ("a: &a [*a]", "nested more than"),
        ("[" * 10**5, "nested too deeply"),
        ("a: " + "[" * 60 + "]" * 60, "nested more than 50"),
        ("a: [" + "1," * 10**6 + "]", "at most 2,000,000 bytes, has 2,000,005"),
        ("a: !!bool abc", "cannot be read: 'abc'"),
        ("a: 2024-99-99", "cannot be read: month must be"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
    ],
)
def test_yaml_that_means_harm(text, message, tmp_path):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as refusal:
        load(tmp_path / "bad.yaml")
    assert str(refusal.value).startswith(str(tmp_path))
    assert len(str(refusal.value)) < 500


def test_toml_that_is_too_deep(tmp_path):
    for text in ("a = " + "[" * 10**5, ".".join("a" * 100) + " = 1"):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(ValueError, match="nested"):
            load(tmp_path / "bad.toml")


def test_searches_without_end(tmp_path, capsys):
    names, choices = ("train_every", "gradient_steps", "n_steps"), [*range(1, 1001)]
    tune = {"sampler": "grid", "space": {name: {"choices": choices} for name in names}}
    grid = write_study(tmp_path, name="grid", algorithms=["mvi"], tune=tune)
    assert main(["study", "tune", str(grid), "--dry-run"]) == 2
    assert "at most 100,000 runs" in capsys.readouterr().err
    tune = {"trials": 3, "space": {"gamma": {"low": 0.9, "high": 0.99}}}
    few = write_study(tmp_path, name="few", algorithms=["mvi"], tune=tune)
    assert main(["study", "tune", str(few), "--dry-run", "--trials", "1" + "0" * 50]) == 2
    assert "at most 100,000 runs" in capsys.readouterr().err


def test_names_from_files_are_no_markup(tmp_path, capsys):
    mdp = garnet(5)
    named = MDP(mdp.transitions, mdp.rewards, 0.9, mdp.start, mdp.terminal, "x[/red]y", None)
    save_mdp(named, tmp_path / "m.npz")
    assert main(["solve", str(tmp_path / "m.npz")]) == 0
    assert "x[/red]y" in capsys.readouterr().out


def test_a_directory_whose_name_is_no_text(tmp_path, capsys):
    place = os.fsdecode(os.fsencode(tmp_path) + b"/name\xff")
    write_run(Path(place) / "run", [1, 2, 3, 4])
    assert main(["report", place]) == 0
    assert (Path(place) / "report" / "report.html").is_file()


CONFIG = cartpole(total_steps=300, eval_every=0)
COUNTED = cartpole(total_steps=300, eval_every=0, callbacks=("own_parts:Counting",))
VECTOR, LOGGED = "agent.env.object.1.dict", "agent.state.dict.logged"
HARM = {
    "another configuration": ("config", "nope"),
    "negative word": ("agent.random.dict.python.tuple.1.tuple.0", -5),
    "object for a list": (f"{VECTOR}.envs", {"dict": {}}),
    "same as nothing": ("agent.action_space", {"same": "nope"}),
    "another row": ("agent.replay.dict.pos", 7),
    "nothing of the environment": (VECTOR, {}),
    "text for a reward": (f"{VECTOR}.envs.0.object.1.dict.rewards", ["x"]),
    "unknown column": (LOGGED, [{"tuple": ["x", 1, 1, {"tuple": []}]}]),
    "text to average": (LOGGED, [{"tuple": ["train/loss", "x", 1, {"tuple": []}]}]),
    "too large for a float": ("agent.state.dict.ep_info_buffer.0.dict.r", 10**400),
    "endless time": ("time/time_elapsed", float("inf")),
    "method of a callback": ("callbacks.0.dict._on_step", 1),
    "nothing of a callback": ("callbacks.0.dict", {}),
    "callback the same as nothing": ("callbacks.0.dict.n_calls", {"same": "nope"}),
}


@pytest.mark.parametrize("name", HARM)
def test_a_checkpoint_changed_on_purpose_is_named_and_the_one_before_it_used(name, tmp_path):
    path, value = HARM[name]
    config = COUNTED if path.startswith("callbacks") else CONFIG
    train(config, tmp_path / "whole")
    crash(config, tmp_path / "broken", 250)
    place = RunDirectory(tmp_path / "broken" / config.name).checkpoints / "step_000000000200"
    tree = json.loads((place / "state.json").read_bytes())
    *path, last = (int(key) if key.isdigit() else key for key in path.split("."))
    reduce(getitem, path, tree)[last] = value
    (place / "state.json").write_text(json.dumps(tree))
    manifest = json.loads((place / "manifest.json").read_bytes())["manifest"]
    manifest["files"]["state.json"] = digest((place / "state.json").read_bytes())
    sha256 = digest(json.dumps(manifest, sort_keys=True).encode())
    (place / "manifest.json").write_text(json.dumps({"manifest": manifest, "sha256": sha256}))
    reporter = Crashing()
    train(config, tmp_path / "broken", reporter)
    assert "step_000000000200 cannot be used" in reporter.said[0]
    assert "continuing at step 100" in reporter.said
    assert_same_run(config, tmp_path / "whole", tmp_path / "broken")
