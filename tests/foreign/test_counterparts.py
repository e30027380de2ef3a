"""What the test suites of Stable-Baselines3 and sb3-contrib state of DQN and QRDQN, in our words.

Every statement is made of four classes: theirs, so that it is theirs, and ours. What ours do
differently on purpose stands in docs/sb3.md.
"""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.callbacks import (
    CallbackList,
    EvalCallback,
    StopTrainingOnMaxEpisodes,
    StopTrainingOnRewardThreshold,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv, FakeImageEnv, IdentityEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import nn

from mviq.agents import MVI, QRMVI
from problems import Observed

CLASSES = pytest.mark.parametrize("cls", [DQN, MVI, QRDQN, QRMVI])
SMALL = {"learning_starts": 20, "buffer_size": 400, "batch_size": 16, "seed": 0, "device": "cpu"}


def made(cls, env="CartPole-v1", policy="MlpPolicy", **options):
    """Return a small agent; ``policy_kwargs`` are added to a small network."""
    network = {"net_arch": [16], **options.pop("policy_kwargs", {})}
    if issubclass(cls, QRDQN):
        network = {"n_quantiles": 5, **network}
    return cls(policy, env, policy_kwargs=network, **{**SMALL, **options})


def weights(agent):
    return torch.cat([weight.detach().flatten() for weight in agent.policy.parameters()])


@CLASSES
def test_the_identity_is_learnt(cls):
    env = DummyVecEnv([lambda: Monitor(IdentityEnv(2, ep_length=20))])
    options = {"learning_rate": 5e-3, "gamma": 0.4, "train_freq": 2, "target_update_interval": 10}
    agent = made(cls, env, **options).learn(500)
    assert evaluate_policy(agent, env, 2)[0] > 18
    seen = env.reset()
    assert agent.predict(seen)[0].shape == seen.shape


@CLASSES
def test_training_is_deterministic(cls):
    env = DummyVecEnv([lambda: Monitor(IdentityEnv(3))])
    first, second, other = (made(cls, env, seed=seed).learn(120) for seed in (1, 1, 2))
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))
    assert np.array_equal(first.replay_buffer.rewards, second.replay_buffer.rewards)


@CLASSES
def test_a_loaded_agent_acts_and_learns_like_the_saved_one(cls, tmp_path):
    env = gym.make("CartPole-v1")
    agent = made(cls, env).learn(60)
    seen = np.stack([env.observation_space.sample().clip(-9, 9) for _ in range(10)])
    agent.save(tmp_path / "agent")
    for place in (tmp_path / "agent", str(tmp_path / "agent.zip")):
        again = cls.load(place, env=gym.make("CartPole-v1"))
        assert torch.equal(weights(again), weights(agent))
        actions = [x.predict(seen, deterministic=True)[0] for x in (agent, again)]
        assert np.array_equal(*actions)
    assert again.learn(40).num_timesteps == 40
    assert again.learn(40, reset_num_timesteps=False).num_timesteps == 80


@CLASSES
def test_an_environment_of_other_spaces_is_refused(cls, tmp_path):
    made(cls).save(tmp_path / "agent")
    with pytest.raises(ValueError, match="spaces do not match"):
        cls.load(tmp_path / "agent", env=gym.make("Acrobot-v1"))
    with pytest.raises(ValueError, match="spaces do not match"):
        made(cls).set_env(gym.make("Acrobot-v1"))


@CLASSES
def test_callbacks_in_lists_stop_what_they_are_to_stop(cls, tmp_path):
    env = Monitor(gym.make("CartPole-v1"))
    enough = StopTrainingOnRewardThreshold(reward_threshold=-1)
    best = EvalCallback(
        env, enough, n_eval_episodes=1, eval_freq=50, log_path=str(tmp_path), verbose=0
    )
    agent = made(cls).learn(400, CallbackList([best]))
    assert agent.num_timesteps == 50
    assert np.load(tmp_path / "evaluations.npz")["timesteps"].tolist() == [50]
    agent = made(cls).learn(400, [StopTrainingOnMaxEpisodes(max_episodes=2)])
    assert agent._episode_num + 1 == 2
    calls = []
    made(cls).learn(30, lambda local, _: calls.append(local["self"]) or len(calls) < 10)
    assert len(calls) == 10


