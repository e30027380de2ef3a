"""A run that was interrupted is, when finished, bit for bit the run that never was."""

import random
import time

import pytest

from comparing import assert_same_run
from mviq.runs import resolve
from mviq.runs.directory import RunDirectory
from mviq.runs.session import Session
from mviq.runs.tables import read_rows
from mviq.runs.training import train
from small_runs import COMMON, Crashing, atari, cartpole, crash, minatar
from victims import train_with_kills

OWN_PARTS = {
    "features_extractor": "own_parts:Squashed",
    "observation_bounds": "none",
    "wrappers": ("own_parts:Noisy",),
    "normalize": "both",
    "callbacks": ("own_parts:Counting",),
    "learning_rate_schedule": "own_parts:halving",
    "q_schedule": "own_parts:falling_q",
}
CONFIGS = {
    "cartpole": cartpole(),
    "cartpole-everything": cartpole(
        n_envs=3, n_steps=3, acting="sample", critic="quantile", n_quantiles=5, q=1.5
    ),
    "mountain-car": resolve(
        "MountainCar-v0",
        **COMMON,
        time_limit="terminal",
        observation_bounds="space",
        learning_rate_end=0.0,
        n_steps=2,
    ),
    "toy-text": resolve("FrozenLake-v1", **COMMON),
    "dictionaries": resolve("own_parts:Parts-v0", **COMMON, n_steps=1),
    "box2d": resolve("LunarLander-v3", **COMMON, n_envs=2, n_steps=3),
    "box2d-own-wrapper": resolve("LunarLander-v3", **COMMON, wrappers=("own_parts:Noisy",)),
    "own-parts": cartpole(**OWN_PARTS),
    "numbers-set-by-a-callback": cartpole(
        callbacks=("own_parts:Sharpening",), q_schedule="own_parts:falling_q"
    ),
    "score-at-the-end": resolve("own_parts:Scoring-v0", **COMMON, wrappers=("own_parts:Scored",)),
    "normalized-dictionaries": resolve(
        "own_parts:Parts-v0",
        **COMMON,
        n_steps=1,
        normalize="observations",
        observation_bounds="none",
    ),
    "minatar": minatar(),
    "minatar-seaquest": minatar(
        "Seaquest",
        eval_every=0,
        n_steps=2,
        critic="implicit",
        head="dueling",
        fractions=(4, 8),
        prioritized_replay=(0.5, 0.4),
        total_steps=400,
    ),
    "atari-sb3": atari("Breakout"),
    "atari-machado": atari(
        "Pong", protocol="machado", n_envs=2, n_steps=2, prioritized_replay=(0.5, 0.4)
    ),
}
KILLED = {  # long enough to be alive whenever the moment comes
    "cartpole": cartpole(total_steps=3000),
    "minatar": minatar(total_steps=1500),
    "atari": atari(total_steps=320),
}


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_crashes_leave_no_trace(config, tmp_path):
    train(config, tmp_path / "whole")
    for at in sorted(random.Random(0).sample(range(config.total_steps), 4)):
        crash(config, tmp_path / "broken", at)
    train(config, tmp_path / "broken")
    assert_same_run(config, tmp_path / "whole", tmp_path / "broken")


@pytest.mark.parametrize("config", KILLED.values(), ids=KILLED)
def test_kill_minus_nine_at_random_moments_leaves_no_trace(config, tmp_path):
    train(config, tmp_path / "whole")
    places = train_with_kills(config, tmp_path / "killed", 5, seed=1)
    assert len(places) >= 2
    assert_same_run(config, tmp_path / "whole", tmp_path / "killed")


def test_how_often_is_saved_changes_nothing(tmp_path):
    often, seldom = cartpole(checkpoint_every=20), cartpole(checkpoint_every=5000)
    assert often.name == seldom.name
    for config, root in ((often, tmp_path / "often"), (seldom, tmp_path / "seldom")):
        train(config, root)
    assert_same_run(often, tmp_path / "often", tmp_path / "seldom")


def test_another_seed_is_another_run(tmp_path):
    train(cartpole(seed=0), tmp_path)
    train(cartpole(seed=1), tmp_path)
    tables = [p.read_bytes() for p in tmp_path.glob("*/progress.csv")]
    assert len(set(tables)) == 2


def test_rows_have_no_gaps_and_no_repeats(tmp_path):
    config = cartpole()
    for at in (130, 410, 777):
        crash(config, tmp_path, at)
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    steps = [int(row["time/total_timesteps"]) for row in read_rows(directory.progress)]
    assert steps == sorted({*range(100, 1001, 100), 252, 752})  # rows, and evaluations
    evaluated = [(int(r["step"]), int(r["episode"])) for r in read_rows(directory.evaluations)]
    assert evaluated == [(step, i) for step in (252, 500, 752, 1000) for i in (0, 1)]


def test_the_time_a_run_took_goes_on_when_it_is_resumed(tmp_path, monkeypatch):
    def long_ago(session):
        session.agent.start_time = time.time_ns() - 10**12

    config = cartpole()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "_on_training_start", long_ago)
        crash(config, tmp_path, 777)
    train(config, tmp_path)
    rows = read_rows(RunDirectory(tmp_path / config.name).timing)
    assert all(float(row["time/time_elapsed"]) >= 1000 for row in rows)


@pytest.mark.parametrize("backend", ["vector", "overlap"])
def test_where_an_environment_hides_its_state_a_new_episode_begins(backend, tmp_path):
    config = atari("Pong", protocol="machado", backend=backend, total_steps=120)
    crash(config, tmp_path, 90)
    reporter = Crashing()
    result = train(config, tmp_path, reporter)
    assert result.status == "finished"
    assert "the environment cannot give its state: starting a new episode here" in reporter.said


def test_where_a_new_episode_begins_the_statistics_of_observations_stay(tmp_path, monkeypatch):
    config = resolve(
        "own_parts:Fickle-v0", **COMMON, normalize="observations", observation_bounds="none"
    )
    crash(config, tmp_path, 700)
    counts, resumed = [], Session._continue_from

    def look(session, checkpoint):
        resumed(session, checkpoint)
        counts.append(session.agent.get_vec_normalize_env().obs_rms.count)

    monkeypatch.setattr(Session, "_continue_from", look)
    reporter = Crashing()
    train(config, tmp_path, reporter)
    assert "the environment cannot give its state: starting a new episode here" in reporter.said
    assert counts == [pytest.approx(702, abs=0.1)]  # of 700 steps, and two resets


@pytest.mark.parametrize("n_steps", [1, 2])
def test_the_mark_of_a_cut_off_episode_goes_with_its_transition(n_steps, tmp_path, monkeypatch):
    changes = {"time_limit": "terminal", "n_steps": n_steps, "buffer_size": 100}
    config = resolve("own_parts:Fickle-v0", **COMMON | changes)
    crash(config, tmp_path, 700)
    timeouts, ended = [], Session._ended

    def look(session, result):
        timeouts.append(session.agent.replay_buffer.timeouts.sum())
        return ended(session, result)

    monkeypatch.setattr(Session, "_ended", look)
    train(config, tmp_path)
    assert timeouts == [0]
