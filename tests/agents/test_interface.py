"""What users of Stable-Baselines3 know works on our agents."""

import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import (
    BaseCallback,
)
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecNormalize
from torch import nn

from mviq.agents import IQMVI, MVI, QRMVI, DivergenceError
from mviq.agents.acting import step
from mviq.agents.files import SafeFiles
from mviq.agents.learner import Learner
from mviq.agents.replay import TransitionReplayBuffer
from mviq.processor import are_flushed, quick_arithmetic
from mviq.tsallis import Family, entropy, munchausen_residual, policy
from problems import Observed, TableMDP, made

AGENTS = pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])


@AGENTS
@pytest.mark.parametrize(
    ("space", "policy_name"),
    [
        (spaces.Discrete(5), "MlpPolicy"),
        (spaces.MultiDiscrete([3, 4]), "MlpPolicy"),
        (spaces.MultiBinary(4), "MlpPolicy"),
        (spaces.Box(0, 255, (4, 36, 36), np.uint8), "CnnPolicy"),
        (spaces.Box(0, 255, (36, 36, 1), np.uint8), "CnnPolicy"),
        (
            spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32), "b": spaces.Discrete(3)}),
            "MultiInputPolicy",
        ),
    ],
    ids=["discrete", "multidiscrete", "multibinary", "image", "image-last", "dict"],
)
def test_every_observation_space_of_dqn(cls, space, policy_name):
    agent = made(cls, Observed(space), policy_name, buffer_size=300, n_steps=1)
    agent.learn(160)
    assert agent.status == "finished"
    assert agent._n_updates > 0


@AGENTS
def test_vector_environments_normalisation_and_several_gradient_steps(cls):
    env = VecNormalize(make_vec_env("CartPole-v1", 2))
    agent = made(cls, env, gradient_steps=-1, tau=0.5, target_update_interval=2).learn(300)
    assert agent._n_updates > 100


def test_processes_and_episodes_as_units():
    made(MVI, make_vec_env("CartPole-v1", 2, vec_env_cls=SubprocVecEnv)).learn(200).env.close()
    made(MVI, train_freq=(1, "episode")).learn(200)
    with pytest.raises(ValueError, match="train_freq must be in steps"):
        made(MVI, make_vec_env("CartPole-v1", 2), train_freq=(1, "episode")).learn(200)


@AGENTS
def test_other_networks_and_optimisers(cls):
    kwargs = {"activation_fn": nn.Tanh, "optimizer_class": torch.optim.RMSprop, "net_arch": [8, 8]}
    agent = made(cls, policy_kwargs=kwargs).learn(150)
    assert isinstance(agent.policy.optimizer, torch.optim.RMSprop)
    assert "fused" not in kwargs


def test_adam_is_fused_unless_the_user_says_otherwise():
    assert made(MVI).policy.optimizer.defaults["fused"]
    assert made(QRMVI).policy.optimizer.defaults["eps"] == 0.01 / 32
    untouched = {}
    made(MVI, policy_kwargs=untouched)
    assert untouched == {}
    other = made(MVI, policy_kwargs={"optimizer_kwargs": {"foreach": True}})
    assert not other.policy.optimizer.defaults["fused"]


def test_the_short_cut_through_the_network_is_the_network():
    for space, name in (
        (spaces.Box(0, 255, (4, 36, 36), np.uint8), "CnnPolicy"),
        (spaces.Box(-1, 1, (6,), np.float32), "MlpPolicy"),
    ):
        agent = made(QRMVI, Observed(space), name, buffer_size=10)
        for batch in (1, 64):
            seen = torch.as_tensor(np.stack([space.sample() for _ in range(batch)]))
            before = seen.clone()
            (outcomes,) = agent._online.predict(*agent._online.prepare(seen))
            torch.testing.assert_close(outcomes, agent.quantile_net(seen))
            assert torch.equal(seen, before)


def test_diagnostics_are_what_they_are_called():
    agent = made(MVI, q=2.0, temperature=0.5, learning_starts=10)
    assert (agent.q, agent.temperature, agent.munchausen_alpha) == (2.0, 0.5, 0.9)
    agent.learn(50)
    torch.manual_seed(0)
    q_values, actions = torch.randn(20, 3), torch.randint(3, (20, 1))
    from mviq.agents.diagnostics import policy_diagnostics, target_residual

    found = policy_diagnostics(agent.family, q_values, actions)
    pi = policy(q_values, 2.0, 0.5)
    gap = q_values - (pi * q_values).sum(-1, keepdim=True)
    assert found["tsallis/entropy"] == pytest.approx(entropy(pi, 2.0).mean().item())
    assert found["tsallis/support_size"] == pytest.approx((pi > 0).sum(-1).float().mean().item())
    assert found["tsallis/munchausen"] == pytest.approx(0.9 * gap.gather(1, actions).mean().item())
    log = (gap - (pi - 1)).gather(1, actions)  # ln_2 π = π − 1
    assert found["tsallis/gap_minus_log"] == pytest.approx(log.mean().item(), rel=1e-4)
    other = policy(q_values.flip(0), 2.0, 0.5)
    residual = munchausen_residual(pi, other, 2.0).mean().item()
    moved = target_residual(agent.family, before=q_values.flip(0), after=q_values)
    assert moved["tsallis/residual"] == pytest.approx(residual, rel=1e-5)
    assert target_residual(Family(q=math.inf), q_values, q_values) == {}


