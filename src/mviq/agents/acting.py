"""Acting while learning: choose actions, step the environments and store transitions."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import should_collect_more_steps
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn
from torch import Tensor

from mviq.agents.arguments import Acting
from mviq.agents.compiled import CompiledNetwork
from mviq.agents.networks import AutogradNetwork, has_mask
from mviq.agents.targets import mean_outcome
from mviq.agents.update import Trainer
from mviq.processor import blas_threads_of_torch


class Actor(Trainer):
    """Acts with the online network: ε-greedily, or by sampling from the policy.

    If the attribute ``overlaps`` of the environments is true, the updates after a rollout are made
    while the environments take the first step of the next rollout. They use the same transitions;
    but the actions of that step are chosen before these updates, with older weights, and the
    updates after the last rollout are not made until there is another.
    """

    acting: Acting
    exploration_rate: float

    def predict(
        self,
        observation: np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]],
        state: tuple[np.ndarray[Any, Any], ...] | None = None,
        episode_start: np.ndarray[Any, Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray[Any, Any], tuple[np.ndarray[Any, Any], ...] | None]:
        """Return the greedy action if deterministic, otherwise one chosen as ``acting`` says."""
        if not has_mask(observation) and (deterministic or self.acting == "epsilon_greedy"):
            return super().predict(observation, state, episode_start, deterministic)
        self.policy.set_training_mode(False)
        tensor: Any
        tensor, vectorized = self.policy.obs_to_tensor(observation)
        if deterministic or not self._explores():
            actions = self._choose(self._evaluated(tensor), greedy=deterministic)
        else:
            actions = self._random_actions(tensor["action_mask"].cpu().numpy())
        return (actions if vectorized else actions.squeeze(0)), state

    def q_values(self, observations: Any) -> Tensor:
        """Return the action values (batch, actions) of one observation or a batch.

        Tensors must be a batch, such as that of an update.
        """
        part = next(iter(observations.values())) if isinstance(observations, dict) else observations
        if not isinstance(part, Tensor):
            observations, _ = self.policy.obs_to_tensor(observations)
        return self._evaluated(observations)

    @torch.no_grad()
    @blas_threads_of_torch()
    def _evaluated(self, observations: Any) -> Tensor:
        """Return action values with the network in evaluation mode, which ``train`` leaves."""
        self._choose_networks()
        network = self._networks()[0]
        training = network.training and isinstance(self._online, AutogradNetwork)
        if training:
            network.set_training_mode(False)
        outcomes = self._online.predict(*self._online.prepare(observations))
        if training:  # an update may be under way, in which ``target`` asks for values
            network.set_training_mode(True)
        return mean_outcome(*outcomes)

    def _explores(self) -> bool:
        """Return whether the next actions are random, drawn as in Stable-Baselines3."""
        return self.acting == "epsilon_greedy" and np.random.rand() < self.exploration_rate  # noqa: NPY002

    def _random_actions(self, masks: Iterable[Any]) -> np.ndarray[Any, Any]:
        """Return random actions among those that masks allow."""
        masks = [np.asarray(mask, np.int8) for mask in masks]
        return np.array([self.action_space.sample(mask) for mask in masks])

    def _choose(self, q_values: Tensor, greedy: bool = False) -> np.ndarray[Any, Any]:
        """Return greedy actions, or samples of the policy if ``acting`` is ``sample``."""
        if self.acting == "sample" and not greedy:
            samples = torch.multinomial(self.family.policy(q_values), 1)
            return np.asarray(samples.squeeze(1).cpu().numpy())
        return np.asarray(q_values.cpu().numpy().argmax(1))

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return exploratory actions, to take and to store, drawn as in Stable-Baselines3."""
        overridden = type(self).predict is not Actor.predict or "predict" in vars(self)
        if type(self._online) is AutogradNetwork or overridden:
            return self._sample_by_policy(learning_starts, n_envs)
        if self.num_timesteps < learning_starts or self._explores():
            actions = np.array([self.action_space.sample() for _ in range(n_envs)])
        elif isinstance(self._online, CompiledNetwork) and self.acting == "epsilon_greedy":
            actions = self._online.greedy(self._last_obs)  # type: ignore[arg-type]
        else:
            outcomes = self._online.predict(*self._online.prepare(self._last_obs))
            actions = self._choose(mean_outcome(*outcomes))
        return actions, actions

    def _sample_by_policy(self, learning_starts: int, n_envs: int) -> tuple[Any, Any]:
        """Choose actions by ``predict``, for custom policies and an overridden ``predict``."""
        seen: Any = self._last_obs
        if self.num_timesteps < learning_starts and has_mask(seen):
            actions = self._random_actions(seen["action_mask"])
            return actions, actions
        return super()._sample_action(learning_starts, None, n_envs)

    @blas_threads_of_torch()
    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: ReplayBuffer,
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """Collect and store transitions as Stable-Baselines3 does, with fewer copies."""
        if env.num_envs > 1 and train_freq.unit is not TrainFrequencyUnit.STEP:
            raise ValueError("train_freq must be in steps where there are several environments")
        if isinstance(self._online, AutogradNetwork):
            self.policy.set_training_mode(False)
        callback.on_rollout_start()
        num_collected_steps, num_collected_episodes = 0, 0
        own = type(self).train is not Trainer.train or "train" in vars(self)
        overlaps = train_freq.unit is TrainFrequencyUnit.STEP and not own
        overlaps = overlaps and getattr(env, "overlaps", False)
        while should_collect_more_steps(train_freq, num_collected_steps, num_collected_episodes):
            actions, buffer_actions = self._sample_action(learning_starts, n_envs=env.num_envs)
            if overlaps and num_collected_steps == 0:
                new_obs, rewards, dones, infos = self._learn_meanwhile(env, actions, train_freq)
            else:
                new_obs, rewards, dones, infos = step(env, actions)
            self.num_timesteps += env.num_envs
            num_collected_steps += 1
            callback.update_locals(locals())
            if not callback.on_step():
                return RolloutReturn(num_collected_steps * env.num_envs, 0, False)
            self._update_info_buffer(infos, dones)
            self._store_transition(replay_buffer, buffer_actions, new_obs, rewards, dones, infos)  # type: ignore[arg-type]
            self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
            self._on_step()
            for _ in range(np.count_nonzero(dones)):
                num_collected_episodes += 1
                self._episode_num += 1
                if log_interval is not None and self._episode_num % log_interval == 0:
                    self.dump_logs()
        callback.on_rollout_end()
        self._postponed = overlaps
        return RolloutReturn(num_collected_steps * env.num_envs, num_collected_episodes, True)

    def _learn_meanwhile(
        self, env: VecEnv, actions: np.ndarray[Any, Any], train_freq: TrainFreq
    ) -> VecEnvStepReturn:
        """Step the environments, and meanwhile make the updates due after the previous rollout."""
        assert self.replay_buffer is not None
        steps = train_freq.frequency * env.num_envs
        updates = self.gradient_steps if self.gradient_steps >= 0 else steps
        due = self.num_timesteps > self.learning_starts and self.replay_buffer.size() > 0
        self._postponed = False
        env.step_async(actions)
        try:
            if due and updates:
                self.train(updates, self.batch_size)
                self.policy.set_training_mode(False)
        except BaseException:  # complete the step, whose transition is not stored
            env.step_wait()
            self._last_obs = None  # the next ``learn`` resets the environments
            raise
        return env.step_wait()

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: np.ndarray[Any, Any],
        new_obs: np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]],
        reward: np.ndarray[Any, Any],
        dones: np.ndarray[Any, Any],
        infos: list[dict[str, Any]],
    ) -> None:
        if not replay_buffer.handle_timeout_termination:  # SB3 keeps the mark of a cut-off episode
            replay_buffer.timeouts[replay_buffer.pos] = 0
        if self._vec_normalize_env is not None or isinstance(new_obs, dict):
            super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
            return
        following = new_obs
        if np.count_nonzero(dones):  # there new_obs is the first observation of the next episode
            following = new_obs.copy()
            for i in np.flatnonzero(dones):
                following[i] = infos[i].get("terminal_observation", new_obs[i])
        replay_buffer.add(self._last_obs, following, buffer_action, reward, dones, infos)  # type: ignore[arg-type]
        self._last_obs = self._last_original_obs = new_obs


def step(env: VecEnv, actions: np.ndarray[Any, Any]) -> VecEnvStepReturn:
    """Return ``env.step(actions)``, with fewer copies for a plain ``DummyVecEnv``.

    ``DummyVecEnv`` makes deep copies of its buffers and of the infos at every step. The infos of
    a step are new dictionaries already, and the array of observations needs only a plain copy.
    """
    if type(env) is not DummyVecEnv or env.keys != [None]:
        return env.step(actions)
    observations = env.buf_obs[None]  # type: ignore[index]
    for i, single in enumerate(env.envs):
        observation, env.buf_rews[i], terminated, truncated, info = single.step(actions[i])
        env.buf_dones[i] = terminated or truncated
        info["TimeLimit.truncated"] = truncated and not terminated
        if terminated or truncated:
            info["terminal_observation"] = observation
            observation, env.reset_infos[i] = single.reset()
        observations[i] = observation
        env.buf_infos[i] = info
    return observations.copy(), env.buf_rews.copy(), env.buf_dones.copy(), list(env.buf_infos)
