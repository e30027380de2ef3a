"""Environments by id: seeded, vectorised, by protocol; and what is said when there is none."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.vec_env import DummyVecEnv

from mviq import envs
from mviq.agents import MVI, QRMVI, FrameReplayBuffer, MinAtarCNN
from mviq.env_families import MINATAR_GAMES, STEP_LIMIT
from mviq.envs.atari import AtariVecEnv


def play(env, steps, seed=0):
    rng = np.random.default_rng(seed)
    first = env.reset()
    seen = [env.step(rng.integers(env.action_space.n, size=env.num_envs)) for _ in range(steps)]
    return first, seen


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a[:3], b[:3], strict=True))


@pytest.mark.parametrize(
    ("env_id", "options"),
    [
        ("CartPole-v1", {}),
        ("Acrobot-v1", {}),
        ("MinAtar/Breakout-v1", {}),
        ("MinAtar/SpaceInvaders-v1", {}),
        ("ALE/Breakout-v5", {"protocol": "machado"}),
        ("ALE/Breakout-v5", {"protocol": "sb3"}),
    ],
)
def test_same_seed_same_play(env_id, options):
    runs = [play(envs.make(env_id, 2, seed=s, **options), 60) for s in (0, 0, 1)]
    assert np.array_equal(runs[0][0], runs[1][0])
    assert all(same(a, b) for a, b in zip(runs[0][1], runs[1][1], strict=True))
    assert not all(same(a, b) for a, b in zip(runs[0][1], runs[2][1], strict=True))
    observations = np.stack([observation for observation, *_ in runs[0][1]])
    assert (observations[:, 0] != observations[:, 1]).any()  # two environments, not one twice


@pytest.mark.parametrize("protocol", ["machado", "sb3"])
def test_the_largest_seed_is_one_of_atari_too(protocol):
    assert envs.make("ALE/Breakout-v5", 2, seed=2**31 - 1, protocol=protocol).reset().any()


@pytest.mark.parametrize("name", MINATAR_GAMES)
def test_minatar_games(name):
    env_id = f"MinAtar/{name}-v1"
    assert env_id in envs.known_ids()
    env = gym.make(env_id, render_mode="rgb_array")
    check_env(env.unwrapped, warn=False)  # it warns of planes that are not images
    assert env.spec.max_episode_steps == STEP_LIMIT
    assert env.observation_space.dtype == np.uint8
    env.reset(seed=0)
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 1
    full = gym.make(env_id, minimal_actions=False)
    assert full.action_space.n == 6 >= env.action_space.n


def test_minatar_stops_at_the_step_limit():
    env = gym.make("MinAtar/Freeway-v1", max_episode_steps=7)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]


def test_minatar_is_learnt_with_its_network():
    agent = MVI(
        "CnnPolicy",
        envs.make("MinAtar/Breakout-v1", seed=0),
        policy_kwargs={"features_extractor_class": MinAtarCNN, "net_arch": []},
        buffer_size=500,
        device="cpu",
    )
    assert agent.learn(200).status == "finished"


@pytest.mark.parametrize("cls", [MVI, QRMVI])
def test_the_network_for_boards_is_named(cls):
    with pytest.raises(ValueError, match=r"for MinAtar pass policy_kwargs=.*MinAtarCNN") as caught:
        cls("CnnPolicy", "MinAtar/Breakout-v1", buffer_size=10, device="cpu")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("backend", ["vector", "wrappers"])
@pytest.mark.parametrize("protocol", ["sb3", "machado"])
def test_atari_protocols(protocol, backend):
    env = envs.make("ALE/Breakout-v5", 2, seed=0, protocol=protocol, backend=backend)
    assert env.observation_space.shape == (4, 84, 84)
    first, seen = play(env, 350)
    assert first.shape == (2, 4, 84, 84)
    assert first.dtype == np.uint8
    rewards = np.concatenate([reward for _, reward, _, _ in seen])
    assert set(rewards) <= {0.0, 1.0}
    infos = [info for _, _, _, both in seen for info in both]
    games = [info["episode"] for info in infos if "episode" in info]
    dones = sum(done.sum() for _, _, done, _ in seen)
    assert games
    if protocol == "sb3":
        assert dones >= 4 * len(games)  # five lives, each an episode
    else:
        assert dones == len(games)
    for _, _, done, both in seen:
        assert all(
            ("terminal_observation" in info) == d for d, info in zip(done, both, strict=True)
        )
    env.close()


@pytest.mark.parametrize("protocol", ["sb3", "machado"])
def test_evaluation_is_of_full_games_and_raw_scores(protocol):
    env = envs.make("ALE/SpaceInvaders-v5", 1, seed=0, protocol=protocol, evaluation=True)
    _, seen = play(env, 1200)
    rewards = np.array([reward[0] for _, reward, _, _ in seen])
    assert rewards.max() > 1
    infos = [both[0] for *_, both in seen]
    end = next(i for i, info in enumerate(infos) if "episode" in info)
    assert infos[end]["episode"]["r"] == rewards[: end + 1].sum()
    assert next(i for i, (_, _, done, _) in enumerate(seen) if done[0]) == end


@pytest.mark.parametrize("backend", ["vector", "overlap"])
def test_atari_vec_env_continues_its_frames(backend):
    """Each observation slides by one frame; a lost life ends an episode but not the film."""
    env = envs.make("ALE/Breakout-v5", 2, seed=0, protocol="sb3", backend=backend)
    assert env.overlaps == (backend == "overlap")
    assert isinstance(env, AtariVecEnv)
    last, seen = play(env, 300)
    lives = 0
    for observations, _, dones, infos in seen:
        for i in range(2):
            following = infos[i]["terminal_observation"] if dones[i] else observations[i]
            assert np.array_equal(following[:3], last[i][1:])
            if dones[i] and "episode" not in infos[i]:
                lives += 1
                assert np.array_equal(following, observations[i])
        last = observations
    assert lives > 2
    assert env.get_images()[0].shape == (84, 84, 3)


def test_auto_takes_the_vectoriser_where_it_can_follow_the_protocol():
    assert isinstance(envs.make("ALE/Pong-v5", protocol="machado"), AtariVecEnv)
    assert isinstance(envs.make("PongNoFrameskip-v4", evaluation=True), AtariVecEnv)
    assert not isinstance(envs.make("ALE/Pong-v5", protocol="sb3"), AtariVecEnv)
    assert isinstance(envs.make("CartPole-v1"), DummyVecEnv)


def test_an_atari_agent_learns_from_frames_stored_once():
    agent = QRMVI(
        "CnnPolicy",
        envs.make("ALE/Pong-v5", 2, seed=0, protocol="machado"),
        replay_buffer_class=FrameReplayBuffer,
        replay_buffer_kwargs={"n_steps": 3, "gamma": 0.99},
        buffer_size=400,
        policy_kwargs={"n_quantiles": 8},
        learning_starts=60,
        train_freq=8,
        device="cpu",
    )
    agent.learn(200)
    assert agent._n_updates > 5
    assert agent.replay_buffer.written.max() < 120  # not four frames a step


def test_machado_presses_no_fire_and_sb3_does():
    names = {}
    for protocol in ("machado", "sb3"):
        env = envs.make("ALE/Breakout-v5", protocol=protocol, backend="wrappers")
        single = env.unwrapped.envs[0]
        names[protocol] = str(single)
        env.close()
    assert "FireReset" in names["sb3"]
    assert "FireReset" not in names["machado"]


def test_ctrl_c_while_minatar_is_imported_is_heard():
    """MinAtar's own import catches everything."""
    code = """
import os, signal, sys
from importlib.abc import MetaPathFinder
class Pressing(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "seaborn":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Pressing())
from mviq.envs import make
try:
    make("MinAtar/Breakout-v1")
except KeyboardInterrupt:
    print("heard")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "heard\n", done.stderr
