"""Saving and loading: what comes back is the agent, and no file can run code."""

import io
import json
import time
import warnings
import zipfile
from collections import OrderedDict, deque

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from comparing import same
from mviq.agents import IQMVI, MVI, QRMVI, register
from mviq.agents.codec import CannotEncode, Decoder, Encoder
from problems import Observed

SMALL = {"policy_kwargs": {"net_arch": [16]}, "buffer_size": 500, "seed": 0, "device": "cpu"}


def made(cls, **options):
    return cls("MlpPolicy", "CartPole-v1", **(SMALL | options))


def states():
    return np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)


def tensors(agent):
    found = dict(agent.policy.state_dict())
    for index, state in agent.policy.optimizer.state_dict()["state"].items():
        found |= {f"{index}.{name}": value for name, value in state.items()}
    return found


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_an_agent_comes_back_whole(cls, tmp_path):
    agent = made(
        cls,
        q=3.0,
        temperature=0.1,
        form="log",
        clip=(-1.0, 0.0),
        entropy_weight=0.5,
        acting="sample",
        learning_rate=LinearSchedule(1e-3, 1e-4, 0.5),
        train_freq=(2, "step"),
    ).learn(400)
    agent.save(tmp_path / "agent")
    again = cls.load(tmp_path / "agent", device="cpu")
    assert again.family == agent.family
    assert (again.acting, again.value_limit) == (agent.acting, agent.value_limit)
    assert again.train_freq == agent.train_freq
    assert again.lr_schedule(0.7) == agent.lr_schedule(0.7)
    for name in ("num_timesteps", "_n_updates", "_n_calls", "_episode_num", "status"):
        assert getattr(again, name) == getattr(agent, name), name
    assert np.array_equal(*(a.predict(states(), deterministic=True)[0] for a in (agent, again)))
    for name, value in tensors(agent).items():
        assert torch.equal(tensors(again)[name], value), name


def test_the_same_agent_gives_the_same_file_on_any_day(tmp_path, monkeypatch):
    agent, now = made(MVI), time.time()
    agent.save(tmp_path / "today")
    monkeypatch.setattr(time, "time", lambda: now + 86_400)
    agent.save(tmp_path / "tomorrow")
    assert (tmp_path / "today.zip").read_bytes() == (tmp_path / "tomorrow.zip").read_bytes()


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_learning_goes_on_after_loading(cls, tmp_path):
    agent = made(cls, munchausen_alpha=0.5).learn(200)
    agent.save(tmp_path / "agent.zip")
    again = cls.load(tmp_path / "agent.zip", env=gym.make("CartPole-v1"), device="cpu")
    again.learn(200, reset_num_timesteps=False)
    assert again.num_timesteps == 400
    assert again._n_updates > agent._n_updates


def test_another_number_of_environments_and_other_arguments(tmp_path):
    made(MVI).save(tmp_path / "agent")
    again = MVI.load(
        tmp_path / "agent", env=make_vec_env("CartPole-v1", 3), learning_rate=0.5, q=4.0
    )
    assert (again.n_envs, again.learning_rate, again.family.q) == (3, 0.5, 4.0)
    again.learn(300)


def test_set_env_checks_spaces_and_predict_needs_no_environment(tmp_path):
    made(MVI).save(tmp_path / "agent")
    again = MVI.load(tmp_path / "agent")
    assert again.predict(states()[0])[0].shape == ()
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        again.set_env(gym.make("Acrobot-v1"))
    again.set_env(gym.make("CartPole-v1"))
    again.learn(150)
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        MVI.load(tmp_path / "agent", env=gym.make("Acrobot-v1"))


def test_n_step_agents_and_memory_files(tmp_path):
    buffer = io.BytesIO()
    made(QRMVI, n_steps=3).save(buffer)
    buffer.seek(0)
    again = QRMVI.load(buffer, env=gym.make("CartPole-v1"))
    assert again.replay_buffer.n_steps == 3


def test_what_can_be_replaced_is_named(tmp_path):
    made(MVI).save(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"load can replace acting, .*; got learning_rat$"):
        MVI.load(tmp_path / "agent", learning_rat=0.1)
    assert MVI.load(tmp_path / "agent", custom_objects={"gamma": 0.5}).gamma == 0.5
    with pytest.raises(ValueError, match="gamma must be a number ≥ 0 and ≤ 1, got 5"):
        MVI.load(tmp_path / "agent", gamma=5)


