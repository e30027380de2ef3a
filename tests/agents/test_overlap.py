"""Learning while the environments work: the same updates, made one step later."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mviq import envs
from mviq.agents import IQMVI, MVI, DivergenceError
from problems import made


class Overlapping(DummyVecEnv):
    """Two environments that would work by themselves between ``step_async`` and ``step_wait``."""

    overlaps = True

    def __init__(self, events):
        super().__init__([lambda: gym.make("CartPole-v1")] * 2)
        self.events = events

    def step_async(self, actions):
        self.events.append("async")
        super().step_async(actions)

    def step_wait(self):
        self.events.append("wait")
        return super().step_wait()


def noting(cls, events):
    """Return a class of agents that notes its updates."""

    class Noting(cls):
        def _update(self, batch_size):
            events.append(f"update from {self.replay_buffer.size()}")
            return super()._update(batch_size)

    return Noting


def learnt(steps, overlaps=True, cls=MVI, **options):
    env = Overlapping([])
    env.overlaps = overlaps
    return made(cls, env, learning_starts=40, train_freq=2, **options).learn(steps)


def weights(agent):
    return torch.cat([weight.flatten() for weight in agent.policy.parameters()])


def test_updates_are_made_while_the_first_step_of_a_rollout_is():
    events = []

    class Steps(BaseCallback):
        def _on_step(self):
            events.append("step")
            return True

        def _on_rollout_end(self):
            events.append("end")

    env = Overlapping(events)
    agent = made(noting(MVI, events), env, learning_starts=4, train_freq=3, gradient_steps=2)
    agent.learn(18, callback=Steps())
    quiet = ["async", "wait", "step"]
    update = ["update from 3"] * 2, ["update from 6"] * 2
    rollouts = [["async", *updates, "wait", "step", *2 * quiet, "end"] for updates in update]
    assert events == [*3 * quiet, "end", *rollouts[0], *rollouts[1]]


def test_the_updates_are_those_without_overlap_where_actions_do_not_depend_on_them(monkeypatch):
    """The actions of a step are chosen before the updates; here they are random, and as before."""
    monkeypatch.setattr(MVI, "_explores", lambda agent: True)
    meanwhile, afterwards = learnt(204), learnt(200, overlaps=False)
    assert meanwhile._n_updates == afterwards._n_updates == 40
    assert torch.equal(weights(meanwhile), weights(afterwards))


@pytest.mark.parametrize("cls", [MVI, IQMVI])
def test_the_same_seed_is_the_same_run_in_one_piece_or_two(cls):
    once = learnt(200, cls=cls)
    twice = learnt(120, cls=cls)
    twice.env.reset = lambda: twice._last_obs  # go on where it was
    twice.learn(80, reset_num_timesteps=False)
    assert torch.equal(weights(once), weights(twice))
    assert torch.equal(weights(once), weights(learnt(200, cls=cls)))
    assert not torch.equal(weights(once), weights(learnt(200, overlaps=False, cls=cls)))


def test_the_same_seed_is_the_same_run_with_emulators():
    found = []
    for _ in range(2):
        env = envs.make("ALE/Pong-v5", 4, seed=0, protocol="machado", backend="overlap")
        agent = made(MVI, env, "CnnPolicy", learning_starts=8, train_freq=1, batch_size=4)
        found.append(weights(agent.learn(48)))
        env.close()
    assert agent._n_updates == 9
    assert torch.equal(*found)


@pytest.mark.parametrize(("gradient_steps", "updates"), [(0, 0), (-1, 8), (3, 6)])
def test_as_many_updates_as_without(gradient_steps, updates):
    agent = learnt(52, gradient_steps=gradient_steps)
    assert agent._n_updates == updates
    agent.train(1, 4)
    assert agent._n_updates == updates + 1


def test_a_loaded_agent_without_replay_collects_first(tmp_path):
    learnt(60).save(tmp_path / "agent")
    again = MVI.load(tmp_path / "agent", env=Overlapping([]))
    again.learn(8, reset_num_timesteps=False)
    assert again._n_updates == learnt(60)._n_updates + 1


def test_a_step_during_which_learning_failed_is_no_transition():
    agent = made(MVI, Overlapping([]), learning_starts=4, train_freq=2, value_limit=1e-9)
    with pytest.raises(DivergenceError):
        agent.learn(20)
    agent.value_limit, before = 1e6, agent.replay_buffer.size()
    agent.learn(2, reset_num_timesteps=False)
    first = agent.replay_buffer.observations[before]
    assert np.abs(first).max() < 0.05  # the beginning of episodes, as after a reset


def test_a_train_of_ones_own_is_called_once_for_each_rollout():
    class Own(MVI):
        calls = 0

        def train(self, gradient_steps, batch_size=100):
            self.calls += 1
            super().train(gradient_steps, batch_size)

    agent = learnt(52, cls=Own)
    assert agent.calls == agent._n_updates == learnt(52, overlaps=False)._n_updates


def test_no_step_is_left_half_done_where_learning_diverges():
    env = envs.make("ALE/Pong-v5", 2, seed=0, protocol="machado", backend="overlap")
    options = {"learning_starts": 4, "value_limit": 1e-9, "train_freq": 1, "batch_size": 4}
    agent = made(MVI, VecNormalize(env, norm_obs=False), "CnnPolicy", **options)
    with pytest.raises(DivergenceError):
        agent.learn(20)
    observations, *_ = env.step(np.zeros(2, int))
    assert observations.shape == (2, 4, 84, 84)
    agent.value_limit = 1e6
    assert agent.learn(20).status == "finished"
    env.close()
