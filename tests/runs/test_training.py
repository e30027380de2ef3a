"""One run as a person meets it: files, evaluation, tracking, divergence."""

import io
import json
import os
import re
import weakref
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from comparing import assert_same_checkpoint
from mviq import progress
from mviq.runs import resolve, video
from mviq.runs.building import load_trained_agent, make_env
from mviq.runs.directory import RunDirectory, RunError
from mviq.runs.evaluation import Episode, evaluate
from mviq.runs.reporter import DisplayReporter
from mviq.runs.tables import METRICS, read_rows
from mviq.runs.training import train
from mviq.runs.video import film
from small_runs import cartpole, crash, minatar


def weights(root, config):
    return load_trained_agent(config, RunDirectory(root / config.name).model).policy.state_dict()


@pytest.mark.parametrize("make", [cartpole, minatar])
def test_evaluation_does_not_disturb_training(make, tmp_path):
    """With evaluation or without: the same weights, and every generator in the same state."""
    with_it, without = make(eval_every=100, acting="sample"), make(eval_every=0, acting="sample")
    for config in (with_it, without):
        train(config, tmp_path)
    a, b = weights(tmp_path, with_it), weights(tmp_path, without)
    assert all(torch.equal(a[name], b[name]) for name in a)
    states = []
    for config in (with_it, without):
        place = RunDirectory(tmp_path / config.name).checkpoints
        tree = json.loads((sorted(place.glob("step_*"))[-1] / "state.json").read_text())
        states.append((tree["agent"]["random"], tree["agent"]["action_space"]))
    assert states[0] == states[1]