def test_learning_can_go_on_in_the_middle_of_an_episode(tmp_path):
    agent = made(MVI).learn(205)
    agent.save(tmp_path / "agent")
    env = agent.get_env()
    where = env.envs[0].unwrapped.state.copy()
    again = MVI.load(tmp_path / "agent", env=env, device="cpu", force_reset=False)
    assert np.array_equal(again._last_obs, agent._last_obs)
    again._setup_learn(100, None, reset_num_timesteps=False)
    assert np.array_equal(env.envs[0].unwrapped.state, where)
    anew = MVI.load(tmp_path / "agent", env=env, device="cpu")
    assert anew._last_obs is None
    anew._setup_learn(100, None, reset_num_timesteps=False)
    assert not np.array_equal(env.envs[0].unwrapped.state, where)
    two = make_vec_env("CartPole-v1", 2)
    with pytest.raises(ValueError, match="force_reset=False needs the 1 environments"):
        MVI.load(tmp_path / "agent", env=two, force_reset=False)


def test_last_observations_in_parts_and_before_normalisation(tmp_path):
    space = spaces.Dict({"a": spaces.Box(0, 1, (2,), np.float32), "b": spaces.Discrete(3)})
    env = VecNormalize(DummyVecEnv([lambda: Observed(space)]), norm_obs_keys=["a"])
    agent = MVI("MultiInputPolicy", env, **SMALL).learn(120)
    agent.save(tmp_path / "agent")
    again = MVI.load(tmp_path / "agent", env=env, device="cpu", force_reset=False)
    for name in ("_last_obs", "_last_original_obs"):
        for part in ("a", "b"):
            assert np.array_equal(getattr(agent, name)[part], getattr(again, name)[part])
    again.learn(20, reset_num_timesteps=False)


def test_system_info_is_printed_if_wished(tmp_path, capsys):
    made(MVI).save(tmp_path / "agent")
    MVI.load(tmp_path / "agent")
    assert "SYSTEM INFO" not in capsys.readouterr().out
    MVI.load(tmp_path / "agent", print_system_info=True)
    shown = capsys.readouterr().out
    assert "== CURRENT SYSTEM INFO ==" in shown
    assert "PyTorch" in shown.split("== SAVED MODEL SYSTEM INFO ==")[1]


def test_paths_are_arguments_too(tmp_path):
    agent = made(MVI, tensorboard_log=tmp_path / "board")
    agent.save(tmp_path / "agent")
    assert MVI.load(tmp_path / "agent").tensorboard_log == str(tmp_path / "board")


def test_files_are_not_for_the_base_class_and_nobody_is_half_loaded(tmp_path):
    made(MVI).save(tmp_path / "agent")
    with pytest.raises(AssertionError, match="No data found"):
        DQN.load(tmp_path / "agent")


def test_set_parameters_from_a_file_and_a_dictionary(tmp_path):
    first, second = made(MVI, seed=0), made(MVI, seed=1)
    first.save(tmp_path / "agent")
    second.set_parameters(tmp_path / "agent")
    third = made(MVI, seed=2)
    third.set_parameters(first.get_parameters())
    for name, value in tensors(first).items():
        assert torch.equal(tensors(second)[name], value)
        assert torch.equal(tensors(third)[name], value)


@pytest.mark.parametrize("exclude", [None, ["learning_rate"]])
def test_what_cannot_be_described_is_passed_to_load(exclude, tmp_path):
    agent = made(MVI, learning_rate=lambda progress: 1e-3 * progress)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        agent.save(tmp_path / "agent", exclude)
    if exclude is None:
        assert "saved without learning_rate, which must be passed to load" in str(told[0].message)
    else:
        assert not told
    again = MVI.load(tmp_path / "agent", learning_rate=lambda progress: 2e-3 * progress)
    assert again.lr_schedule(0.5) == 1e-3
    if exclude is None:
        with pytest.raises(ValueError, match="saved without learning_rate: pass it to load"):
            MVI.load(tmp_path / "agent")


def test_a_registered_class_can_be_saved(tmp_path):
    class Halved(FlattenExtractor):
        def forward(self, observations):
            return super().forward(observations) / 2

    agent = made(MVI, policy_kwargs={"features_extractor_class": Halved})
    with pytest.warns(UserWarning, match="register"):
        agent.save(tmp_path / "agent")
    register(Halved)
    agent.save(tmp_path / "agent")
    again = MVI.load(tmp_path / "agent")
    assert again.policy.features_extractor_class is Halved
    assert np.array_equal(*(a.predict(states(), deterministic=True)[0] for a in (agent, again)))


def test_an_agent_is_not_loaded_as_another(tmp_path):
    made(QRMVI).save(tmp_path / "agent")
    with pytest.raises(ValueError, match="class 'QRMVI', not MVI"):
        MVI.load(tmp_path / "agent")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.zip"):
        MVI.load(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 255, (4, 84, 84), np.uint8),
        spaces.Box(np.array([-1.0, -np.inf]), np.array([2.0, np.inf]), dtype=np.float64),
        spaces.Discrete(5, start=2),
        spaces.MultiBinary(3),
        spaces.MultiDiscrete([3, 4]),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Box(0, 1, (2,), np.float32)}),
    ],
    ids=str,
)
def test_spaces_survive_json(space):
    encoder = Encoder()
    tree = json.loads(json.dumps(encoder.encode(space, "space"), allow_nan=False))
    assert Decoder(encoder.arrays).decode(tree, "space") == space


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_the_state_of_a_loaded_agent_is_the_state_that_was_saved(cls, tmp_path):
    agent = made(cls, learning_rate=LinearSchedule(1e-3, 1e-4, 0.5)).learn(203)
    state = agent.get_state()
    agent.save(tmp_path / "agent")
    assert same(cls.load(tmp_path / "agent", device="cpu").get_state(), state)
    assert same(agent.get_state(), state)


