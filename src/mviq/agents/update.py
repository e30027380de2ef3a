"""One update of MVI(q): from replayed transitions (s, a, r, s', d) to new weights.

    y_j = r + α m(s,a) + γ(1−d) [ Σ_b π(b|s') z_j(s',b) + c τ S_q(π(·|s')) ]

z are the outcomes that the target network predicts for every action: the quantiles of the return,
or one action value. Their mean over j is Q, and π is the Tsallis policy of Q. The online network
learns to predict y at (s, a).
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import Schedule
from torch import Tensor, nn

from mviq.agents.compilable import fingerprint, make_networks
from mviq.agents.compiled import COMPILED_FORMS, CompiledNetwork, CompiledUpdate
from mviq.agents.diagnostics import DivergenceError, policy_diagnostics, target_residual
from mviq.agents.losses import huber, quantile_huber
from mviq.agents.networks import AutogradNetwork, Network, has_mask
from mviq.agents.targets import bellman_target, mean_outcome
from mviq.arrays import Array
from mviq.processor import quick_arithmetic
from mviq.tsallis import Family

_VALUE, _LOSS = "an action value of the target network", "the loss"
_NORM = "the norm of the gradient"
DIAGNOSE_EVERY = 100  # updates; often enough for a curve, too seldom to cost anything


def _are_finite(numbers: Any) -> bool:
    tensors = numbers.values() if isinstance(numbers, dict) else [numbers]
    return all(bool(tensor.isfinite().all()) for tensor in tensors)


class Trainer(OffPolicyAlgorithm):
    """The part of an agent that learns from replayed transitions."""

    family: Family
    value_limit: float
    replay_buffer: Any
    _schedules: dict[str, Schedule]
    max_grad_norm: Any
    target_update_interval: int
    _n_calls: int
    _loss: Any
    """Maps predicted outcomes at (s, a) and their targets to the loss and its gradient.

    If the network draws ``fractions``, they are its third argument."""
    _drawing: Callable[[], AbstractContextManager[None]] = nullcontext
    """Makes a context in which the networks predict what an update needs of them."""
    _online: Network
    _target: Network
    _compiled: CompiledUpdate | None
    _modules: Sequence[nn.Module] = ()
    _fingerprint: Any = None
    _replayed: Any = None  # observations of the last update that was diagnosed
    _postponed = False  # whether the next rollout makes these updates, not ``train``

    @abstractmethod
    def _follow_schedules(self) -> None:
        """Set the scheduled numbers to their current values."""

    @abstractmethod
    def _networks(self) -> tuple[BasePolicy, BasePolicy]:
        """Return the online and the target network."""

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make ``gradient_steps`` updates from replayed transitions."""
        if self._postponed:
            self._postponed = False
            return
        self._choose_networks()
        if isinstance(self._online, AutogradNetwork):
            self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        with quick_arithmetic():
            for _ in range(gradient_steps):
                losses.append(self._update(batch_size))
                self._n_updates += 1
        self.logger.record("train/n_updates", self._n_updates, exclude="tensorboard")
        if losses:
            self.logger.record("train/loss", sum(losses) / len(losses))

    def _update(self, batch_size: int) -> float:
        """Make one update and return its loss."""
        assert self.replay_buffer is not None
        batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
        by = self._by_autograd if self._compiled is None else self._by_compiled_loops
        loss, predicted = by(batch)
        if self._n_updates % DIAGNOSE_EVERY == 0:
            self._log_policy(batch, predicted)
        return loss

    def _by_autograd(self, batch: Any) -> tuple[float, float]:
        """Make one update; return its loss and the mean prediction."""
        online = self._online
        assert isinstance(online, AutogradNetwork)
        s, s_next = online.prepare(batch.observations, batch.next_observations)
        with torch.no_grad():
            asked = [s_next] if self.family.munchausen_alpha == 0 else [s, s_next]
            with self._drawing():
                *before, after = self._target.predict(*asked)
            for z in (*before, after):
                self._check(_VALUE, z, self.value_limit, batch)
            target = self.target(batch, after, *before)
        with self._drawing():
            predicted = online.forward(s)
        with torch.no_grad():
            chosen = batch.actions.unsqueeze(1).expand(-1, predicted.shape[1], 1)
            at_action = predicted.gather(2, chosen).squeeze(2)
            implicit = hasattr(online.network, "draw_fractions")
            fractions = [online.network.fractions] if implicit else []
            loss, slope = self._loss(at_action, target, *fractions)
            self._check(_LOSS, float(loss), math.inf, batch)
            weights = self._importance_weights(len(slope))
            if weights is not None:
                slope *= slope.new_tensor(weights).unsqueeze(1)
                errors = (target.unsqueeze(1) - at_action.unsqueeze(2)).abs().mean((1, 2))
                self.replay_buffer.update_priorities(errors.cpu().numpy())
            gradient = torch.zeros_like(predicted).scatter_(2, chosen, slope.unsqueeze(2))
        norm = online.backward(gradient)
        self._check(_NORM, norm, math.inf, batch)
        online.step(self.policy.optimizer, min(1.0, self._norm_limit() / (norm + 1e-6)))
        return float(loss), float(at_action.mean())

    def _by_compiled_loops(self, batch: Any) -> tuple[float, float]:
        """Make one update by compiled kernels: the same as ``_by_autograd``, up to rounding."""
        assert self._compiled is not None
        limits = float(self.value_limit), self._norm_limit()
        numbers = self.family, self.gamma, limits, self.policy.optimizer
        weights = self._importance_weights(len(batch.actions))
        weighted = np.empty(0) if weights is None else weights
        errors = np.empty_like(weighted)
        with self._drawing():
            value, loss, norm, predicted = self._compiled(batch, *numbers, (weighted, errors))
        self._check(_VALUE, value, self.value_limit, batch)
        self._check(_LOSS, loss, math.inf, batch)
        if weights is not None:
            self.replay_buffer.update_priorities(errors)
        self._check(_NORM, norm, math.inf, batch)
        return loss, predicted

    def _importance_weights(self, size: int) -> Array | None:
        """Return the weights of the gradients of a batch, None if its replay has none."""
        weigh = getattr(self.replay_buffer, "importance_weights", None)
        return weigh and np.full(size, weigh(self._current_progress_remaining), float)

    def _norm_limit(self) -> float:
        return math.inf if self.max_grad_norm is None else float(self.max_grad_norm)

    def target(self, batch: Any, next_outcomes: Tensor, outcomes: Tensor | None = None) -> Tensor:
        """Return the targets y at (s, a); override it for a custom target."""
        discounts = self.gamma if batch.discounts is None else batch.discounts
        transitions = batch.rewards, batch.actions, batch.dones, discounts
        return bellman_target(self.family, *transitions, next_outcomes, outcomes)

    def _check(self, what: str, x: Tensor | float, limit: float, batch: Any) -> None:
        """Raise ``DivergenceError`` if a number is NaN, infinite or beyond a limit."""
        size = x if isinstance(x, float) else max(abs(y.item()) for y in torch.aminmax(x))
        if not (size <= limit and math.isfinite(size)):
            self._diverge(what, x, size, limit, batch)

    def _diverge(self, what: str, x: Any, size: float, limit: float, batch: Any) -> None:
        if has_mask(batch.observations) and isinstance(x, Tensor):
            available = x[x != -math.inf]  # −∞ marks masked actions
            if 0 < len(available) < x.numel():
                self._check(what, available, limit, batch)
                return
        when = f"at step {self.num_timesteps} (update {self._n_updates})"
        parts = "rewards", "observations", "next_observations"
        wrong = [name for name in parts if not _are_finite(getattr(batch, name))]
        if wrong:
            raise DivergenceError(
                f"learning stopped {when}: {wrong[0].replace('_', ' ')} from the environment "
                "are NaN or infinite"
            )
        raise DivergenceError(
            f"learning diverged {when}: "
            f"{what} is {size:g}{'' if limit == math.inf else f', value_limit is {limit:g}'}. "
            "Try a smaller learning rate, munchausen_alpha or temperature, a clip, or to copy "
            "the target network less often"
        )

    @torch.no_grad()
    def _log_policy(self, batch: Any, predicted: float) -> None:
        self._replayed = batch.observations
        q_values = mean_outcome(*self._target.predict(*self._target.prepare(batch.observations)))
        self.logger.record_mean("train/q_values", predicted)
        for name, value in policy_diagnostics(self.family, q_values, batch.actions).items():
            self.logger.record_mean(name, value)

    def _on_step(self) -> None:
        """Apply the schedules; when the target network is updated, log how its policy changed."""
        if self._schedules:
            self._follow_schedules()
        every = max(self.target_update_interval // self.n_envs, 1)
        if self._replayed is None or (self._n_calls + 1) % every != 0:
            super()._on_step()
        else:
            self._step_and_log_residual()

    @torch.no_grad()
    def _step_and_log_residual(self) -> None:
        replayed = self._target.prepare(self._replayed)
        before = mean_outcome(*self._target.predict(*replayed))
        super()._on_step()
        after = mean_outcome(*self._target.predict(*replayed))
        for name, value in target_residual(self.family, before, after).items():
            self.logger.record_mean(name, value)
        self._replayed = None

    def _choose_networks(self) -> None:
        """Make the networks again if any part of the policy has changed."""
        if self._state_of_networks() != self._fingerprint:
            self._make_networks()

    def _state_of_networks(self) -> list[Any]:
        chosen = self._is_compilable(), self._loss, *self._networks(), *self._outcome_counts()
        return [*chosen, *fingerprint(self.policy, self._modules)]

    def _is_compilable(self) -> bool:
        """Return whether there are compiled kernels for the target and the loss."""
        own = type(self).target is not Trainer.target or "target" in vars(self)
        own |= type(self.family) is not Family
        simple = self.family.policy_method == "exact" and self.family.form in COMPILED_FORMS
        quantiles = hasattr(self._networks()[0], "n_quantiles")
        simple &= len(set(self._outcome_counts())) == 1
        return simple and not own and self._loss is (quantile_huber if quantiles else huber)

    def _outcome_counts(self) -> list[int]:
        """Return how many outcomes each network predicts for an action."""
        return [int(getattr(network, "n_quantiles", 1)) for network in self._networks()]

    def _make_networks(self) -> None:
        networks, self._modules = self._networks(), list(self.policy.modules())
        shape = self._outcome_counts()[0], int(self.action_space.n)  # type: ignore[attr-defined]
        pair = make_networks(self.policy, networks, shape, self._is_compilable())
        self._online, self._target = pair
        self._compiled = None
        if isinstance(self._online, CompiledNetwork) and isinstance(self._target, CompiledNetwork):
            quantiles = self._loss is quantile_huber
            self._compiled = CompiledUpdate(self._online, self._target, quantiles)
        self._fingerprint = self._state_of_networks()