@CLASSES
@pytest.mark.parametrize("n_envs", [1, 3])
def test_environments_in_numbers_and_normalised(cls, n_envs):
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs, seed=0))
    agent = made(cls, env, train_freq=2, gradient_steps=-1).learn(90)
    assert agent.get_vec_normalize_env() is env
    collected = agent.num_timesteps // n_envs
    assert agent.replay_buffer.size() == collected
    assert agent._n_updates > 0
    rows = agent.replay_buffer.sample(64, env=None).observations
    normal = agent.replay_buffer.sample(64, env=env).observations
    assert abs(normal).max() <= env.clip_obs
    assert rows.shape == normal.shape


@CLASSES
def test_several_environments_need_a_frequency_in_steps(cls):
    with pytest.raises((AssertionError, ValueError)):
        made(cls, make_vec_env("CartPole-v1", 2), train_freq=(1, "episode")).learn(30)


@CLASSES
@pytest.mark.parametrize("kind", [np.float16, np.int64, np.uint8])
def test_observations_of_any_kind_of_number(cls, kind):
    low, high = (0, 1) if np.dtype(kind).kind == "f" else (0, 7)
    space = spaces.Box(low, high, (4,), kind)
    agent = made(cls, Observed(space)).learn(40)
    action, _ = agent.predict(space.sample(), deterministic=True)
    assert agent.action_space.contains(int(action))


@CLASSES
@pytest.mark.parametrize(
    "space",
    [spaces.Box(-1, 1, (2,)), spaces.MultiDiscrete([2, 2]), spaces.MultiBinary(2)],
    ids=lambda space: type(space).__name__,
)
def test_actions_that_are_not_discrete_are_refused(cls, space):
    env = Observed(spaces.Box(0, 1, (2,)))
    env.action_space = space
    with pytest.raises((AssertionError, ValueError), match=r"Discrete|discrete"):
        made(cls, env)


@CLASSES
def test_pictures_in_either_order_and_stacked(cls):
    for channel_first in (True, False):
        env = FakeImageEnv(2, 40, 40, 1, channel_first=channel_first)
        env = VecFrameStack(DummyVecEnv([lambda env=env: env]), 2)
        agent = made(cls, env, "CnnPolicy", policy_kwargs={"net_arch": []}, buffer_size=60)
        agent.learn(26)
        assert agent.predict(env.reset(), deterministic=True)[0].shape == (1,)


@CLASSES
def test_parts_of_an_observation_are_stacked_and_normalised(cls):
    space = spaces.Dict({"a": spaces.Box(0, 9, (3,)), "b": spaces.Box(0, 255, (2,), np.uint8)})
    env = VecNormalize(
        VecFrameStack(DummyVecEnv([lambda: Observed(space)]), 2), norm_obs_keys=["a"]
    )
    agent = made(cls, env, "MultiInputPolicy").learn(60)
    assert {k: v.shape for k, v in agent.observation_space.items()} == {"a": (6,), "b": (4,)}
    with pytest.raises(ValueError, match="MultiInputPolicy"):
        made(cls, env, "MlpPolicy")


@CLASSES
def test_prediction_of_one_of_many_and_of_the_wrong_shape(cls):
    agent = made(cls, exploration_initial_eps=0.0)
    one = np.zeros(4, np.float32)
    assert agent.predict(one, deterministic=True)[0].shape == ()
    many = agent.predict(np.zeros((5, 4), np.float32), deterministic=True)[0]
    assert many.shape == (5,)
    assert len(set(many.tolist())) == 1
    with pytest.raises(ValueError, match="Unexpected observation shape"):
        agent.predict(np.zeros(3, np.float32), deterministic=True)
    with pytest.raises(ValueError, match="mixing Gym API with SB3 VecEnv API"):
        agent.predict((one, {}), deterministic=True)


@CLASSES
def test_epsilon_is_how_often_actions_are_random(cls):
    agent = made(cls, exploration_initial_eps=1.0, exploration_final_eps=0.0)
    one = np.zeros(4, np.float32)
    greedy = agent.predict(one, deterministic=True)[0]
    agent.exploration_rate = 0.0
    assert {int(agent.predict(one)[0]) for _ in range(20)} == {int(greedy)}
    agent.exploration_rate = 1.0
    assert {int(agent.predict(one)[0]) for _ in range(40)} == {0, 1}


