"""The state of an iteration: all that is needed to go on from it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from mviq.tabular.algorithms import Algorithm, ExplicitKL
from mviq.tabular.mdp import MDP
from mviq.tabular.status import Status, Verdict, Watch, start_watching
from mviq.tsallis import entropy


@dataclass(frozen=True)
class State:
    """All that is needed to go on; nothing changes it, so it can be kept."""

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
    return State(0, first, prior, float("inf"), Verdict(Status.RUNNING), watch)


def _worth(mdp: MDP, algorithm: Algorithm) -> float:
    """Return what the largest reward and the largest entropy, paid for ever, are worth."""
    uniform = torch.full((mdp.actions,), 1 / mdp.actions, dtype=torch.float64)
    bonus = algorithm.temperature * float(entropy(uniform, algorithm.q))
    return (mdp.largest_reward + bonus) / (1 - mdp.discount)
