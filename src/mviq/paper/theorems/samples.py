"""Seeded random values, policies and small decision problems on which statements are measured."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from mviq import tsallis
from mviq.tabular import MDP, garnet, lock_in_chain

Deformed: TypeAlias = Callable[[Tensor, float], Tensor]
"""A deformed logarithm or exponential."""
INDICES = (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
"""Entropic indices on both sides of each special case."""


def draw_values(rows: int, actions: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    """Return normally distributed values of shape (rows, actions) in float64."""
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(rows, actions, dtype=torch.float64, generator=generator)


def draw_policies(rows: int, actions: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    """Return random policies of full support; a larger scale makes them more uneven."""
    return draw_values(rows, actions, scale, seed).softmax(-1)


def slope(function: Deformed, x: Tensor, q: float) -> Tensor:
    """Return the derivative in x of a function of x and q, at every point of a grid."""
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x, q).sum(), x)[0]


class Problem(NamedTuple):
    """A batch of decision problems: P (…, states, actions, states), r (…, states, actions), γ."""

    transitions: Tensor
    rewards: Tensor
    discount: float

    def draw(self, scale: float = 0.0, seed: int = 0) -> Tensor:
        """Return normally distributed values for every state and action."""
        rows, actions = self.rewards.numel() // self.rewards.shape[-1], self.rewards.shape[-1]
        return draw_values(rows, actions, scale, seed).view_as(self.rewards)

    def backup(self, state_values: Tensor) -> Tensor:
        """Return r + γ P v for every state and action."""
        expected = (self.transitions @ state_values[..., None, :, None]).squeeze(-1)
        return self.rewards + self.discount * expected

    def value(self, policy: Tensor, bonus: Tensor | None = None) -> Tensor:
        """Return the value of a policy, with a bonus per state if given, by a linear solve."""
        reward = (policy * self.rewards).sum(-1) + (0.0 if bonus is None else bonus)
        moves = (policy.unsqueeze(-1) * self.transitions).sum(-2)
        identity = torch.eye(moves.shape[-1], dtype=moves.dtype)
        solution: Tensor = torch.linalg.solve(identity - self.discount * moves, reward)
        return solution


def garnets() -> Problem:
    """Return six random problems of 20 states and 4 actions, each of which leads to 3 states."""
    problems = [garnet(states=20, actions=4, branching=3, seed=seed) for seed in range(6)]
    transitions, rewards = map(torch.stack, zip(*map(_arrays, problems), strict=True))
    return Problem(transitions, rewards, problems[0].discount)


def lock_in_problem() -> Problem:
    """Return a chain of eight states that pay 0.1 for staying, and 1 at its far end."""
    problem = lock_in_chain()
    return Problem(*_arrays(problem), problem.discount)


def _arrays(problem: MDP) -> tuple[Tensor, Tensor]:
    """Return transitions (states, actions, states) and rewards."""
    shape = problem.states, problem.actions, problem.states
    transitions = torch.from_numpy(problem.transitions.toarray().reshape(shape))
    return transitions, torch.from_numpy(problem.rewards)


def family_step(problem: Problem, family: tsallis.Family) -> Callable[[Tensor], Tensor]:
    """Return the update Q ← r + α m + γ P(⟨π,Q⟩ + cτ S_q) of a member of the MVI(q) family."""

    def step(q_values: Tensor) -> Tensor:
        at = family.evaluate(q_values)
        return problem.backup(family.bootstrap(at)) + family.munchausen(q_values, at)

    return step


def contraction(step: Callable[[Tensor], Tensor], first: Tensor, second: Tensor) -> float:
    """Return the contraction ratio of a step in the sup norm, over a pair of points and a shift."""
    ratios = []
    for other in (second, first + 1.0):
        distance = (first - other).abs().amax()
        ratios.append((step(first) - step(other)).abs().amax() / distance)
    return float(torch.stack(ratios).max())


class Iteration(NamedTuple):
    """Where an iteration ended: its values, the size of its last step and the number of steps."""

    q_values: Tensor
    last_step: Tensor
    steps: int


def repeat(
    step: Callable[[Tensor], Tensor], start: Tensor, most: int = 1000, limit: float = math.inf
) -> Iteration:
    """Repeat a step until no problem of the batch moves any more or one exceeds the limit."""
    q_values, last_step, steps = start, torch.full_like(start, math.inf).amax((-2, -1)), 0
    while steps < most and last_step.max() > 1e-12 and q_values.abs().max() <= limit:
        following = step(q_values)
        last_step = (following - q_values).abs().amax((-2, -1))
        q_values, steps = following, steps + 1
    return Iteration(q_values, last_step, steps)