def test_a_state_is_a_copy_and_can_be_given_to_another_agent():
    agent, other = made(MVI, seed=0).learn(200), made(MVI, seed=1)
    state = agent.get_state()
    other.set_state(state)
    agent.learn(50, reset_num_timesteps=False)
    assert same(other.get_state(), state)
    assert not same(agent.get_state(), state)


def test_a_state_that_does_not_fit_changes_nothing():
    agent, wider = made(MVI).learn(150), made(MVI, policy_kwargs={"net_arch": [17]})
    before = wider.get_state()
    with pytest.raises(ValueError, match=r"q_net\.q_net\.0\.weight must be \(17, 4\)"):
        wider.set_state(agent.get_state())
    with pytest.raises(ValueError, match=r"missing or unknown: \['_n_updates', 'updates'\]"):
        wider.set_state({"updates" if k == "_n_updates" else k: v for k, v in before.items()})
    with pytest.raises(ValueError, match="_replayed must have shape"):
        wider.set_state(before | {"_replayed": torch.zeros(3)})
    assert same(wider.get_state(), before)


def test_what_a_callback_logs_is_no_obstacle(tmp_path):
    """A figure that waits to be logged, or an unusual keyword of a Monitor, is not saved."""
    agent = made(MVI).learn(150)
    agent.logger.record("figure", object())
    agent.ep_info_buffer.append({"r": np.float32(1.5), "l": 3, "t": 0.1, "keyword": object()})
    agent.save(tmp_path / "agent")
    again = MVI.load(tmp_path / "agent", device="cpu", stats_window_size=2)
    assert again.ep_info_buffer.maxlen == 2
    assert again.ep_info_buffer[-1] == {"r": np.float32(1.5), "l": 3}


def test_plain_data_survives_json():
    value = {
        "numbers": [None, True, 3, -0.5, float("inf"), float("-inf"), np.float32(0.1)],
        "containers": ((1, "a"), {2, 3}, deque([4], 5), OrderedDict(b=6), b"\xff"),
        "arrays": [np.arange(3), np.array([b"SF"]), np.array(2, ">i4"), torch.eye(2)],
        "keys": {0: "zero", None: "none"},
    }
    encoder = Encoder()
    tree = json.loads(json.dumps(encoder.encode(value, "value"), allow_nan=False))
    decoder = Decoder(safetensors.numpy.load(safetensors.numpy.save(encoder.arrays)))
    assert same(decoder.decode(tree, "value"), value)
    assert not decoder.unread
    with pytest.raises(CannotEncode, match=r"value\.a\.b cannot be saved: another array"):
        Encoder().encode({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, "value")


def test_a_file_of_an_older_version_is_refused_by_its_version(tmp_path):
    made(MVI).save(tmp_path / "agent.zip")
    with zipfile.ZipFile(tmp_path / "agent.zip") as source:
        content = json.loads(source.read("agent.json"))
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as target:
        target.writestr("agent.json", json.dumps(content | {"version": 1}))
    for read in (MVI.load, made(MVI).set_parameters):
        with pytest.raises(
            ValueError, match=r"old\.zip .*has format version 1, this mviq reads 3$"
        ):
            read(tmp_path / "old.zip")


def test_steps_given_as_a_float_can_be_saved(tmp_path):
    made(MVI).learn(3e1).save(tmp_path / "agent")
    assert MVI.load(tmp_path / "agent")._total_timesteps == 30


@pytest.mark.parametrize("moment", ["exp_avg", "exp_avg_sq", "step"])
def test_moments_of_another_shape_are_refused(tmp_path, moment):
    """Compiled loops go through them without looking at their ends."""
    agent = made(MVI, learning_starts=10).learn(40)
    for weight, moments in agent.policy.optimizer.state.items():
        moments[moment] = torch.zeros_like(weight) if moment == "step" else torch.tensor(0.0)
    agent.save(tmp_path / "agent")
    with pytest.raises(ValueError, match=f"moment {moment} of parameter 0 must be"):
        MVI.load(tmp_path / "agent")


def test_parameters_are_copied_with_their_moments():
    one, other = made(MVI, learning_starts=10).learn(40), made(MVI, learning_starts=10).learn(20)
    other.set_parameters(one.get_parameters())
    before = [m["exp_avg"].clone() for m in one.policy.optimizer.state.values()]
    other.train(3, 8)
    after = [m["exp_avg"] for m in one.policy.optimizer.state.values()]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