@pytest.mark.parametrize("q", [1.0, 2.0, 5.0])
def test_acting_by_sampling_follows_the_policy(q):
    agent = made(MVI, acting="sample", q=q, temperature=0.05)
    observation = np.array([0.1, -0.2, 0.05, 0.3], np.float32)
    expected = agent.family.policy(agent.q_values(observation))[0]
    torch.manual_seed(0)
    actions, _ = agent.predict(np.tile(observation, (20_000, 1)))
    assert actions.mean() == pytest.approx(expected[1].item(), abs=0.015)
    greedy, _ = agent.predict(observation, deterministic=True)
    assert greedy == expected.argmax()
    agent.learn(150)


def test_action_values_of_one_observation_and_of_many():
    agent, seen = made(QRMVI), np.ones((3, 4), np.float32)
    assert agent.q_values(seen).shape == (3, 2)
    torch.testing.assert_close(agent.q_values(seen[0]), agent.q_values(seen)[:1])
    expected = agent.quantile_net(torch.as_tensor(seen)).mean(1)
    torch.testing.assert_close(agent.q_values(seen), expected)


@AGENTS
def test_one_level_above_the_base(cls):
    above = cls.__mro__[: cls.__mro__.index(cls.base)]
    parts = ["Learner", "Actor", "Trainer", "SafeFiles"]
    assert [kind.__name__ for kind in above] == [cls.__name__, *parts]
    assert all(cls.__bases__.count(kind) for kind in above[1:])  # side by side, not in a chain
    assert not issubclass(Learner, SafeFiles)


@AGENTS
def test_exploding_values_stop_with_message_and_status(cls):
    problem = TableMDP([[1.0, -1.0]], [[0, 0]], limit=10)
    agent = made(
        cls,
        problem,
        munchausen_alpha=1.5,
        learning_rate=0.5,
        target_update_interval=4,
        value_limit=100.0,
    )
    with pytest.raises(DivergenceError, match=r"diverged at step \d+ .*target network is .*limit"):
        agent.learn(20_000)
    assert agent.status == "diverged"
    assert agent.num_timesteps < 20_000


@AGENTS
@pytest.mark.parametrize("where", ["reward", "observation"])
def test_nan_stops_at_once_and_spoils_no_weight(cls, where):
    class Poisoned(TableMDP):
        def step(self, action):
            observation, reward, *rest = super().step(action)
            if self.np_random.random() < 0.05:
                reward = math.nan if where == "reward" else reward
                observation = observation * (math.nan if where == "observation" else 1)
            return observation, reward, *rest

    agent = made(cls, Poisoned([[1.0, 0.0]], [[0, 0]], limit=10), learning_starts=10)
    with pytest.raises(DivergenceError, match="from the environment are NaN"):
        agent.learn(1000)
    assert agent.status == "diverged"
    assert all(weight.isfinite().all() for weight in agent.policy.parameters())


def test_other_failures_have_a_status_too():
    class Broken(BaseCallback):
        def _on_step(self):
            raise KeyError("broken")

    agent = made(MVI)
    with pytest.raises(KeyError):
        agent.learn(10, callback=Broken())
    assert agent.status == "failed"


def test_ctrl_c_is_a_stop_and_no_failure():
    class Interrupt(BaseCallback):
        def _on_step(self):
            raise KeyboardInterrupt

    agent = made(MVI)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(10, callback=Interrupt())
    assert agent.status == "stopped"


def test_denormals_are_flushed_only_while_learning():
    assert not are_flushed()
    with quick_arithmetic():
        assert are_flushed()
        with quick_arithmetic():
            pass
        assert are_flushed()
    made(MVI).learn(150)
    assert not are_flushed()


def test_the_lean_step_is_the_step_of_dummy_vec_env():
    ours, theirs = (make_vec_env("CartPole-v1", 2, seed=0) for _ in range(2))
    assert type(ours) is DummyVecEnv
    assert np.array_equal(ours.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    for _ in range(120):
        actions = rng.integers(0, 2, 2)
        a, b = step(ours, actions), theirs.step(actions)
        for x, y in zip(a[:3], b[:3], strict=True):
            assert np.array_equal(x, y)
            assert x.dtype == y.dtype
        for x, y in zip(a[3], b[3], strict=True):
            assert x.keys() == y.keys()
            assert x["TimeLimit.truncated"] == y["TimeLimit.truncated"]
            if "terminal_observation" in x:
                assert np.array_equal(x["terminal_observation"], y["terminal_observation"])


@pytest.mark.parametrize("n_envs", [1, 3])
def test_the_lean_buffer_is_the_buffer_of_sb3(n_envs):
    space = spaces.Box(-1, 1, (4,), np.float32)
    ours, theirs = (
        cls(60, space, spaces.Discrete(3), device="cpu", n_envs=n_envs)
        for cls in (TransitionReplayBuffer, ReplayBuffer)
    )
    rng = np.random.default_rng(0)
    for _ in range(50):
        obs, following = rng.normal(size=(2, n_envs, 4)).astype(np.float32)
        done = rng.random(n_envs) < 0.3
        infos = [{"TimeLimit.truncated": bool(d and rng.random() < 0.5)} for d in done]
        transition = (rng.integers(3, size=n_envs), rng.normal(size=n_envs), done, infos)
        for buffer in (ours, theirs):
            buffer.add(obs, following, *transition)
    for buffer in (ours, theirs):
        np.random.seed(0)  # noqa: NPY002
        buffer.drawn = buffer.sample(32)
    for a, b in zip(ours.drawn[:5], theirs.drawn[:5], strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype
