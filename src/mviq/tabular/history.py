"""Diagnostics of an iteration, recorded in the history of a solution."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from mviq.arrays import Floats
from mviq.processor import threads
from mviq.tabular.algorithms import Algorithm, ExplicitKL, policy_of
from mviq.tabular.exact_values import greedy_policy, policy_values
from mviq.tabular.mdp import MDP
from mviq.tabular.status import State
from mviq.tabular.sweep import CHUNK
from mviq.tsallis import divergence, entropy, munchausen_residual


class Record(NamedTuple):
    """The diagnostics of one iteration; NaN where not computed or not defined.

    The last five are means over the non-terminal states.
    """

    iteration: int
    bellman_residual: float
    """‖T Q_{k−1} − Q_{k−1}‖∞ with the algorithm's own operator T."""
    distance_to_optimum: float = math.nan
    """‖Q_k − Q*‖∞; only plain value iteration converges to Q*, others have another limit."""
    greedy_value: float = math.nan
    """Exact value of the policy greedy in Q_k, from the start distribution."""
    policy_value: float = math.nan
    """Exact value of the algorithm's own policy π_{k+1}, from the start distribution."""
    entropy: float = math.nan
    """S_q(π_{k+1})."""
    divergence: float = math.nan
    """D_q(π_{k+1}‖π_k); ∞ where an action that had probability 0 is taken again."""
    support_size: float = math.nan
    """Number of actions with a positive probability."""
    action_gap: float = math.nan
    """Best minus second-best action value, over the states with two or more actions."""
    munchausen_residual: float = math.nan
    """R_q(π_{k+1}, π_k), with π_k floored at 1e-3; not defined at q = ∞."""


@dataclass(frozen=True)
class Diagnostics:
    """Which diagnostics to compute, and how often; 0 means never.

    Those of the policy cost about as much as a sweep, an exact value takes a linear solve.
    """

    every: int = 1
    """Iterations between records of entropy, divergence, support, gap and R_q."""
    values_every: int = 0
    """Iterations between exact evaluations of the greedy and the stochastic policy."""
    optimum: Floats | None = None
    """Q*, to measure the distance to it; see ``optimal_q_values``."""

    def record(
        self,
        mdp: MDP,
        algorithm: Algorithm,
        previous: State,
        state: State,
        *,
        last: bool = False,
    ) -> Record:
        """Return the record of a state; the ``last`` one gets every diagnostic that is enabled."""
        basic = Record(state.iteration, state.residual)
        if not math.isfinite(state.residual):
            return basic
        policies = bool(self.every) and (last or state.iteration % self.every == 0)
        values = bool(self.values_every) and (last or state.iteration % self.values_every == 0)
        if self.optimum is not None:
            optimum = torch.from_numpy(self.optimum)
            error = torch.where(optimum == -torch.inf, 0.0, state.q_values - optimum)
            basic = basic._replace(distance_to_optimum=float(error.abs().max()))
        with threads(1):
            if policies:
                basic = basic._replace(**_policy_measures(mdp, algorithm, previous, state))
            if values:
                own = policy_of(algorithm, state.q_values, state.prior).numpy()
                best = greedy_policy(state.q_values.numpy())
                basic = basic._replace(
                    greedy_value=float(mdp.start @ policy_values(mdp, best)),
                    policy_value=float(mdp.start @ policy_values(mdp, own)),
                )
        return basic


def _policy_measures(
    mdp: MDP, algorithm: Algorithm, previous: State, state: State
) -> dict[str, Any]:
    """Return the means over states, computed in chunks to avoid large temporaries."""
    totals, counts = np.zeros(5), np.zeros(5)
    for first in range(0, mdp.states, CHUNK):
        rows = slice(first, first + CHUNK)
        acting = ~torch.from_numpy(mdp.terminal[rows])
        if acting.any():
            measures = _measures(algorithm, previous, state, rows, acting)
            defined = ~measures.isnan()
            totals += torch.where(defined, measures, 0.0).sum(-1).numpy()
            counts += defined.sum(-1).numpy()
    means = totals / np.where(counts > 0, counts, math.nan)
    names = ("entropy", "divergence", "support_size", "action_gap", "munchausen_residual")
    return dict(zip(names, means.tolist(), strict=True))


def _measures(
    algorithm: Algorithm, previous: State, state: State, rows: slice, acting: Tensor
) -> Tensor:
    """Return the five measures of every non-terminal state of a chunk; NaN where not defined."""
    q, q_values = algorithm.q, state.q_values[rows][acting]
    prior = None if state.prior is None else state.prior[rows][acting]
    now = policy_of(algorithm, q_values, prior)
    before = _policy_before(algorithm, previous, state, rows, acting)
    undefined = torch.full_like(now[:, 0], math.nan)
    return torch.stack(
        [
            entropy(now, q),
            divergence(now, before, q),
            (now > 0).sum(-1).double(),
            _action_gap(q_values),
            munchausen_residual(now, before, q) if q < math.inf else undefined,
        ]
    )


def _policy_before(
    algorithm: Algorithm, previous: State, state: State, rows: slice, acting: Tensor
) -> Tensor:
    if isinstance(algorithm, ExplicitKL) and algorithm.prior == "moving":
        assert state.prior is not None
        return state.prior[rows][acting]  # the moving prior is the previous policy
    prior = None if previous.prior is None else previous.prior[rows][acting]
    return policy_of(algorithm, previous.q_values[rows][acting], prior)


def _action_gap(q_values: Tensor) -> Tensor:
    if q_values.shape[-1] == 1:
        return torch.full_like(q_values[:, 0], math.nan)
    best, second = q_values.topk(2, dim=-1).values.unbind(-1)
    return torch.where(second == -math.inf, math.nan, best - second)
