"""How an agent acts while it learns: which action it takes, and what it keeps of a step."""

from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import RolloutReturn, TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import should_collect_more_steps
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from mviq.agents.arguments import Acting
from mviq.agents.networks import Network
from mviq.agents.rollout import step, successors
from mviq.agents.targets import mean_outcome
from mviq.tsallis import Family


class Actor(OffPolicyAlgorithm):
    """Acts by the online network: greedy but for ε, or by samples of the policy."""

    acting: Acting
    family: Family
    exploration_rate: float
    _online: Network

    def predict(
        self,
        observation: np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]],
        state: tuple[np.ndarray[Any, Any], ...] | None = None,
        episode_start: np.ndarray[Any, Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray[Any, Any], tuple[np.ndarray[Any, Any], ...] | None]:
        """Return the greedy action if deterministic, else one by the way of acting chosen."""
        if deterministic or self.acting == "epsilon_greedy":
            return super().predict(observation, state, episode_start, deterministic)
        self.policy.set_training_mode(False)
        tensor, vectorized = self.policy.obs_to_tensor(observation)
        with torch.inference_mode():
            actions = self._choose(mean_outcome(self._online(tensor)))
        return (actions if vectorized else actions[0]), state

    @torch.inference_mode()
    def q_values(self, observations: Any) -> Tensor:
        """Return the action values (batch, actions) of observations, one or a batch."""
        return mean_outcome(self._online(self.policy.obs_to_tensor(observations)[0]))

    def _choose(self, q_values: Tensor) -> np.ndarray[Any, Any]:
        """Return greedy actions, or samples of the policy where acting says so."""
        if self.acting == "sample":
            q_values = torch.multinomial(self.family.policy(q_values), 1)
            return np.asarray(q_values.squeeze(1).cpu().numpy())
        return np.asarray(q_values.cpu().numpy().argmax(1))

    def _sample_action(
        self, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Return exploring actions twice: to take and to store. Draws as Stable-Baselines3 does."""
        warming_up = self.num_timesteps < learning_starts
        if warming_up or (
            self.acting == "epsilon_greedy" and np.random.rand() < self.exploration_rate  # noqa: NPY002
        ):
            actions = np.array([self.action_space.sample() for _ in range(n_envs)])
        else:
            assert self._last_obs is not None
            actions = self._choose(mean_outcome(self._online.at(self._last_obs)))
        return actions, actions

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
        """Act and store transitions, as Stable-Baselines3 does but without its copies."""
        if env.num_envs > 1 and train_freq.unit is not TrainFrequencyUnit.STEP:
            raise ValueError("train_freq must be in steps where there are several environments")
        if self._online.has_modes:
            self.policy.set_training_mode(False)
        callback.on_rollout_start()
        num_collected_steps, num_collected_episodes = 0, 0
        while should_collect_more_steps(train_freq, num_collected_steps, num_collected_episodes):
            actions, buffer_actions = self._sample_action(learning_starts, n_envs=env.num_envs)
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
            for _ in range(int(dones.sum())):
                num_collected_episodes += 1
                self._episode_num += 1
                if log_interval is not None and self._episode_num % log_interval == 0:
                    self.dump_logs()
        callback.on_rollout_end()
        return RolloutReturn(num_collected_steps * env.num_envs, num_collected_episodes, True)

    def _store_transition(
        self,
        replay_buffer: ReplayBuffer,
        buffer_action: np.ndarray[Any, Any],
        new_obs: np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]],
        reward: np.ndarray[Any, Any],
        dones: np.ndarray[Any, Any],
        infos: list[dict[str, Any]],
    ) -> None:
        if self._vec_normalize_env is not None or isinstance(new_obs, dict):
            super()._store_transition(replay_buffer, buffer_action, new_obs, reward, dones, infos)
            return
        following = successors(new_obs, dones, infos)
        replay_buffer.add(self._last_obs, following, buffer_action, reward, dones, infos)  # type: ignore[arg-type]
        self._last_obs = self._last_original_obs = new_obs
