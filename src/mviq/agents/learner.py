"""What all MVI(q) agents share: arguments, schedules, state and ``learn``."""

import warnings
from dataclasses import replace
from typing import Any, ClassVar, Self, Unpack

import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from mviq.agents.arguments import (
    SCHEDULED,
    Acting,
    BaseArguments,
    arguments_of_subclass,
    by_name,
    check_arguments,
    check_fit,
    signature_of,
)
from mviq.agents.diagnostics import DivergenceError
from mviq.agents.replay import TransitionReplayBuffer, cut_off_last_episodes
from mviq.agents.state import LearningStatus, get_state, set_state
from mviq.agents.update import Trainer
from mviq.choices import Form, PolicyMethod
from mviq.processor import blas_threads_of_torch
from mviq.tsallis import Family

_ENDINGS: dict[type, LearningStatus] = {KeyboardInterrupt: "stopped", DivergenceError: "diverged"}


def _family_property(name: str) -> property:
    """Return a property for a number of the family; setting it removes its schedule."""

    def change(agent: "Learner", value: float) -> None:
        changes: Any = {name: value}
        agent._set_family(replace(agent.family, **changes))
        agent._schedules.pop(name, None)

    return property(lambda agent: getattr(agent.family, name), change)


class Learner(Trainer):
    """The part that all agents share; subclasses define the networks and the loss.

    ``family`` is the algorithm as a point of the MVI(q) family, ``status`` the state of learning:
    new, learning, finished, stopped (by a callback or Ctrl-C), diverged or failed.
    """

    base: ClassVar[type[OffPolicyAlgorithm]]
    """The Stable-Baselines3 class whose arguments an agent takes besides its own."""
    _given: dict[str, Any]

    def __init_subclass__(cls, **options: Any) -> None:
        """Set the signature that ``help`` and ``inspect`` show, with the arguments of the base."""
        super().__init_subclass__(**options)
        cls.__signature__ = signature_of(cls)  # type: ignore[attr-defined]

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Keep the arguments that a custom subclass adds, which ``save`` stores with the others."""
        agent = super().__new__(cls)
        agent._given = arguments_of_subclass(cls, arguments, options)
        return agent

    def __init__(
        self,
        policy: str | type[BasePolicy],
        env: GymEnv | str | None,
        *positional: Any,
        q: float | Schedule = Family.q,
        temperature: float | Schedule = Family.temperature,
        munchausen_alpha: float | Schedule = Family.munchausen_alpha,
        form: Form = Family.form,
        clip: tuple[float, float] | None = Family.clip,
        entropy_weight: float = Family.entropy_weight,
        policy_method: PolicyMethod = Family.policy_method,
        acting: Acting = "epsilon_greedy",
        value_limit: float = 1e6,
        _init_setup_model: bool = True,
        **named: Unpack[BaseArguments],
    ) -> None:
        options: dict[str, Any] = by_name(type(self), positional) | dict(named)
        own = {"acting": acting, "value_limit": value_limit}
        check_arguments(type(self), {"policy": policy, "env": env, **options, **own})
        numbers = {"q": q, "temperature": temperature, "munchausen_alpha": munchausen_alpha}
        self._schedules = {name: value for name, value in numbers.items() if callable(value)}
        start: Any = {name: x(1.0) if callable(x) else x for name, x in numbers.items()}
        self._set_family(
            Family(
                **start,
                form=form,
                clip=clip,
                entropy_weight=entropy_weight,
                policy_method=policy_method,
            )
        )
        self.acting, self.value_limit = acting, value_limit
        self.status: LearningStatus = "new"
        for name in ("policy_kwargs", "replay_buffer_kwargs"):
            if options.get(name) is not None:
                options[name] = dict(options[name])  # the base classes modify it
        super().__init__(policy, env, _init_setup_model=False, **options)  # type: ignore[call-arg, arg-type]
        _prefer_fused_adam(self.policy_kwargs)
        self._chosen_buffer = (self.replay_buffer_class, dict(self.replay_buffer_kwargs))
        if _init_setup_model:
            self._setup_model()

    q = _family_property("q")
    temperature = _family_property("temperature")
    munchausen_alpha = _family_property("munchausen_alpha")

    def _set_family(self, family: Family) -> None:
        """Set the family, and copy its numbers to ``vars(self)``, where loggers look."""
        self.family = family
        vars(self).update({name: getattr(family, name) for name in SCHEDULED})

    def _follow_schedules(self) -> None:
        """Set the scheduled numbers to their current values, and log them."""
        left = self._current_progress_remaining
        now: dict[str, Any] = {name: f(left) for name, f in self._schedules.items()}
        if any(getattr(self.family, name) != value for name, value in now.items()):
            self._set_family(replace(self.family, **now))
        for name, value in now.items():
            self.logger.record(f"tsallis/{name}", value)

    def _setup_model(self) -> None:
        check_fit(self)
        plain = self.n_steps == 1 and not self.optimize_memory_usage
        array = isinstance(self.observation_space, spaces.Box)
        if self.replay_buffer_class is None and plain and array:
            self.replay_buffer_class = TransitionReplayBuffer
        with warnings.catch_warnings():
            if self._tell_buffer_of_n_steps():  # SB3 would warn that n_steps is ignored
                warnings.filterwarnings("ignore", message="`n_steps=")
            super()._setup_model()
        self._choose_networks()

    def _tell_buffer_of_n_steps(self) -> bool:
        """Pass the agent's n and γ to a custom n-step buffer; return whether there is one."""
        kind = self.replay_buffer_class
        if kind is None or not issubclass(kind, NStepReplayBuffer):
            return False
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
        return True

    def get_state(self) -> dict[str, Any]:
        """Return a copy of the agent's state: everything that learning changes.

        An agent that is built with the same arguments and given this state learns exactly as this
        one does, if replay buffer, environment and random generators are in the same state too.
        """
        return get_state(self)

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state from ``get_state``; an invalid one raises and changes nothing."""
        set_state(self, state)
        self._follow_schedules()

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
        self.status, steps = "learning", int(total_timesteps)  # SB3 takes 1e5, too
        self._choose_networks()
        buffer, resets = self.replay_buffer, reset_num_timesteps or self._last_obs is None
        if resets and isinstance(buffer, NStepReplayBuffer) and buffer.size() > 0:
            cut_off_last_episodes(buffer)
        name = type(self).__name__ if tb_log_name is None else tb_log_name
        try:
            with blas_threads_of_torch():
                super().learn(
                    steps, callback, log_interval, name, reset_num_timesteps, progress_bar
                )
        except BaseException as error:
            self.status = _ENDINGS.get(type(error), "failed")
            raise
        finally:
            self._postponed = False
        done = self.num_timesteps >= self._total_timesteps
        self.status = "finished" if done else "stopped"
        return self


def _prefer_fused_adam(policy_kwargs: dict[str, Any]) -> None:
    """Use fused Adam, which needs one pass over memory, unless the user chose otherwise."""
    options = dict(policy_kwargs.get("optimizer_kwargs") or {})
    adam = policy_kwargs.get("optimizer_class", torch.optim.Adam) is torch.optim.Adam
    if adam and not {"foreach", "fused", "differentiable", "capturable"} & options.keys():
        policy_kwargs["optimizer_kwargs"] = {**options, "fused": True}
