"""What a run's settings say about time limits, bounds, the step size and checkpoints is done."""

import numpy as np
import pytest
from stable_baselines3 import DQN

from comparing import assert_same_run
from mviq.agents import MVI
from mviq.runs import resolve, session
from mviq.runs.building import check_config, make_agent, make_env
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.directory import RunDirectory
from mviq.runs.records import saved_step
from mviq.runs.training import train
from small_runs import COMMON, Crashing, cartpole, crash

LIMIT = 200  # steps of an episode of MountainCar, which no random agent ends earlier


def mountain_car(**changes):
    return resolve("MountainCar-v0", **COMMON | changes)


@pytest.mark.parametrize("n_steps", [1, 3])
@pytest.mark.parametrize("time_limit", ["bootstrap", "terminal"])
def test_an_episode_cut_off_by_its_time_limit_is_stored_as_the_run_says(time_limit, n_steps):
    config = mountain_car(time_limit=time_limit, n_steps=n_steps, learning_starts=LIMIT)
    agent = make_agent(config, make_env(config, 1, config.seed, evaluation=False))
    agent.learn(LIMIT + 2)
    sampled = agent.replay_buffer._get_samples(np.array([LIMIT - 1]))
    assert sampled.dones.item() == (time_limit == "terminal")


@pytest.mark.parametrize("handled", [True, False])
def test_in_python_it_is_the_argument_that_stable_baselines_has(handled):
    ends = []
    for cls in (DQN, MVI):
        stored = {"handle_timeout_termination": handled}
        agent = cls("MlpPolicy", "MountainCar-v0", replay_buffer_kwargs=stored, seed=0)
        agent.learn(LIMIT + 2)
        ends.append(agent.replay_buffer._get_samples(np.array([LIMIT - 1])).dones.item())
    assert ends == [not handled, not handled]


def test_bounds_that_do_not_fit_the_observations_are_refused_before_the_run():
    with pytest.raises(ValueError, match=r"must be none, space, or 2 numbers .* got 4"):
        check_config(resolve("MountainCar-v0", preset="gym"))
    with pytest.raises(ValueError, match="must be none for network minatar"):
        check_config(resolve("MinAtar/Breakout-v1", observation_bounds="space"))


def test_discrete_observations_have_as_many_bounds_as_values():
    with pytest.raises(ValueError, match=r"must be none, space, or 16 numbers .* got 1"):
        check_config(resolve("FrozenLake-v1", observation_bounds=(1.0,)))
    check_config(resolve("FrozenLake-v1", observation_bounds=(1.0,) * 16))


def test_a_run_of_another_version_is_refused_by_name(tmp_path):
    config = cartpole(total_steps=150)
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    text = directory.config_file.read_text()
    directory.config_file.write_text(text.replace("time_limit: terminal\n", ""))
    with pytest.raises(ValueError, match=r"does not say time_limit: it is damaged, or of another"):
        directory.config()


def test_the_step_size_falls_linearly_to_its_end():
    config = cartpole(learning_rate=1e-3, learning_rate_end=0.0)
    agent = make_agent(config, make_env(config, 1, config.seed, evaluation=False))
    assert [agent.lr_schedule(left) for left in (1.0, 0.5, 0.0)] == [1e-3, 5e-4, 0.0]
    agent.learn(config.total_steps)
    (group,) = agent.policy.optimizer.param_groups
    assert 0 <= group["lr"] <= 1e-3 * config.train_every / config.total_steps


def test_a_checkpoint_is_due_after_a_minute_of_work(tmp_path, monkeypatch):
    """The clock of this session moves by a second whenever it is looked at."""
    clock = iter(range(10**9))
    monkeypatch.setattr(session.time, "monotonic", lambda: float(next(clock)))
    config = cartpole(checkpoint_every=None)
    said = crash(config, tmp_path, 600)
    saved = saved_step(RunDirectory(tmp_path / config.name))
    assert 600 - 2 * session.CHECKPOINT_SECONDS * config.train_every < saved <= 600
    assert not any("checkpoint" in text for text in said)
    monkeypatch.undo()
    train(config, tmp_path)
    train(config, tmp_path / "whole")
    assert_same_run(config, tmp_path / "whole", tmp_path)


def test_checkpoints_that_take_long_are_made_less_often(tmp_path, monkeypatch):
    made = []
    write = Checkpoints.write
    monkeypatch.setattr(
        Checkpoints, "write", lambda self, *parts: (made.append(parts), write(self, *parts))
    )
    clock = iter(range(10**9))
    monkeypatch.setattr(session.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(session, "CHECKPOINT_SECONDS", 10.0)
    for costly, fewest, most in ((0, 15, 25), (100, 1, 3)):
        made.clear()
        monkeypatch.setattr(session, "COSTLY", costly)
        config = cartpole(checkpoint_every=None, keep_checkpoint=False, seed=costly)
        train(config, tmp_path)
        assert fewest <= len(made) <= most


def test_a_run_that_begins_again_for_want_of_a_checkpoint_says_so(tmp_path):
    config = cartpole(checkpoint_every=None)
    assert not any("checkpoint" in text for text in crash(config, tmp_path, 400))
    again = Crashing()
    train(config, tmp_path, again)
    assert "there is no checkpoint yet: beginning again at step 0" in again.said