def test_the_files_of_a_run(tmp_path):
    config = cartpole(track="tensorboard", keep_checkpoint=False)
    assert train(config, tmp_path).status == "finished"
    directory = RunDirectory(tmp_path / config.name)
    assert directory.config() == config
    system = json.loads(directory.system_file.read_text())
    assert system["versions"]["torch"]
    if (Path(__file__).parents[2] / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", system["commit"])
    rows = read_rows(directory.progress)
    assert {"train/loss", "tsallis/entropy", "tsallis/residual"} <= set().union(*rows)
    assert {"time/total_timesteps", "rollout/ep_rew_mean", "train/loss"} <= rows[-1].keys()
    assert set().union(*rows) <= METRICS.keys()
    assert list(directory.tensorboard.glob("events.*"))
    evaluations = read_rows(directory.evaluations)
    assert [float(row["length"]) for row in evaluations] == [
        float(row["return"]) for row in evaluations
    ]  # CartPole pays 1 per step


def test_evaluations_can_be_repeated_from_the_model(tmp_path):
    from mviq.runs.evaluation import seed_of

    config = cartpole()
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    agent = load_trained_agent(config, directory.model)
    again = evaluate(agent, config, config.eval_episodes, seed_of(config.seed, 1000))
    stored = [r for r in read_rows(directory.evaluations) if r["step"] == "1000"]
    assert [episode.total for episode in again] == [float(row["return"]) for row in stored]


def test_tensorboard_shows_progress_without_repeats_after_a_crash(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    callbacks = ("own_parts:Counting",)
    config = cartpole(track="tensorboard", total_steps=600, callbacks=callbacks)
    crash(config, tmp_path, 350)
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    events = EventAccumulator(str(directory.tensorboard))
    events.Reload()
    own = [event.step for event in events.Scalars("own/ends")]
    assert own == [int(row["step"]) for row in read_rows(directory.own_metrics)]
    shown = [(event.step, event.value) for event in events.Scalars("train/q_values")]
    rows = [row for row in read_rows(directory.progress) if "train/q_values" in row]
    assert [step for step, _ in shown] == [int(row["time/total_timesteps"]) for row in rows]
    expected = [np.float32(row["train/q_values"]) for row in rows]
    assert [value for _, value in shown] == expected


def test_a_finished_run_is_left_alone(tmp_path):
    config = cartpole(total_steps=300)
    first = train(config, tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != ".lock"}
    assert train(config, tmp_path) == first
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*") if p.name != ".lock"} == before


def test_divergence_is_a_result_and_not_tried_again(tmp_path):
    config = cartpole(value_limit=1e-3)
    result = train(config, tmp_path)
    assert result.status == "diverged"
    assert "learning diverged at step" in result.message
    assert train(config, tmp_path) == result


@pytest.mark.parametrize(
    ("config", "suffix"), [(cartpole(), "mp4"), (minatar(), "gif")], ids=["cartpole", "minatar"]
)
def test_films(config, suffix, tmp_path):
    from mviq.runs.building import make_agent

    agent = make_agent(config, make_env(config, 1, 0, evaluation=False))
    file = tmp_path / f"film.{suffix}"
    episode = film(agent, config, 3, file)
    assert episode.length >= 1
    assert (b"GIF89a" if suffix == "gif" else b"ftyp") in file.read_bytes()[:12]
    assert [episode] == evaluate(agent, config, 1, 3)
    with pytest.raises(ValueError, match=r"must be named \.mp4 or \.gif"):
        film(agent, config, 3, tmp_path / "film.avi")


def test_a_film_is_written_picture_by_picture(tmp_path, monkeypatch):
    """A long episode in large pictures would not fit into memory."""
    drawn, most = [], []

    def play(*arguments):
        for step in range(50):
            picture = np.full((16, 16, 3), step, np.uint8)
            drawn.append(weakref.ref(picture))
            most.append(sum(reference() is not None for reference in drawn))
            yield picture, Episode(float(step), step)

    monkeypatch.setattr(video, "play", play)
    assert film(None, None, 0, tmp_path / "film.mp4") == Episode(49.0, 49)
    assert max(most) < 5


def test_a_film_that_cannot_be_written_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    pictures = (np.zeros((16, 16, 3), np.uint8) for _ in range(3))
    monkeypatch.setattr(video, "play", lambda *_: ((picture, None) for picture in pictures))
    monkeypatch.setattr(video, "appearing", lambda path: nullcontext(tmp_path / "no" / "a.mp4"))
    with pytest.raises(OSError, match="No such file or directory"):
        film(None, None, 0, tmp_path / "film.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="runs a shell script")
def test_the_cause_is_told_if_the_encoder_ends_early(tmp_path, monkeypatch):
    """Small pictures wait in a buffer, which cannot be flushed any more."""
    encoder = tmp_path / "encoder"
    encoder.write_text("#!/bin/sh\necho '[out @ 0x1] No space left on device' >&2\nexit 1\n")
    encoder.chmod(0o755)
    pictures = (np.zeros((16, 16, 3), np.uint8) for _ in range(1000))
    monkeypatch.setattr(video, "play", lambda *_: ((picture, None) for picture in pictures))
    monkeypatch.setattr("imageio_ffmpeg.get_ffmpeg_exe", lambda: str(encoder))
    with pytest.raises(OSError, match="No space left on device"):
        film(None, None, 0, tmp_path / "film.mp4")


@pytest.mark.filterwarnings("ignore:.*render_mode")  # Gymnasium's
def test_an_environment_without_pictures_cannot_be_filmed(tmp_path):
    config = resolve("own_parts:Parts-v0", n_steps=1)
    with pytest.raises(RunError, match="Parts-v0 cannot be filmed: it has no render_mode rgb_arr"):
        film(None, config, 0, tmp_path / "film.gif")
    assert list(tmp_path.iterdir()) == []


def test_filming_does_not_disturb_training(tmp_path):
    filmed, plain = (cartpole(total_steps=500, video=video) for video in (True, False))
    train(filmed, tmp_path / "filmed")
    train(plain, tmp_path / "plain")
    assert len(list((tmp_path / "filmed" / filmed.name / "videos").glob("*.mp4"))) == 2
    a, b = (RunDirectory(tmp_path / kind / plain.name) for kind in ("filmed", "plain"))
    assert_same_checkpoint(a, b)


def test_a_bar_on_a_terminal_shows_return_speed_and_time_left(monkeypatch):
    screen = io.StringIO()
    bar = DisplayReporter(Console(file=screen, force_terminal=True, width=100))
    bar.start(0, 1000)
    bar.update(396, 12.0)
    bar.update(400, 12.5)
    bar.say("step 400: evaluation 13.0")
    bar.stop()
    shown = screen.getvalue()
    for part in ("400/1,000 steps", "return 12.5", "steps/s", "left", "evaluation 13.0"):
        assert part in shown


def test_no_time_is_left_after_the_last_step(monkeypatch):
    """The last rollout of many environments ends after it."""
    clock = iter((0.0, 60.0))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    log = io.StringIO()
    lines = DisplayReporter(Console(file=log))
    lines.start(0, 1000)
    lines.update(1060, 9.25)
    assert log.getvalue() == "step 1060/1000, return 9.2, 18 steps/s, 0 s left\n"


def test_a_log_file_gets_plain_lines_now_and_then(monkeypatch):
    clock = iter(float(seconds) for seconds in range(0, 1000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    log = io.StringIO()
    lines = DisplayReporter(Console(file=log))
    lines.start(0, 1000)
    for step in range(100, 500, 100):
        lines.update(step, 9.25)
    assert log.getvalue().splitlines() == [
        "step 200/1000, return 9.2, 5 steps/s, 2 min left",
        "step 400/1000, return 9.2, 5 steps/s, 2 min left",
    ]
