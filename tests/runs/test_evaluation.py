"""Evaluation: raw returns of whole episodes, as many steps as they have and no more."""

import math

import numpy as np
import pytest
import torch

from mviq.agents import MVI
from mviq.cli.evaluate import return_statistics
from mviq.runs import evaluation
from mviq.runs.building import load_trained_agent, make_agent, make_env
from mviq.runs.evaluation import Episode, evaluate
from small_runs import atari, cartpole


@pytest.fixture
def agent():
    return make_agent(cartpole(), make_env(cartpole(), 1, 0, evaluation=False))


def test_the_policy_is_sampled_with_a_generator_of_its_own():
    config = cartpole(temperature=100.0)
    agent = MVI("MlpPolicy", make_env(config, 1, 0, evaluation=False), temperature=100.0, seed=0)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    returns = [evaluate(agent, config, 4, seed, "policy") for seed in (1, 1, 2)]
    assert returns[0] == returns[1] != returns[2]
    assert torch.equal(torch.get_rng_state(), before)


def test_what_is_over_is_not_stepped_on(agent, monkeypatch):
    taken = []

    def counting(env, actions):
        taken.append(len(actions))
        return original(env, actions)

    original = evaluation.step
    monkeypatch.setattr(evaluation, "step", counting)
    episodes = evaluate(agent, cartpole(), 25, 0, "policy")
    assert len(episodes) == 25
    assert len({episode.length for episode in episodes}) > 1
    assert sum(taken) == sum(episode.length for episode in episodes)


def test_an_episode_without_end_is_cut_off(agent, monkeypatch):
    monkeypatch.setattr(evaluation, "LONGEST", 5)
    assert evaluate(agent, cartpole(), 3, 0) == [Episode(5.0, 5)] * 3


def test_who_watches_is_told_and_may_give_up(agent):
    told = []
    evaluate(agent, cartpole(), 12, 0, tell=told.append)
    assert told == sorted(told)
    assert told[-1] == 12

    def enough(finished):
        raise StopIteration

    before = torch.get_rng_state()
    with pytest.raises(StopIteration):
        evaluate(agent, cartpole(), 3, 0, tell=enough)
    assert torch.equal(torch.get_rng_state(), before)


def test_threads_are_those_of_the_run(agent, monkeypatch):
    """Sums depend on their number in the last bits, and so may a close choice."""
    used = set()
    evaluate(agent, cartpole(threads=2), 1, 0, tell=lambda _: used.add(torch.get_num_threads()))
    assert used == {2}
    assert torch.get_num_threads() == 1


def test_an_agent_that_only_acts_has_no_room_for_replay(agent, tmp_path):
    agent.save(tmp_path / "model.zip")
    loaded = load_trained_agent(cartpole(), tmp_path / "model.zip")
    assert loaded.replay_buffer.buffer_size == 1
    assert evaluate(loaded, cartpole(), 3, 0) == evaluate(agent, cartpole(), 3, 0)


def test_atari_scores_are_raw_and_games_whole():
    config = atari("Pong")
    env = make_env(config, 1, seed=0, evaluation=True)
    env.reset()
    done, total = False, 0.0
    while not done:
        _, rewards, dones, infos = env.step(np.array([0]))
        done, total = bool(dones[0]), total + float(rewards[0])
    assert total == infos[0]["episode"]["r"] == -21  # a game of Pong lost by standing still


def test_intervals():
    values = np.random.default_rng(0).normal(5.0, 2.0, 400)
    found = return_statistics([Episode(value, 1) for value in values])
    mean, low, high = found["mean"], found["low"], found["high"]
    assert mean == pytest.approx(values.mean())
    half = 1.96 * values.std() / 20
    assert (low, high) == pytest.approx((mean - half, mean + half), abs=0.03)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_return_that_is_no_number_is_not_left_out_of_the_mean(bad):
    found = return_statistics([Episode(value, 1) for value in (1.0, bad, 2.0)])
    assert math.isnan(found["mean"])
    assert (found["low"], found["high"]) == (None, None)
