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

ROUNDING = 64 * float(np.finfo(np.float64).eps)  # relative: smaller differences are rounding errors
PATIENCE = 1000  # iterations without a new lowest residual that every run may take
_RUNAWAY = 1e8  # diverged: a residual above this many times ``Watch.worth``


class Status(Enum):
    """The status of an iteration."""

    RUNNING = "running"
    CONVERGED = "converged"
    CYCLING = "cycling"
    DIVERGED = "diverged"
    LIMIT = "stopped at the limit"


@dataclass(frozen=True)
class Moment:
    """An earlier iteration to compare with."""

    iteration: int
    residual: float
    q_values: Tensor

    def distance(self, q_values: Tensor) -> float:
        """Return the sup-norm distance of action values from those of this iteration."""
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
    """The past iterations needed to tell convergence from cycling and drifting.

    ``best`` is the iteration with the lowest residual. ``anchor`` is replaced whenever the number
    of iterations has doubled (Brent's method), so that a cycle of any period returns to it.
    """

    worth: float
    """Scale of the action values: largest reward plus τ times largest entropy, over 1 − γ."""
    best: Moment
    anchor: Moment

    def look(
        self, now: Moment, tolerance: float, scale: float, *, moved: float = 0.0, noisy: bool
    ) -> tuple["Watch", Verdict]:
        """Return the watch after one more iteration, and the verdict on that iteration.

        ``moved`` is the largest change of a probability of a moving prior: values can stand still
        before it does.
        Noise keeps an iteration moving, so a noisy one can only diverge.
        """
        if not (math.isfinite(now.residual) and now.residual <= _RUNAWAY * self.worth):
            return self, Verdict(Status.DIVERGED, f"residual {now.residual:.3g} and growing")
        if noisy:
            return replace(self, best=now), _GO_ON
        if now.residual <= max(tolerance, ROUNDING * scale):
            at_rest = Verdict(Status.CONVERGED, f"residual {now.residual:.3g}")
            return self, at_rest if moved <= max(tolerance, ROUNDING) else _GO_ON
        watch = replace(self, best=now if now.residual < self.best.residual else self.best)
        verdict = watch._recurrence(now, scale) or watch._stall(now) or _GO_ON
        due = now.iteration >= 2 * self.anchor.iteration
        return replace(watch, anchor=now) if due else watch, verdict

    def _recurrence(self, now: Moment, scale: float) -> Verdict | None:
        # Comparing the residuals first avoids comparing the arrays in most iterations.
        rounding = ROUNDING * max(scale, now.residual)
        if abs(now.residual - self.anchor.residual) > rounding:
            return None
        if self.anchor.distance(now.q_values) > rounding:
            return None
        period = now.iteration - self.anchor.iteration
        return Verdict(Status.CYCLING, f"period {period}, residual {now.residual:.3g}")

    def _stall(self, now: Moment) -> Verdict | None:
        """Stop if the lowest residual is from the first half, and at least ``PATIENCE`` old."""
        waited = now.iteration - self.best.iteration
        if waited < max(PATIENCE, self.best.iteration):
            return None
        lowest = f"residual never below {self.best.residual:.3g}, seen at {self.best.iteration}"
        if self.best.distance(now.q_values) > 0.5 * waited * self.best.residual:
            large = now.q_values[now.q_values.isfinite()].abs().max() > 2 * self.worth
            return Verdict(Status.DIVERGED, f"steady drift: {lowest}") if large else None
        return Verdict(Status.CYCLING, f"no fixed period: {lowest}")


def start_watching(worth: float, q_values: Tensor) -> Watch:
    """Return the initial watch."""
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
    """‖T Q − Q‖∞ at the previous action values."""
    verdict: Verdict
    watch: Watch


def begin(mdp: MDP, algorithm: Algorithm, q_values: Tensor | None = None) -> State:
    """Return the state before the first iteration: Q = 0 unless given, and a uniform prior."""
    can = torch.from_numpy(mdp.available)
    first = torch.zeros(can.shape, dtype=torch.float64) if q_values is None else q_values.double()
    if first.shape != can.shape:
        raise ValueError(f"q_values must have shape {tuple(can.shape)}, got {tuple(first.shape)}")
    first = torch.where(can, first, -torch.inf).contiguous()
    first[torch.from_numpy(mdp.terminal)] = 0.0
    explicit = isinstance(algorithm, ExplicitKL)
    prior = can / can.sum(-1, keepdim=True).double() if explicit else None
    watch = start_watching(_worth(mdp, algorithm), first)
    return State(0, first, prior, float("inf"), _GO_ON, watch)


def _worth(mdp: MDP, algorithm: Algorithm) -> float:
    """Return the discounted sum of the largest reward and entropy bonus in every step."""
    uniform = torch.full((mdp.actions,), 1 / mdp.actions, dtype=torch.float64)
    bonus = algorithm.temperature * float(entropy(uniform, algorithm.q))
    return (mdp.largest_reward + bonus) / (1 - mdp.discount)
