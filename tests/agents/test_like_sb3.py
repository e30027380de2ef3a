"""What works on Stable-Baselines3's ``DQN`` works on ``MVI``: the same call on both classes."""

import inspect
import io
import math
from dataclasses import fields
from functools import partial
from typing import get_type_hints

import gymnasium as gym
import numpy as np
import pytest
import safetensors.numpy
import torch
from gymnasium import spaces
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import CheckpointCallback, EvalCallback, EveryNTimesteps
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.envs import BitFlippingEnv
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.utils import LinearSchedule, get_linear_fn
from stable_baselines3.her import GoalSelectionStrategy, HerReplayBuffer
from torch import nn

from mviq.agents import IQMVI, MVI, QRMVI, DivergenceError
from mviq.agents.arguments import BaseArguments
from mviq.agents.codec import Decoder
from mviq.envs import ActionMasks
from mviq.tsallis import Family
from problems import Observed, TableMDP, made

PAIRS = pytest.mark.parametrize("cls", [DQN, MVI, QRDQN, QRMVI])
SMALL = {"policy_kwargs": {"net_arch": [16]}, "learning_starts": 20, "buffer_size": 200}


def agent_of(cls, env="CartPole-v1", policy="MlpPolicy", **options):
    return cls(policy, env, **{"seed": 0, "device": "cpu", **SMALL, **options})


@PAIRS
def test_custom_objects_that_are_not_arguments_are_ignored(cls, tmp_path):
    agent_of(cls).save(tmp_path / "agent")
    zoo = {"learning_rate": 0.0, "lr_schedule": lambda _: 0.0, "clip_range": lambda _: 0.0}
    loaded = cls.load(tmp_path / "agent", custom_objects=zoo, buffer_size=1)
    assert loaded.learning_rate == 0.0
    assert loaded.buffer_size == 1


@PAIRS
@pytest.mark.parametrize(
    "option",
    [
        {"learning_starts": 3e1},
        {"target_update_interval": 1e1},
        {"max_grad_norm": math.inf},
        {"gradient_steps": -1},
        {"train_freq": (1, "episode")},
    ],
    ids=str,
)
def test_arguments_in_other_forms(cls, option, tmp_path):
    agent = agent_of(cls, **option)
    agent.learn(60)
    assert agent._n_updates > 0
    agent.save(tmp_path / "agent")
    cls.load(tmp_path / "agent", env=gym.make("CartPole-v1")).learn(60)


@PAIRS
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value")
def test_no_update_is_no_error(cls):
    agent = agent_of(cls)
    agent.learn(40)
    before = agent._n_updates
    agent.train(0, 8)
    assert agent._n_updates == before


@pytest.mark.parametrize("acting", ["epsilon_greedy", "sample"])
def test_the_action_of_one_observation_is_an_array_like_that_of_dqn(acting):
    space = gym.make("CartPole-v1").observation_space
    space.seed(0)
    one, some = space.sample(), np.stack([space.sample() for _ in range(3)])
    expected = [agent_of(DQN).predict(x)[0] for x in (one, some)]
    found = [agent_of(MVI, acting=acting).predict(x)[0] for x in (one, some)]
    for a, b in zip(found, expected, strict=True):
        assert type(a) is type(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype)


def outcome(work):
    """Return the type of exception that work ends in, None if in none."""
    try:
        work()
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    "damage",
    [
        lambda given: 3,
        lambda given: {},
        lambda given: {"policy": given["policy"]},
        lambda given: given | {"nothing": {}},
        lambda given: given | {"policy": {}},
        lambda given: given | {"policy": dict(list(given["policy"].items())[1:])},
        lambda given: given | {"policy": {k: v[:1] for k, v in given["policy"].items()}},
    ],
    ids=["number", "nothing", "part", "unknown part", "no weights", "weight less", "other shapes"],
)
@pytest.mark.parametrize("exact_match", [True, False])
def test_wrong_parameters_raise_what_they_raise_in_dqn(damage, exact_match):
    ours, theirs = agent_of(MVI), agent_of(DQN)
    ended = [
        outcome(lambda x=x: x.set_parameters(damage(x.get_parameters()), exact_match))
        for x in (ours, theirs)
    ]
    assert ended[0] is ended[1]


