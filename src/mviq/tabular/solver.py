"""The solver: a generator of iterations that can be watched, stopped and resumed."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mviq.arrays import Floats
from mviq.choices import MAX_ITERATIONS, TOLERANCE, NoiseKind
from mviq.tabular.algorithms import Algorithm
from mviq.tabular.history import Diagnostics, Record
from mviq.tabular.mdp import MDP
from mviq.tabular.status import Moment, State, Status, Verdict, begin
from mviq.tabular.sweep import improved_chunks, sweep


@dataclass(frozen=True)
class Noise:
    """Random errors added to the action values in every iteration, reproducible from ``seed``.

    Their standard deviation is ``scale``, except for heavy-tailed errors, which have none.
    """

    scale: float
    seed: int = 0
    kind: NoiseKind = "gaussian"
    """``gaussian``; ``heavy-tailed``: Student's t with two degrees of freedom; ``outliers``: one
    error in a hundred is ten times as large, the others are zero; ``constant``: the same errors in
    every iteration."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for an unknown kind or a negative scale."""
        if self.kind not in get_args(NoiseKind):
            raise ValueError(f"kind must be one of {get_args(NoiseKind)}, got {self.kind!r}")
        if not 0 <= self.scale < math.inf:
            raise ValueError(f"scale must be a finite number ≥ 0, got {self.scale!r}")

    def draw(self, iteration: int, shape: tuple[int, ...]) -> Tensor:
        """Return the errors of an iteration, which do not depend on earlier calls."""
        rng = np.random.default_rng((self.seed, 0 if self.kind == "constant" else iteration))
        if self.kind == "heavy-tailed":
            errors = rng.standard_t(2, shape)
        else:
            errors = rng.standard_normal(shape)
        if self.kind == "outliers":
            errors *= 10 * (rng.random(shape) < 0.01)
        return torch.from_numpy(errors).mul_(self.scale)


def iterate(
    mdp: MDP,
    algorithm: Algorithm,
    state: State | None = None,
    *,
    tolerance: float = TOLERANCE,
    noise: Noise | None = None,
    recentre: bool = False,
) -> Iterator[State]:
    """Yield the state after every iteration until it has converged, cycles or has diverged.

    Any state ever yielded can be passed in again: the iteration continues from it bit for bit.
    ``recentre`` removes the slowest component of the error, a constant that decays like γ^k: the
    policies of all iterations stay the same, the action values differ by a constant. It needs an
    MDP without terminal states, where T(Q + c) = TQ + γc.

    >>> from mviq.tabular import algorithm, lock_in_chain
    >>> *_, last = iterate(lock_in_chain(), algorithm("vi"))
    >>> last.verdict.status, round(float(last.q_values[0].max()), 2)
    (<Status.CONVERGED: 'converged'>, 13.97)
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be ≥ 0, got {tolerance!r}")
    if recentre and mdp.terminal.any():
        raise ValueError("recentre needs an MDP without terminal states")
    state = (
        begin(mdp, algorithm) if state is None else replace(state, verdict=Verdict(Status.RUNNING))
    )
    while state.verdict.status is Status.RUNNING:
        iteration = state.iteration + 1
        step = sweep(mdp, algorithm, state.q_values, state.prior)
        if noise is not None:
            errors = noise.draw(iteration, tuple(step.q_values.shape))
            step.q_values.add_(errors.masked_fill_(torch.from_numpy(mdp.terminal)[:, None], 0.0))
        if recentre:
            step.q_values.add_(_offset(*step.change, mdp.discount))
        mark = Moment(iteration, step.residual, step.q_values)
        prior = state.prior if step.policy is None else step.policy
        moved = 0.0
        if step.policy is not None and state.prior is not None:
            moved = float((step.policy - state.prior).abs().max())
        watch, verdict = state.watch.look(
            mark, tolerance, step.scale, moved=moved, noisy=noise is not None
        )
        state = State(iteration, step.q_values, prior, step.residual, verdict, watch)
        yield state


def _offset(lowest: float, highest: float, discount: float) -> float:
    """Return the sum of all later changes if this one is nearly constant over states, else 0."""
    middle, spread = (lowest + highest) / 2, highest - lowest
    return discount / (1 - discount) * middle if spread < abs(middle) else 0.0


@dataclass(frozen=True)
class Solution:
    """The result of ``solve``: its status, values, policy and history."""

    status: Status
    reason: str
    q_values: Floats
    """Shape (states, actions); −inf where an action is not available."""
    values: Floats
    """The (regularised) value of every state, as the algorithm backs it up."""
    policy: Floats
    """The algorithm's own policy, stochastic in general."""
    history: list[Record]
    state: State
    """The last state; ``solve(mdp, algorithm, state=solution.state)`` continues from it."""

    @property
    def iterations(self) -> int:
        """Total number of iterations, including those before ``solve`` was resumed."""
        return self.state.iteration

    @property
    def greedy(self) -> NDArray[np.intp]:
        """The greedy action of every state; ties go to the first."""
        return np.asarray(self.q_values.argmax(axis=1))


def solve(
    mdp: MDP,
    algorithm: Algorithm,
    *,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
    state: State | None = None,
    noise: Noise | None = None,
    recentre: bool = False,
    diagnostics: Diagnostics | None = None,
    stop: Callable[[State], Any] | None = None,
) -> Solution:
    """Iterate until the iteration ends, for at most ``max_iterations``, and return the solution.

    ``stop`` is called with every state and ends the iteration by returning a true value. Without
    ``diagnostics`` the history holds only the residuals, which cost nothing.

    >>> from mviq.tabular import algorithm, lock_in_chain
    >>> locked = solve(lock_in_chain(), algorithm("tkl-vi"))
    >>> locked.status.value, round(float(locked.values[0]), 2)
    ('converged', 2.0)
    """
    if max_iterations < 1:
        raise ValueError(f"max_iterations must be at least 1, got {max_iterations!r}")
    last = begin(mdp, algorithm) if state is None else state
    watch = diagnostics if diagnostics is not None else Diagnostics(every=0)
    history: list[Record] = []
    reason = f"{max_iterations} iterations"
    steps = iterate(mdp, algorithm, last, tolerance=tolerance, noise=noise, recentre=recentre)
    for count, reached in enumerate(islice(steps, max_iterations), start=1):
        asked = stop is not None and bool(stop(reached))
        final = asked or count == max_iterations or reached.verdict.status is not Status.RUNNING
        history.append(watch.record(mdp, algorithm, last, reached, last=final))
        last = reached
        if asked:
            reason = f"asked to stop after iteration {last.iteration}"
            break
    return _conclude(mdp, algorithm, last, history, reason)


def _conclude(
    mdp: MDP, algorithm: Algorithm, last: State, history: list[Record], reason: str
) -> Solution:
    status, why = last.verdict.status, last.verdict.reason
    if status is Status.RUNNING:
        status, why = Status.LIMIT, f"{reason}, residual {last.residual:.3g}"
    policy = torch.full_like(last.q_values, torch.nan)
    values = torch.full((mdp.states,), torch.nan, dtype=torch.float64)
    if status is not Status.DIVERGED:  # diverged values may have no policy
        for rows, step in improved_chunks(algorithm, last.q_values, last.prior):
            policy[rows], values[rows] = step.policy, step.value
    values[torch.from_numpy(mdp.terminal)] = 0.0
    arrays = (last.q_values.numpy(), values.numpy(), policy.numpy())
    return Solution(status, why, *arrays, history, last)
