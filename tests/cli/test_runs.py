"""``mviq train``, ``resume``, ``evaluate`` and ``watch`` as they are typed."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import yaml
from gymnasium.error import DependencyNotInstalled

from mviq.cli.main import main
from mviq.runs.directory import RunDirectory
from mviq.runs.training import train
from small_runs import COMMON, cartpole

SMALL = [
    part
    for name, value in COMMON.items()
    if name != "keep_checkpoint"
    for part in (f"--{name.replace('_', '-')}", "16" if name == "hidden" else str(value))
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    config = cartpole(total_steps=300)
    train(config, root)
    return root / config.name


def test_train_then_the_same_command_again(tmp_path, capsys):
    command = ["train", "CartPole-v1", "--q", "3", "--seed", "2", "--out", str(tmp_path), *SMALL]
    assert main(command) == 0
    shown = capsys.readouterr()
    (place,) = tmp_path.iterdir()
    assert place.name.startswith("CartPole-v1_mvi_q3_seed2_")
    assert shown.out == f"finished after 1000 steps: {place}\n"
    assert "step 252: evaluation" in shown.err
    assert "\x1b" not in shown.err  # plain, since this is no terminal
    assert main([*command, "--quiet"]) == 0
    shown = capsys.readouterr()
    assert shown.out == f"already finished after 1000 steps: {place}\n"
    assert shown.err == ""


def test_settings_come_from_preset_then_file_then_command_line(tmp_path, capsys):
    file = tmp_path / "settings.toml"
    file.write_text("q = 3.0\ngamma = 0.9\n")
    command = ["train", "CartPole-v1", "--config", str(file), "--q", "4", "--explain"]
    assert main(command) == 0
    text = capsys.readouterr().out
    assert "q: 4.0\n" in text
    assert "gamma: 0.9\n" in text
    assert "# transitions of one update (Table 1 of the paper)\nbatch_size: 128\n" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "CartPol-v1"], "there is no environment 'CartPol-v1'; did you mean CartPole-v1"),
        (["train", "CartPole-v1", "--q", "0.5"], "q must be at least 1"),
        (["train", "CartPole-v1", "--batch-size", "1e6"], "batch_size must be at most buffer_size"),
        (["train", "CartPole-v1", "--target-every", "0"], "target_every must be at least 1"),
        (["train", "CartPole-v1", "--device", "tpu0"], "device must be auto, cpu, cuda or cuda:N"),
        (["train", "CartPole-v1", "--device", "meta"], "device must be auto, cpu, cuda or cuda:N"),
        (["train", "CartPole-v1", "--buffer-size", "1e15"], "no room for buffer_size = 1000000000"),
        (["train", "CartPole-v1", "--hidden", "1e12"], "no room for buffer_size = 50000 and hid"),
        (["train"], "which environment? Say its Gymnasium id"),
        (["train", "CartPole-v1", "--device", "cuda:99"], "device cuda:99 is not there"),
        (["train", "CartPole-v1", "--out", "/dev/null/runs"], "cannot use /dev/null/runs"),
        (["train", "Pendulum-v1"], "Pendulum-v1 must have discrete actions"),
        (["train", "CartPole-v1", "--protocol", "machado"], "protocol and backend are for Atari"),
        (["train", "CartPole-v1", "--network", "nature"], "network nature needs pictures"),
        (["train", "CartPole-v1", "--config", "no.yaml"], "there is no file no.yaml"),
        (["train", "CartPole-v1", "--preset", "no"], "preset must be one of gym,"),
        (["resume", "nowhere"], "there is no run nowhere"),
        (["evaluate", "nowhere"], "there is no run nowhere"),
        (["evaluate", "nowhere", "--seed", "-1"], "--seed must be between 0 and 2147483548, got"),
        (["watch", "nowhere"], "there is no run nowhere"),
    ],
)
def test_mistakes_are_one_line_before_work_starts(
    arguments, message, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_the_environment_may_stand_in_the_file(finished, capsys):
    command = ["train", "--config", str(finished / "config.yaml"), "--explain"]
    assert main([*command, "--seed", "4"]) == 0
    text = capsys.readouterr().out
    assert "env: CartPole-v1\n" in text
    assert "seed: 4\n" in text
    assert "hidden: [16]\n" in text


def test_an_environment_that_cannot_be_made_is_one_line(tmp_path, monkeypatch, capsys):
    def missing(*arguments, **options):
        raise DependencyNotInstalled("Box2D is\nnot installed")

    monkeypatch.setattr("mviq.envs.make", missing)
    assert main(["train", "LunarLander-v3", "--out", str(tmp_path)]) == 2
    assert "LunarLander-v3 cannot be made: Box2D is not installed" in capsys.readouterr().err


def test_a_missing_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr("mviq.envs.ids.find_spec", lambda name: None)
    assert main(["train", "MinAtar/Breakout-v1"]) == 2
    assert "pip install 'mviq[minatar]'" in capsys.readouterr().err


def test_a_run_at_work_is_left_alone(tmp_path, capsys):
    config = cartpole()
    directory = RunDirectory(tmp_path / config.name)
    directory.path.mkdir()
    directory.settle(config)
    with directory.locked():
        assert main(["resume", str(directory.path)]) == 2
    assert "another process is working on" in capsys.readouterr().err


def test_evaluate_prints_a_table_and_json(finished, capsys):
    assert main(["evaluate", str(finished), "--episodes", "12"]) == 0
    assert "12 episodes" in capsys.readouterr().out
    assert main(["evaluate", str(finished), "--episodes", "12", "--json", "--model", "best"]) == 0
    found = json.loads(capsys.readouterr().out)
    for way in ("greedy", "policy"):
        returns = found[way]["returns"]
        assert len(returns) == len(found[way]["lengths"]) == 12
        assert found[way]["mean"] == pytest.approx(sum(returns) / 12)
        assert found[way]["low"] <= found[way]["mean"] <= found[way]["high"]
    assert main(["evaluate", str(finished), "--episodes", "0"]) == 2


def test_watch_films_where_there_is_no_screen(finished, tmp_path, monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert main(["watch", str(finished), "--seed", "5"]) == 0
    assert (finished / "videos" / "watch_5.mp4").stat().st_size > 0
    assert main(["watch", str(finished), "--film", str(tmp_path / "it.gif"), "--policy"]) == 0
    assert (tmp_path / "it.gif").stat().st_size > 0
    assert main(["watch", str(finished), "--film", str(tmp_path / "it.avi")]) == 2
    assert "must be named .mp4 or .gif" in capsys.readouterr().err


def test_watch_shows_a_window_where_there_is_a_screen(finished, monkeypatch, capsys):
    import pygame

    captions = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setattr(
        pygame.display, "flip", lambda: captions.append(pygame.display.get_caption())
    )
    assert main(["watch", str(finished)]) == 0
    assert len(captions) >= 8  # CartPole cannot end sooner
    assert "CartPole-v1: return 7, step 7" in captions[7]
    assert capsys.readouterr().out.startswith("return ")


def test_a_window_that_cannot_be_opened_is_one_line(finished, monkeypatch, capsys):
    monkeypatch.setenv("DISPLAY", ":7654")
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    assert main(["watch", str(finished)]) == 2
    assert "no window can be opened" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_ctrl_c_says_how_to_go_on(tmp_path):
    command = [sys.executable, "-m", "mviq", "train", "CartPole-v1", "--out", str(tmp_path), *SMALL]
    command += ["--total-steps", "100000", "--eval-every", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not list(tmp_path.glob("*/checkpoints/step_*")):
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = (text.decode() for text in process.communicate())
    assert process.returncode == 130
    assert "continue with: mviq resume" in out
    assert "Traceback" not in err


def test_a_clip_is_given_as_its_help_says(capsys):
    for text, clip in (("-1,1", "[-1.0, 1.0]"), ("-Inf,0", "[-.inf, 0.0]"), ("none", "null")):
        assert main(["train", "CartPole-v1", "--clip", text, "--explain"]) == 0
        assert f"(given)\nclip: {clip}\n" in capsys.readouterr().out


def test_an_exported_folder_has_the_agent_its_scores_and_a_film(finished, tmp_path, capsys):
    out = tmp_path / "folder"
    command = ["export", str(finished), "--out", str(out), "--episodes", "3"]
    assert main(command) == 0
    assert str(out) in capsys.readouterr().out
    tables = {"config.yaml", "evaluations.csv", "progress.csv", "scores.json"}
    assert {path.name for path in out.iterdir()} == {
        "README.md",
        "model.zip",
        "replay.mp4",
        *tables,
    }
    assert (out / "model.zip").read_bytes() == (finished / "model.zip").read_bytes()
    _, header, text = (out / "README.md").read_text().split("---\n", 2)
    (result,) = yaml.safe_load(header)["model-index"][0]["results"]
    mean = json.loads((out / "scores.json").read_text())["mean"]
    assert result["metrics"][0]["value"].startswith(f"{mean:.2f} +/- ")
    assert (result["dataset"]["name"], f"**{mean:.2f}**" in text) == ("CartPole-v1", True)
    assert "| `total_steps` | 300 |" in text
    (out / "model.zip").write_bytes(b"mine")
    assert main([*command, "--no-film"]) == 2
    assert "model.zip exists with other content; use --force" in capsys.readouterr().err