@PAIRS
def test_excluded_and_included(cls, tmp_path):
    agent = agent_of(cls, learning_rate=2e-3, gamma=0.9)
    agent.save(tmp_path / "a", exclude=["learning_rate", "no such thing"], include=["gamma"])
    agent.save(tmp_path / "b", exclude=["learning_rate"], include=["learning_rate"])
    loaded = cls.load(tmp_path / "a")
    assert (loaded.gamma, loaded.learning_rate) == (0.9, agent_of(cls).learning_rate)
    assert cls.load(tmp_path / "a", learning_rate=1.0).learning_rate == 1.0
    assert cls.load(tmp_path / "b").learning_rate == 2e-3


@PAIRS
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of PyTorch itself
def test_a_policy_given_to_torch_compile_is_saved_as_it_was(cls, tmp_path):
    agent = agent_of(cls).learn(40)
    agent.policy = torch.compile(agent.policy)
    agent.save(tmp_path / "agent")
    loaded = cls.load(tmp_path / "agent")
    for weight, again in zip(agent.policy.parameters(), loaded.policy.parameters(), strict=True):
        assert torch.equal(weight, again)


@PAIRS
def test_replay_buffers_go_through_streams_and_onto_agents_without_one(cls):
    agent, stream = agent_of(cls), io.BytesIO()
    agent.learn(60)
    agent.save_replay_buffer(stream)
    stream.seek(0)
    other = agent_of(cls, buffer_size=50)
    other.replay_buffer = None
    other.load_replay_buffer(stream)
    assert other.replay_buffer.size() == 60
    assert other.replay_buffer.device == other.device
    stream.seek(0)
    other.device = torch.device("meta")
    other.load_replay_buffer(stream)
    assert other.replay_buffer.device == other.device
    other.device = other.replay_buffer.device = torch.device("cpu")
    assert np.array_equal(other.replay_buffer.rewards, agent.replay_buffer.rewards)
    other.learn(30)


@PAIRS
def test_what_a_checkpoint_callback_saves_can_be_loaded(cls, tmp_path):
    callback = CheckpointCallback(30, str(tmp_path), save_replay_buffer=True)
    agent_of(cls).learn(60, callback)
    loaded = cls.load(tmp_path / "rl_model_60_steps.zip", env=gym.make("CartPole-v1"))
    loaded.load_replay_buffer(tmp_path / "rl_model_replay_buffer_60_steps.pkl")
    assert loaded.num_timesteps == 60
    assert loaded.replay_buffer.size() == 59  # the callback is called before a step is stored


def test_a_divergence_is_a_failed_trial_to_tools_and_names_its_limit():
    assert issubclass(DivergenceError, ValueError)
    with pytest.raises(ValueError, match="value_limit is 1e-09"):
        made(MVI, value_limit=1e-9, learning_starts=20).learn(100)


class Broken(gym.ObservationWrapper):
    """Gives NaN after a while."""

    count = 0

    def observation(self, observation):
        self.count += 1
        return observation * (np.nan if self.count > 60 else 1)


def test_nan_in_observations_is_told_as_such():
    agent = made(MVI, Broken(gym.make("CartPole-v1")), learning_starts=20)
    with pytest.raises(DivergenceError, match="observations from the environment are NaN"):
        agent.learn(200)
    assert torch.isfinite(torch.cat([w.flatten() for w in agent.policy.parameters()])).all()


class OwnBox(spaces.Box):
    """A space of somebody's own."""


DISCRETE_PART = spaces.Dict(
    {"a": spaces.Box(0, 1, (2,), np.float32), "b": spaces.Discrete(3, dtype=np.int32)}
)


