"""What MVI(q) adds to DQN and QRDQN: the target of the family, and less overhead."""

import math
import warnings
from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import (
    GymEnv,
    MaybeCallback,
)
from torch import Tensor

from mviq.agents import denormals, descent
from mviq.agents.arguments import Acting, check_arguments, check_fit
from mviq.agents.diagnostics import (
    DivergenceError,
    largest,
    policy_diagnostics,
    target_residual,
)
from mviq.agents.networks import as_network, channels_last
from mviq.agents.replay import TransitionReplayBuffer, is_array
from mviq.agents.state import Status, get_state, set_state
from mviq.agents.targets import bellman_target, mean_outcome
from mviq.tsallis import Family
from mviq.tsallis.family import Form, PolicyMethod

_ENDINGS: dict[type, Status] = {KeyboardInterrupt: "stopped", DivergenceError: "diverged"}
DIAGNOSE_EVERY = 100  # updates; often enough for a curve, too seldom to cost anything


class Learner(OffPolicyAlgorithm):
    """The part that ``MVI`` and ``QRMVI`` share; they say which networks and which loss.

    ``family`` is the algorithm as a point of the MVI(q) family, ``status`` how learning stands:
    new, learning, finished, stopped (by a callback or Ctrl-C), diverged or failed.
    """

    base: ClassVar[type[OffPolicyAlgorithm]]
    """The Stable-Baselines3 class whose arguments an agent takes besides its own."""
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
        if options.get("policy_kwargs") is not None:
            options["policy_kwargs"] = dict(options["policy_kwargs"])  # the bases write into it
        super().__init__(policy, env, *arguments, _init_setup_model=False, **options)  # type: ignore[call-arg, arg-type]
        _prefer_fused_adam(self.policy_kwargs)
        self._chosen_buffer = (self.replay_buffer_class, dict(self.replay_buffer_kwargs))
        if _init_setup_model:
            self._setup_model()

    q = property(lambda self: self.family.q)
    temperature = property(lambda self: self.family.temperature)
    munchausen_alpha = property(lambda self: self.family.munchausen_alpha)

    @abstractmethod
    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        """Return the online and the target network."""

    @abstractmethod
    def _loss(self, predicted: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of the outcomes predicted at (s, a), and its gradient."""

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
        self._online, self._target = as_network(online), as_network(target)

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

    def get_state(self) -> dict[str, Any]:
        """Return a copy of the agent's state: everything that learning changes.

        An agent that is built with the same arguments and given this state learns exactly as this
        one does, if replay buffer, environment and random generators are in the same state too.
        """
        return get_state(self)

    def set_state(self, state: dict[str, Any]) -> None:
        """Give the agent a state of ``get_state``; one that does not fit changes nothing."""
        set_state(self, state)

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
            self.status = _ENDINGS.get(type(error), "failed")
            raise
        done = self.num_timesteps >= self._total_timesteps
        self.status = "finished" if done else "stopped"
        return self

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make some updates from replayed transitions."""
        assert self.replay_buffer is not None
        if self._online.has_modes:
            self.policy.set_training_mode(True)
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
        now, needed = self._states(samples)
        outcomes, pull_back = self._online.differentiable(now)
        with torch.inference_mode():
            evaluated = self._target.forward(needed)
            self._check_size(evaluated)
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
        # The gradient of the loss is known, so the network is asked for its own alone.
        gradient = torch.zeros_like(outcomes).scatter_(2, chosen, slope.unsqueeze(2))
        value = loss.item()
        if not math.isfinite(value):
            raise self._divergence(f"the loss is {value}")
        self._descend(pull_back(gradient))
        if self._n_updates % DIAGNOSE_EVERY == 0:
            self._replayed = samples.observations
            self._log_policy(self._outcomes_at_s(samples, evaluated), samples.actions, predicted)
        return value

    def _states(self, samples: Any) -> tuple[Any, Any]:
        """Return s, and what the target network is asked for: s', then s if Munchausen needs it."""
        now, then = samples.observations, samples.next_observations
        if self.family.munchausen_alpha == 0:
            return self._online.prepare(now), self._target.prepare(then)
        both = self._target.prepare(_concatenate(then, now))
        return _rows(both, len(samples.actions)), both

    @torch.inference_mode()
    def _outcomes_at_s(self, samples: Any, evaluated: Tensor) -> Tensor:
        if self.family.munchausen_alpha > 0:
            return evaluated[len(samples.actions) :]
        return self._target(samples.observations)

    def _check_size(self, outcomes: Tensor) -> None:
        peak = largest(outcomes)
        if not peak <= self.value_limit:
            raise self._divergence(f"an action value of the target network is {peak:g}")

    def _descend(self, gradients: list[Tensor]) -> None:
        """Take one step of the optimiser, unless it would spoil the weights."""
        norm = math.hypot(*(torch.linalg.vector_norm(g).item() for g in gradients))
        if not math.isfinite(norm):
            raise self._divergence(f"the norm of the gradient is {norm}")
        limit = math.inf if self.max_grad_norm is None else self.max_grad_norm
        if norm > limit:
            torch._foreach_mul_(gradients, limit / (norm + 1e-6))
        descent.step(self.policy.optimizer)

    def _divergence(self, what: str) -> DivergenceError:
        return DivergenceError(
            f"learning diverged at step {self.num_timesteps} (update {self._n_updates}): {what}, "
            f"the limit is {self.value_limit:g}. Try a smaller learning rate, munchausen_alpha or "
            "temperature, a clip, or to copy the target network less often"
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


def _concatenate(first: Any, second: Any) -> Any:
    if isinstance(first, dict):
        return {key: torch.cat((first[key], second[key])) for key in first}
    return torch.cat((first, second))


def _rows(batch: Any, first: int) -> Any:
    """Return the rows of a batch from a number on."""
    if isinstance(batch, dict):
        return {key: rows[first:] for key, rows in batch.items()}
    return batch[first:]


def _prefer_fused_adam(policy_kwargs: dict[str, Any]) -> None:
    """Use the fused form of Adam, one pass over memory, unless the user said otherwise."""
    options = dict(policy_kwargs.get("optimizer_kwargs") or {})
    adam = policy_kwargs.get("optimizer_class", torch.optim.Adam) is torch.optim.Adam
    if adam and not {"foreach", "fused", "differentiable", "capturable"} & options.keys():
        policy_kwargs["optimizer_kwargs"] = {**options, "fused": True}
