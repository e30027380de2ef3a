"""The state of an iteration, and the detection of convergence, cycles and divergence."""

import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from mviq.tabular.algorithms import Algorithm, ExplicitKL
from mviq.tabular.mdp import MDP
from mviq.tsallis import entropy

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative: below it, differences mean nothing
PATIENCE = 1000  # iterations without a new lowest residual that are never held against a run
_RUNAWAY = 1e8  # times what bounded rewards can be worth


class Status(Enum):
    """The status of an iteration."""

    RUNNING = "running"
    CONVERGED = "converged"
    CYCLING = "cycling"
    DIVERGED = "diverged"
    LIMIT = "stopped at the limit"


@dataclass(frozen=True)
class Moment:
    """A moment of the past to compare with."""

    iteration: int
    residual: float
    q_values: Tensor

    def distance(self, q_values: Tensor) -> float:
        """Return how far the action values are from here, in the largest component."""
        finite = q_values.isfinite()
        return float((q_values[finite] - self.q_values[finite]).abs().max())


@dataclass(frozen=True)
class Verdict:
    """A status and the reason for it."""

    status: Status
    reason: str = ""


_GO_ON = Verdict(Status.RUNNING)


@dataclass(frozen=True)
class Watch:
    """What is remembered to tell convergence from cycling and drifting.

    ``best`` is the moment of the lowest residual. ``anchor`` is set anew whenever the time since
    it has doubled (Brent's method), so that a cycle of any period returns to it some day.
    """

    worth: float
    """Scale of the action values: what the largest reward and entropy are worth for ever."""
    best: Moment
    anchor: Moment

    def look(
        self, now: Moment, tolerance: float, scale: float, *, noisy: bool
    ) -> tuple["Watch", Verdict]:
        """Return the watch after one more iteration, and what it makes of it.

        Noise keeps an iteration from settling, so only its divergence is told.
        """
        if not (math.isfinite(now.residual) and now.residual <= _RUNAWAY * self.worth):
            return self, Verdict(Status.DIVERGED, f"residual {now.residual:.3g} and growing")
        if now.residual <= max(tolerance, ROUNDING * scale):
            return self, Verdict(Status.CONVERGED, f"residual {now.residual:.3g}")
        best = now if now.residual < self.best.residual else self.best
        watch = replace(self, best=best)
        if noisy:
            return replace(watch, best=now), _GO_ON
        verdict = watch._recurrence(now, scale) or watch._stall(now) or _GO_ON
        due = now.iteration >= 2 * self.anchor.iteration
        return replace(watch, anchor=now) if due else watch, verdict

    def _recurrence(self, now: Moment, scale: float) -> Verdict | None:
        # Comparing two numbers first keeps the arrays out of it for all that still moves.
        rounding = ROUNDING * max(scale, now.residual)
        if abs(now.residual - self.anchor.residual) > rounding:
            return None
        if self.anchor.distance(now.q_values) > rounding:
            return None
        period = now.iteration - self.anchor.iteration
        return Verdict(Status.CYCLING, f"period {period}, residual {now.residual:.3g}")

    def _stall(self, now: Moment) -> Verdict | None:
        """Give up when the lowest residual is older than half of the run, and than patience."""
        waited = now.iteration - self.best.iteration
        if waited < max(PATIENCE, self.best.iteration):
            return None
        lowest = f"residual never below {self.best.residual:.3g}, seen at {self.best.iteration}"
        if self.best.distance(now.q_values) > 0.5 * waited * self.best.residual:
            return Verdict(Status.DIVERGED, f"steady drift: {lowest}")
        return Verdict(Status.CYCLING, f"no fixed period: {lowest}")


def start_watching(worth: float, q_values: Tensor) -> Watch:
    """Return the watch before the first iteration."""
    mark = Moment(0, math.inf, q_values)
    return Watch(worth if worth > 0 else 1.0, mark, mark)


@dataclass(frozen=True)
class State:
    """Everything needed to continue an iteration; immutable."""

    iteration: int
    q_values: Tensor
    prior: Tensor | None
    """The prior of the next improvement, for the explicit algorithms."""
    residual: float
    """‖T Q − Q‖∞ at the action values before these."""
    verdict: Verdict
    watch: Watch


def begin(
    mdp: MDP, algorithm: Algorithm, q_values: Tensor | None = None, prior: Tensor | None = None
) -> State:
    """Return the state before the first iteration: Q = 0 and a uniform prior unless given."""
    can = torch.from_numpy(mdp.available)
    first = torch.zeros(can.shape, dtype=torch.float64) if q_values is None else q_values.double()
    if first.shape != can.shape:
        raise ValueError(f"q_values must have shape {tuple(can.shape)}, got {tuple(first.shape)}")
    first = torch.where(can, first, -torch.inf)
    first[torch.from_numpy(mdp.terminal)] = 0.0
    if isinstance(algorithm, ExplicitKL) and prior is None:
        prior = can / can.sum(-1, keepdim=True).double()
    elif not isinstance(algorithm, ExplicitKL) and prior is not None:
        raise ValueError("only the explicit algorithms have a prior")
    watch = start_watching(_worth(mdp, algorithm), first)
    return State(0, first, prior, float("inf"), _GO_ON, watch)


def _worth(mdp: MDP, algorithm: Algorithm) -> float:
    """Return the discounted value of the largest reward and the largest entropy in every step."""
    uniform = torch.full((mdp.actions,), 1 / mdp.actions, dtype=torch.float64)
    bonus = algorithm.temperature * float(entropy(uniform, algorithm.q))
    return (mdp.largest_reward + bonus) / (1 - mdp.discount)