@PAIRS
@pytest.mark.parametrize(
    ("space", "policy"),
    [
        (DISCRETE_PART, "MultiInputPolicy"),
        (spaces.Discrete(3, dtype=np.int32), "MlpPolicy"),
        (spaces.MultiDiscrete([3, 4], dtype=np.int16), "MlpPolicy"),
        (OwnBox(-1, 1, (3,)), "MlpPolicy"),
    ],
    ids=["a discrete part", "discrete", "multidiscrete", "own box"],
)
def test_spaces_come_back(cls, space, policy, tmp_path):
    agent = agent_of(cls, Observed(space), policy)
    agent.learn(60)
    agent.save(tmp_path / "agent")
    loaded = cls.load(tmp_path / "agent", env=Observed(space))
    assert loaded.observation_space == space
    parts = space.spaces.values() if isinstance(space, spaces.Dict) else [space]
    again = loaded.observation_space
    again = again.spaces.values() if isinstance(again, spaces.Dict) else [again]
    assert [part.dtype for part in again] == [part.dtype for part in parts]
    loaded.learn(30)


@pytest.mark.parametrize("cls", [DQN, MVI])
@pytest.mark.parametrize("strategy", ["episode", GoalSelectionStrategy.EPISODE])
def test_hindsight(cls, strategy, tmp_path):
    buffer = {"goal_selection_strategy": strategy, "copy_info_dict": True}
    options = {"replay_buffer_class": HerReplayBuffer, "replay_buffer_kwargs": buffer}
    env = BitFlippingEnv(n_bits=3, max_steps=4)
    agent = agent_of(cls, env, "MultiInputPolicy", **options)
    agent.learn(60)
    agent.save(tmp_path / "agent")
    loaded = cls.load(tmp_path / "agent", env=env)
    assert loaded.replay_buffer.copy_info_dict
    assert loaded.replay_buffer.goal_selection_strategy is GoalSelectionStrategy.EPISODE
    agent.save_replay_buffer(tmp_path / "replay.pkl")
    loaded.load_replay_buffer(tmp_path / "replay.pkl", truncate_last_traj=False)
    for info, again in zip(*(x.replay_buffer.infos.flat for x in (agent, loaded)), strict=True):
        np.testing.assert_equal(again, info)
    loaded.learn(30, reset_num_timesteps=False)


class SimpleLinearSchedule:
    """As rl-baselines3-zoo has it, for learning rates written as lin_1e-3."""

    def __init__(self, initial_value):
        self.initial_value = initial_value

    def __call__(self, progress_remaining):
        return progress_remaining * self.initial_value


@PAIRS
@pytest.mark.filterwarnings("ignore:get_linear_fn")
@pytest.mark.parametrize("schedule", ["lin", "get_linear_fn"])
def test_learning_rates_that_fall(cls, schedule, tmp_path):
    rate = SimpleLinearSchedule(1e-3) if schedule == "lin" else get_linear_fn(1e-3, 1e-4, 0.5)
    agent_of(cls, learning_rate=rate).save(tmp_path / "agent")
    loaded = cls.load(tmp_path / "agent", env=gym.make("CartPole-v1"))
    for left in (1.0, 0.7, 0.2, 0.0):
        assert loaded.lr_schedule(left) == pytest.approx(rate(left))
    loaded.learn(60)


@PAIRS
@pytest.mark.parametrize(
    "options",
    [
        {"optimizer_class": torch.optim.Adamax},
        {"optimizer_class": torch.optim.Adagrad},
        {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"alpha": 0.9}},
        {"activation_fn": partial(nn.LeakyReLU, negative_slope=0.2)},
    ],
    ids=["Adamax", "Adagrad", "RMSpropTFLike", "partial"],
)
def test_optimisers_and_activations_come_back(cls, options, tmp_path):
    kwargs = {"net_arch": [16], **options}
    agent = agent_of(cls, policy_kwargs=kwargs)
    agent.learn(60)
    agent.save(tmp_path / "agent")
    loaded = cls.load(tmp_path / "agent", env=gym.make("CartPole-v1"))
    for name, weight in agent.policy.state_dict().items():
        assert torch.equal(loaded.policy.state_dict()[name], weight)
    moments, again = (x.policy.optimizer.state_dict()["state"] for x in (agent, loaded))
    assert moments.keys() == again.keys()
    assert all(np.array_equal(again[i][k], moments[i][k]) for i in moments for k in moments[i])
    loaded.learn(30)