@CLASSES
@pytest.mark.parametrize("n_steps", [1, 3])
def test_n_step_returns(cls, n_steps):
    agent = made(cls, n_steps=n_steps, gamma=0.5).learn(60)
    batch = agent.replay_buffer.sample(50)
    assert isinstance(agent.replay_buffer, NStepReplayBuffer) == (n_steps > 1)
    if n_steps > 1:  # CartPole pays 1 a step: 1 + γ + γ² unless the pole fell before
        assert set(batch.rewards.flatten().tolist()) <= {1.0, 1.5, 1.75}
        torch.testing.assert_close(batch.discounts, 1 - batch.rewards / 2)  # γ to that many steps


@CLASSES
@pytest.mark.parametrize("strategy", ["future", "final", "episode"])
def test_hindsight_marks_some_goals_as_reached(cls, strategy):
    env = BitFlippingEnv(n_bits=4, max_steps=4)
    buffer = {"goal_selection_strategy": strategy, "n_sampled_goal": 4}
    options = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": buffer}
    agent = made(cls, env, "MultiInputPolicy", **options).learn(60)
    batch = agent.replay_buffer.sample(200)
    reached = batch.next_observations["achieved_goal"] == batch.next_observations["desired_goal"]
    assert torch.equal(batch.rewards.flatten() == 0, reached.all(1))
    assert 0 < reached.all(1).float().mean() < 1


@CLASSES
def test_a_logger_of_ones_own_is_used(cls, tmp_path):
    agent = made(cls)
    agent.set_logger(configure(str(tmp_path), ["csv"]))
    agent.learn(80, log_interval=1)
    agent.logger.close()
    columns = (tmp_path / "progress.csv").read_text().splitlines()[0].split(",")
    expected = {"rollout/ep_rew_mean", "rollout/exploration_rate", "time/fps", "train/loss"}
    assert expected | {"train/n_updates", "train/learning_rate"} <= set(columns)
    assert len(agent.ep_info_buffer) > 0


class Normalised(BaseFeaturesExtractor):
    """A batch norm and dropout, which behave differently in training and evaluation."""

    def __init__(self, space):
        super().__init__(space, 8)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))

    def forward(self, observations):
        return self.layers(observations)


@CLASSES
def test_batch_norm_learns_in_updates_only(cls):
    options = {"policy_kwargs": {"features_extractor_class": Normalised}, "learning_starts": 0}
    options |= {"gradient_steps": 0, "target_update_interval": 1000}
    agent = made(cls, **options).learn(20)
    norms = [x for x in agent.policy.modules() if isinstance(x, nn.BatchNorm1d)]
    still = [norm.running_mean.clone() for norm in norms]
    one = np.ones(4, np.float32)
    assert len({int(agent.predict(one, deterministic=True)[0]) for _ in range(5)}) == 1
    agent.learn(30)
    assert all(
        torch.equal(norm.running_mean, mean) for norm, mean in zip(norms, still, strict=True)
    )
    agent.train(gradient_steps=2, batch_size=8)
    moved = [
        not torch.equal(norm.running_mean, mean) for norm, mean in zip(norms, still, strict=True)
    ]
    assert moved == [True, False]  # the online network, and not the target network


@CLASSES
def test_the_target_network_is_a_copy_of_its_own(cls):
    agent = made(cls, target_update_interval=10_000).learn(100)
    nets = (
        ("quantile_net", "quantile_net_target")
        if issubclass(cls, QRDQN)
        else ("q_net", "q_net_target")
    )
    online, target = (getattr(agent, name) for name in nets)
    pairs = list(zip(online.parameters(), target.parameters(), strict=True))
    assert all(a is not b for a, b in pairs)
    assert any(not torch.equal(a, b) for a, b in pairs)
    agent.target_update_interval = 1
    agent.learning_starts = 10**6  # a copy, and no update
    agent.learn(8, reset_num_timesteps=False)
    assert all(torch.equal(a, b) for a, b in pairs)


@CLASSES
def test_a_shrinking_window_of_episodes(cls):
    agent = made(cls, Monitor(IdentityEnv(2, ep_length=5)), stats_window_size=3).learn(60)
    assert agent.ep_info_buffer.maxlen == 3
    assert len(agent.ep_info_buffer) == 3
