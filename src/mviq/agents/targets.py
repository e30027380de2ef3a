"""The target y_j of an update, which ``update`` states, by tensors or by a compiled loop."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mviq.agents import kernels
from mviq.tsallis import Evaluation, Family, expectation


def bellman_target(
    family: Family,
    rewards: Tensor,
    actions: Tensor,
    terminated: Tensor,
    discounts: Tensor | float,
    next_outcomes: Tensor,
    outcomes: Tensor | None = None,
) -> Tensor:
    """Return the targets y of the outcomes at (s, a), of shape (batch, outcomes).

    ``next_outcomes`` and ``outcomes`` (batch, outcomes, actions) are the target network's z at s'
    and s; a family without Munchausen term needs none at s. The other tensors have shape
    (batch, 1). ``terminated`` is d: a truncated episode has a future. With n-step returns
    ``rewards`` are the returns, ``discounts`` γⁿ and s' the state n steps on.
    """
    if family.munchausen_alpha != 0 and outcomes is None:
        raise ValueError(
            f"munchausen_alpha = {family.munchausen_alpha:g} needs the outcomes at s, got None"
        )
    given = rewards, actions, terminated, discounts, next_outcomes, outcomes
    return (by_rows if _has_rows(family, *given) else by_tensors)(family, *given)


def by_tensors(
    family: Family,
    rewards: Tensor,
    actions: Tensor,
    terminated: Tensor,
    discounts: Tensor | float,
    next_outcomes: Tensor,
    outcomes: Tensor | None,
) -> Tensor:
    """Return the targets by the equations of the family, on any device."""
    after = family.evaluate(mean_outcome(next_outcomes))
    values = after.soft_maximum.unsqueeze(1)
    if next_outcomes.shape[1] > 1:  # of every outcome by itself
        values = expectation(after.policy.unsqueeze(1), next_outcomes)
    future = family.bootstrap(Evaluation(after.policy, values, after.entropy.unsqueeze(1)))
    target = rewards + discounts * (1 - terminated) * future
    if outcomes is None or family.munchausen_alpha == 0:
        return target
    q_values = mean_outcome(outcomes)
    return target + family.munchausen(q_values, family.evaluate(q_values)).gather(1, actions)


def mean_outcome(outcomes: Tensor) -> Tensor:
    """Return the action values (batch, actions) of outcomes (batch, outcomes, actions)."""
    return outcomes.squeeze(1) if outcomes.shape[1] == 1 else outcomes.mean(1)


def _has_rows(family: Family, *given: Any) -> bool:
    """Return whether there is a compiled loop, which broadcasts nothing, for such arguments."""
    columns, z = ([x for x in part if isinstance(x, Tensor)] for part in (given[:4], given[4:]))
    shaped = all(x.shape == (len(z[0]), 1) for x in columns) and z[0].shape == z[-1].shape
    simple = family.policy_method == "exact" and family.form != "naive_log"
    return simple and shaped and all(map(_is_simple, columns + z))


def _is_simple(x: Tensor) -> bool:
    numbers = x.dtype in (torch.float32, torch.int64)
    return numbers and x.device.type == "cpu" and not x.requires_grad


def by_rows(
    family: Family,
    rewards: Tensor,
    actions: Tensor,
    terminated: Tensor,
    discounts: Tensor | float,
    next_outcomes: Tensor,
    outcomes: Tensor | None,
) -> Tensor:
    """Return the targets by one compiled loop over the transitions, on the CPU."""
    discount = torch.as_tensor(discounts, dtype=torch.float32)
    tensors = rewards, terminated, discount
    transitions: Any = tuple(np.ravel(tensor.numpy()) for tensor in tensors)
    z_next = np.ascontiguousarray(next_outcomes.numpy())
    z = z_next[:0] if outcomes is None else np.ascontiguousarray(outcomes.numpy())
    target = np.empty(z_next.shape[:2], np.float32)
    numbers = family.q, family.temperature, family.entropy_weight
    chosen = actions.numpy().reshape(-1)
    munchausen = _munchausen_numbers(family)
    good = kernels.bellman_rows(*numbers, munchausen, transitions, chosen, z_next, z, target)
    if not good:  # there the errors are told
        return by_tensors(family, rewards, actions, terminated, discounts, next_outcomes, outcomes)
    return torch.from_numpy(target)


def _munchausen_numbers(family: Family) -> tuple[float, float, float, float, float]:
    """Return α, the weight of τS_q in m, the least m off the support, and the bounds of m."""
    cut = family.form == "truncated_log" and family.q > 1
    least = -family.temperature / (family.q - 1) if cut else -math.inf
    low, high = family.clip or (-math.inf, math.inf)
    return family.munchausen_alpha, float(family.form != "gap"), least, float(low), float(high)