def test_what_cannot_be_saved_is_told_before_the_first_step(tmp_path):
    best = EvalCallback(Monitor(gym.make("CartPole-v1")), best_model_save_path=str(tmp_path))
    for saving in (CheckpointCallback(10**6, str(tmp_path)), [EveryNTimesteps(10**6, best)]):
        agent = agent_of(MVI, learning_rate=lambda left: 1e-3 * left)
        with pytest.warns(UserWarning, match="saved without learning_rate"):
            agent.learn(0, saving)
        assert agent.num_timesteps == 0
    quiet = EvalCallback(Monitor(gym.make("CartPole-v1")))  # it evaluates only: nothing to tell
    agent_of(MVI, learning_rate=lambda left: 1e-3 * left).learn(0, quiet)


class Bonus(MVI):
    """An agent with an argument and an attribute of its own."""

    def __init__(self, policy, env, bonus=0.5, **options):
        super().__init__(policy, env, **options)
        self.bonus, self.visited = bonus, 0

    def get_state(self):
        return super().get_state() | {"visited": self.visited}

    def set_state(self, state):
        self.visited = state["visited"]
        super().set_state({name: value for name, value in state.items() if name != "visited"})


def test_arguments_and_state_of_a_subclass_come_back(tmp_path):
    agent = agent_of(Bonus, bonus=0.25)
    agent.visited = 7
    agent.save(tmp_path / "agent")
    loaded = Bonus.load(tmp_path / "agent")
    assert (loaded.bonus, loaded.visited) == (0.25, 7)
    assert Bonus.load(tmp_path / "agent", bonus=1.0).bonus == 1.0
    with pytest.raises(ValueError, match="of class 'Bonus', not MVI; load it with that class"):
        MVI.load(tmp_path / "agent")


@pytest.mark.parametrize(("cls", "peer"), [(MVI, DQN), (QRMVI, QRDQN)])
def test_the_signature_is_that_of_the_peer_and_ours(cls, peer):
    ours, theirs = (inspect.signature(x).parameters for x in (cls, peer))
    assert list(ours)[: len(theirs)] == list(theirs)
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name
    own = set(ours) - set(theirs)
    assert own == {field.name for field in fields(Family)} | {"acting", "value_limit"}
    assert all(ours[name].kind is inspect.Parameter.KEYWORD_ONLY for name in own)
    assert all(parameter.annotation is not inspect.Parameter.empty for parameter in ours.values())


def test_numbers_of_the_family_are_attributes_that_can_be_set():
    agent = agent_of(MVI, q=2.0)
    assert {"q": 2.0, "temperature": 0.03, "munchausen_alpha": 0.9}.items() <= vars(agent).items()
    agent.q, agent.temperature, agent.munchausen_alpha = 3, 0.5, 0.0
    assert agent.family == Family(q=3.0, temperature=0.5, munchausen_alpha=0.0)
    assert vars(agent)["q"] == agent.q == 3.0
    with pytest.raises(ValueError, match="q must be at least 1"):
        agent.q = 0.5
    agent.learn(60)
    assert agent.family.q == 3.0


@pytest.mark.parametrize("cls", [MVI, QRMVI, IQMVI])
def test_q_can_follow_a_schedule_like_a_learning_rate(cls, tmp_path):
    seen = []

    class Watching(cls):
        def train(self, gradient_steps, batch_size=100):
            super().train(gradient_steps, batch_size)
            seen.append((self.num_timesteps, self.q, self.temperature, self.family.q))

    agent = agent_of(Watching, q=lambda left: 2 + left, temperature=LinearSchedule(1.0, 0.1, 0.5))
    assert (agent.q, agent.temperature) == (3.0, 1.0)
    agent.learn(100)
    for steps, q, temperature, index in seen:
        assert q == index == pytest.approx(3 - steps / 100)
        assert temperature == pytest.approx(max(1 - 0.9 * steps / 50, 0.1))
    agent.q = 5.0
    agent.learn(40)
    assert agent.q == 5.0


