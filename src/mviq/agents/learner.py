"""What MVI(q) adds to DQN and QRDQN: the target of the family, and less overhead."""

import math
import warnings
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import ActionNoise
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import (
    GymEnv,
    MaybeCallback,
    RolloutReturn,
    TrainFreq,
    TrainFrequencyUnit,
)
from stable_baselines3.common.utils import obs_as_tensor, should_collect_more_steps
from stable_baselines3.common.vec_env import VecEnv
from torch import Tensor

from mviq.agents import denormals
from mviq.agents.arguments import Acting, check_arguments, check_fit
from mviq.agents.diagnostics import (
    DivergenceError,
    largest,
    policy_diagnostics,
    target_residual,
)
from mviq.agents.networks import Network, as_function, channels_last, has_modes
from mviq.agents.replay import TransitionReplayBuffer, is_array
from mviq.agents.rollout import step, successors
from mviq.agents.targets import bellman_target, mean_outcome
from mviq.tsallis import Family
from mviq.tsallis.family import Form, PolicyMethod

Status = Literal["new", "learning", "finished", "stopped", "diverged", "failed"]
DIAGNOSE_EVERY = 100  # updates; often enough for a curve, too seldom to cost anything


class Learner(OffPolicyAlgorithm):
    """The part that ``MVI`` and ``QRMVI`` share; they say which networks and which loss.

    ``family`` is the algorithm as a point of the MVI(q) family, ``status`` how learning stands:
    new, learning, finished, stopped (by a callback), diverged or failed.
    """

    base: ClassVar[type[OffPolicyAlgorithm]]
    """The Stable-Baselines3 class whose arguments an agent takes besides its own."""
    exploration_rate: float
    max_grad_norm: Any
    target_update_interval: int
    _n_calls: int

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *arguments: Any,
        q: float = Family.q,
        temperature: float = Family.temperature,
        munchausen_alpha: float = Family.munchausen_alpha,
        form: Form = Family.form,
        clip: tuple[float, float] | None = Family.clip,
        entropy_weight: float = Family.entropy_weight,
        policy_method: PolicyMethod = Family.policy_method,
        acting: Acting = "epsilon_greedy",
        value_limit: float = 1e6,
        _init_setup_model: bool = True,
        **options: Any,
    ) -> None:
        own = {"acting": acting, "value_limit": value_limit}
        check_arguments(type(self), (policy, env, *arguments), options | own)
        self.family = Family(
            q, temperature, munchausen_alpha, form, clip, entropy_weight, policy_method
        )
        self.acting, self.value_limit = acting, value_limit
        self.status: Status = "new"
        self._replayed: Any = None  # the last update's observations, for diagnostics
        if options.get("policy_kwargs"):
            options["policy_kwargs"] = dict(options["policy_kwargs"])  # the bases write into it
        super().__init__(policy, env, *arguments, _init_setup_model=False, **options)  # type: ignore[call-arg, arg-type]
        _prefer_fused_adam(self.policy_kwargs)
        self._chosen_buffer = (self.replay_buffer_class, dict(self.replay_buffer_kwargs))
        if _init_setup_model:
            self._setup_model()

    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        """Return the online and the target network."""
        raise NotImplementedError

    def _loss(self, predicted: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the outcomes predicted at (s, a), and its gradient."""
        raise NotImplementedError

    def _setup_model(self) -> None:
        check_fit(self)
        plain = self.n_steps == 1 and not self.optimize_memory_usage
        if self.replay_buffer_class is None and plain and is_array(self.observation_space):
            self.replay_buffer_class = TransitionReplayBuffer
        self._tell_buffer_of_n_steps()
        with warnings.catch_warnings():  # that nobody has told it
            warnings.filterwarnings("ignore", message="`n_steps=")
            super()._setup_model()
        online, target = self._networks()
        channels_last(online)
        self._online: Network = as_function(online)
        self._target: Network = as_function(target)
        self._has_modes = has_modes(online)
        self._weights = list(online.parameters())

    def _tell_buffer_of_n_steps(self) -> None:
        """Give a buffer of n-step returns the agent's n and γ, as the base gives its own."""
        kind = self.replay_buffer_class
        if kind is None or not issubclass(kind, NStepReplayBuffer):
            return
        told = self.replay_buffer_kwargs
        if told.setdefault("gamma", self.gamma) != self.gamma:
            raise ValueError(
                f"gamma of the replay buffer must be the agent's {self.gamma!r}, "
                f"got {told['gamma']!r}"
            )
        if told.setdefault("n_steps", self.n_steps) != self.n_steps and self.n_steps != 1:
            raise ValueError(
                f"n_steps of the replay buffer must be the agent's {self.n_steps!r}, "
                f"got {told['n_steps']!r}"
            )

    def _set_training_mode(self, training: bool) -> None:
        if self._has_modes:
            self.policy.set_training_mode(training)

    # Learning

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 4,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Learn for a number of environment steps; see Stable-Baselines3.

        Raises ``DivergenceError``, with ``status`` "diverged", when values are NaN or explode.
        """
        self.status = "learning"
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        try:
            super().learn(
                total_timesteps, callback, log_interval, name, reset_num_timesteps, progress_bar
            )
        except BaseException as error:
            self.status = "diverged" if isinstance(error, DivergenceError) else "failed"
            raise
        done = self.num_timesteps >= self._total_timesteps
        self.status = "finished" if done else "stopped"
        return self

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make some updates from replayed transitions."""
        assert self.replay_buffer is not None
        self._set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        with denormals.flushed():
            for _ in range(gradient_steps):
                losses.append(self._update(self.replay_buffer, batch_size))
                self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        self.logger.record("train/loss", sum(losses) / len(losses))

    def _update(self, replay_buffer: ReplayBuffer, batch_size: int) -> float:
        samples = replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        discounts = self.gamma if samples.discounts is None else samples.discounts
        outcomes = self._online(samples.observations)
        with torch.inference_mode():
            evaluated = self._target_outcomes(samples)
            target = bellman_target(
                self.family,
                samples.rewards,
                samples.actions,
                samples.dones,
                discounts,
                evaluated,
            )
            chosen = samples.actions.unsqueeze(1).expand(-1, outcomes.shape[1], 1)
            predicted = outcomes.gather(2, chosen).squeeze(2)
            loss, slope = self._loss(predicted, target)
        # The gradient of the loss is known, so autograd is asked for that of the network alone.
        gradient = torch.zeros_like(outcomes).scatter_(2, chosen, slope.unsqueeze(2))
        value = self._descend(loss.item(), outcomes, gradient)
        if self._n_updates % DIAGNOSE_EVERY == 0:
            self._replayed = samples.observations
            self._log_policy(self._outcomes_at_s(samples, evaluated), samples.actions, predicted)
        return value

    @torch.inference_mode()
    def _outcomes_at_s(self, samples: Any, evaluated: Tensor) -> Tensor:
        if self.family.munchausen_alpha > 0:
            return evaluated[len(samples.actions) :]
        return self._target(samples.observations)

    def _target_outcomes(self, samples: Any) -> Tensor:
        """Return the target network's outcomes at s', then at s where Munchausen needs them."""
        states = samples.next_observations
        if self.family.munchausen_alpha > 0:
            states = _concatenate(states, samples.observations)
        outcomes = self._target(states)
        peak = largest(outcomes)
        if not peak <= self.value_limit:
            raise self._divergence(f"an action value of the target network is {peak:g}")
        return outcomes

    def _descend(self, loss: float, outcomes: Tensor, gradient: Tensor) -> float:
        """Take one step of the optimiser, unless it would spoil the weights; return the loss."""
        if not math.isfinite(loss):
            raise self._divergence(f"the loss is {loss}")
        optimizer = self.policy.optimizer
        optimizer.zero_grad()
        outcomes.backward(gradient)  # type: ignore[no-untyped-call]
        gradients = [w.grad for w in self._weights if w.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients).item()
        if not math.isfinite(norm):
            raise self._divergence(f"the norm of the gradient is {norm}")
        limit = math.inf if self.max_grad_norm is None else self.max_grad_norm
        if norm > limit:
            torch._foreach_mul_(gradients, limit / (norm + 1e-6))
        optimizer.step()
        return loss

    def _divergence(self, what: str) -> DivergenceError:
        return DivergenceError(
            f"learning diverged at step {self.num_timesteps} (update {self._n_updates}): {what}, "
            f"the limit is {self.value_limit:g}; {self.family}. Try a smaller learning rate, "
            "munchausen_alpha or temperature, or a clip"
        )

    @torch.no_grad()
    def _log_policy(self, outcomes: Tensor, actions: Tensor, predicted: Tensor) -> None:
        self.logger.record_mean("train/q_values", predicted.mean().item())
        found = policy_diagnostics(self.family, mean_outcome(outcomes), actions)
        for name, value in found.items():
            self.logger.record_mean(name, value)

    def _on_step(self) -> None:
        """Follow the schedules; where the target network changes, log how far policies moved."""
        every = max(self.target_update_interval // self.n_envs, 1)
        if self._replayed is None or (self._n_calls + 1) % every != 0:
            super()._on_step()
            return
        with torch.inference_mode():
            before = mean_outcome(self._target(self._replayed))
        super()._on_step()
        with torch.inference_mode():
            after = mean_outcome(self._target(self._replayed))
            for name, value in target_residual(self.family, before, after).items():
                self.logger.record_mean(name, value)
        self._replayed = None

    # Acting

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
        actions = self._choose(tensor)
        return (actions if vectorized else actions[0]), state

    @torch.inference_mode()
    def q_values(self, observations: Any) -> Tensor:
        """Return the action values (batch, actions) of observations, one or a batch."""
        return mean_outcome(self._online(self.policy.obs_to_tensor(observations)[0]))

    @torch.inference_mode()
    def _choose(self, observations: Any) -> np.ndarray[Any, Any]:
        """Return greedy actions, or samples of the policy where acting says so."""
        q_values = mean_outcome(self._online(observations))
        if self.acting == "sample":
            actions = torch.multinomial(self.family.policy(q_values), 1).squeeze(1)
        else:
            actions = q_values.argmax(1)
        return np.asarray(actions.cpu().numpy())

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
            actions = self._choose(obs_as_tensor(self._last_obs, self.device))
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
        self._set_training_mode(False)
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


def _concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {key: torch.cat((first[key], second[key])) for key in first}
    return torch.cat((first, second))


def _prefer_fused_adam(policy_kwargs: dict[str, Any]) -> None:
    """Use the fused form of Adam, one pass over memory, unless the user said otherwise."""
    options = dict(policy_kwargs.get("optimizer_kwargs") or {})
    adam = policy_kwargs.get("optimizer_class", torch.optim.Adam) is torch.optim.Adam
    if adam and not {"foreach", "fused", "differentiable", "capturable"} & options.keys():
        policy_kwargs["optimizer_kwargs"] = {**options, "fused": True}