def test_an_agent_with_schedules_comes_back_where_it_was(tmp_path):
    schedules = {"q": LinearSchedule(3.0, 1.0, 1.0), "temperature": LinearSchedule(1.0, 0.1, 1.0)}
    agent = agent_of(MVI, **schedules)
    agent.learn(60, CheckpointCallback(30, str(tmp_path)))
    loaded = MVI.load(tmp_path / "rl_model_30_steps", env=gym.make("CartPole-v1"))
    assert loaded.q == pytest.approx(2.0, abs=0.05)
    assert isinstance(loaded._schedules["q"], LinearSchedule)
    loaded.learn(30, reset_num_timesteps=False)
    assert loaded.q == pytest.approx(agent.q, abs=0.2)


class Counting(gym.Env):
    """Ten steps; two of five actions are available, those equal to the time or one more.

    The reward is 1 for the larger and 0 for the smaller; others would be worth 100.
    """

    observation_space, action_space = spaces.Box(0, 1, (10,)), spaces.Discrete(5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {"action_mask": self.mask()}

    def observe(self):
        return np.eye(10, dtype=np.float32)[self.time % 10]

    def mask(self):
        return np.isin(np.arange(5), [self.time % 5, (self.time + 1) % 5]).astype(np.int8)

    def step(self, action):
        assert self.mask()[action], f"{action} is not available at {self.time}"
        reward = float(action == (self.time + 1) % 5)
        self.time += 1
        return self.observe(), reward, self.time == 10, False, {"action_mask": self.mask()}


class WithMethod(Counting):
    """Offers its masks as sb3-contrib has it."""

    def action_masks(self):
        return self.mask().astype(bool)


MASKED = [(Counting, MVI), (WithMethod, QRMVI), (Counting, IQMVI)]


@pytest.mark.parametrize(("env", "cls"), MASKED)
@pytest.mark.parametrize("acting", ["epsilon_greedy", "sample"])
def test_masked_actions_are_never_taken_nor_learnt_from(env, cls, acting):
    masked = ActionMasks(env())
    quantiles = {"n_quantiles": 5} if cls is QRMVI else {}
    options = {"policy_kwargs": {"net_arch": [32], **quantiles}, "learning_rate": 3e-3}
    options |= {"q": 2.0, "temperature": 0.1, "target_update_interval": 50, "train_freq": 1}
    agent = agent_of(cls, masked, "MultiInputPolicy", acting=acting, **options)
    agent.learn(1200)
    values = (
        evaluate_policy(agent, Monitor(masked), 2)[0],
        evaluate_policy(agent, Monitor(masked), 2, deterministic=False)[0],
    )
    assert values[0] == 10
    assert values[1] >= 5
    observation, _ = masked.reset()
    q_values = agent.q_values(observation)
    assert torch.isneginf(q_values).tolist() == [[False, False, True, True, True]]


def test_a_mask_that_nobody_gives_is_named():
    with pytest.raises(ValueError, match="neither a method action_masks"):
        ActionMasks(gym.make("CartPole-v1")).reset()


class DoubleMVI(MVI):
    """The next action by the online network, its value by the target network."""

    def target(self, batch, next_outcomes, outcomes=None):
        chosen = self.q_values(batch.next_observations).argmax(1, keepdim=True)
        values = next_outcomes.squeeze(1).gather(1, chosen)
        return batch.rewards + self.gamma * (1 - batch.dones) * values


def test_a_target_of_ones_own():
    env = TableMDP([[0.0, 1.0]], [[-1, -1]])
    agent = agent_of(DoubleMVI, env, learning_rate=1e-2, target_update_interval=10, train_freq=1)
    agent.learn(600)
    assert agent.q_values(np.eye(1, dtype=np.float32)).numpy() == pytest.approx(
        np.array([[0.0, 1.0]]), abs=0.05
    )


class DoubleByNetwork(DoubleMVI):
    """The same, with the network itself."""

    def q_values(self, observations):
        with torch.no_grad():
            return self.q_net(observations)


@pytest.mark.parametrize("batch_size", [1, 16])
def test_action_values_can_be_asked_for_in_the_middle_of_an_update(batch_size):
    agents = [
        agent_of(cls, batch_size=batch_size).learn(120) for cls in (DoubleMVI, DoubleByNetwork)
    ]
    for weight, other in zip(*(x.policy.parameters() for x in agents), strict=True):
        torch.testing.assert_close(weight, other, rtol=1e-4, atol=1e-6)


def test_action_values_are_not_overwritten_by_the_next():
    agent = agent_of(MVI)
    one, other = np.zeros(4, np.float32), np.ones(4, np.float32)
    first = agent.q_values(one)
    kept = first.clone()
    agent.q_values(other)
    assert torch.equal(first, kept)


def test_infinite_values_without_a_mask_are_a_divergence():
    agent = agent_of(MVI)
    agent.learn(40)
    with torch.no_grad():
        agent.q_net_target.q_net[-1].bias[0] = -math.inf
    with pytest.raises(DivergenceError, match="is inf, value_limit"):
        agent.learn(40)


def test_editors_know_the_arguments_of_the_base():
    parameters = inspect.signature(DQN.__init__).parameters.keys()
    assert {*get_type_hints(BaseArguments)} == parameters - {
        *("self", "policy", "env", "_init_setup_model")
    }


@pytest.mark.parametrize("n_envs", [1, 3])
def test_masks_come_back_and_work_with_several_environments(n_envs, tmp_path):
    env = make_vec_env(lambda: ActionMasks(Counting()), n_envs)
    agent = agent_of(MVI, env, "MultiInputPolicy", train_freq=1)
    agent.learn(120)
    agent.save(tmp_path / "agent")
    loaded = MVI.load(tmp_path / "agent", env=env)
    seen = env.reset()
    assert torch.equal(loaded.q_values(seen), agent.q_values(seen))
    loaded.learn(60)


def test_a_mask_of_the_wrong_length_is_refused():
    space = spaces.Dict({"x": spaces.Box(0, 1, (2,)), "action_mask": spaces.MultiBinary(3)})
    with pytest.raises(ValueError, match="one number for each of the 2 actions"):
        agent_of(MVI, Observed(space), "MultiInputPolicy")


def test_an_argument_is_saved_as_it_was_given(tmp_path):
    class Scaled(MVI):
        def __init__(self, policy, env, scale=1.0, **options):
            super().__init__(policy, env, **options)
            self.scale = 10 * scale

    agent_of(Scaled, scale=2.0).save(tmp_path / "agent")
    assert Scaled.load(tmp_path / "agent").scale == 20.0


def test_a_schedule_of_ones_own_is_not_taken_for_a_linear_one(tmp_path):
    class Quadratic(SimpleLinearSchedule):
        def __call__(self, progress_remaining):
            return progress_remaining**2 * self.initial_value

    Quadratic.__name__ = "SimpleLinearSchedule"
    with pytest.warns(UserWarning, match="saved without learning_rate") as told:
        agent_of(MVI, learning_rate=Quadratic(1e-3)).save(tmp_path / "agent")
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "tree",
    [
        {"partial": [{"class": "ReplayBuffer"}, [], {"dict": {}}]},
        {"partial": [3, [], {"dict": {}}]},
        {"GoalSelectionStrategy": [17]},
        {"MultiDiscrete": [{"ndarray": None}, {"ndarray": None}, "<i8"]},
        {"Discrete": [3, 0, "<f4"]},
    ],
    ids=str,
)
def test_hostile_descriptions_are_refused(tree):
    arrays = {"x.0": np.array([2**60, 3]), "x.1": np.zeros(2, np.int64)}
    with pytest.raises(ValueError, match=r"partial|description|MultiDiscrete|integers|valid"):
        Decoder(arrays).decode(tree, "x")


def test_a_replay_buffer_of_no_environments_is_refused(tmp_path):
    arrays = {"dones": np.zeros((2**40, 0), np.float32)}
    safetensors.numpy.save_file(arrays, tmp_path / "replay.safetensors", {"kind": "x"})
    with pytest.raises(ValueError, match="must be of 1 environments"):
        agent_of(MVI).load_replay_buffer(tmp_path / "replay")
