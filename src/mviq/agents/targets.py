"""What an action value should become: the one target of the scalar and of the quantile agent."""

import torch
from torch import Tensor

from mviq.tsallis import Evaluation, Family, expectation


def bellman_target(
    family: Family,
    rewards: Tensor,
    actions: Tensor,
    terminated: Tensor,
    discounts: Tensor | float,
    following: Tensor,
    current: Tensor | None = None,
) -> Tensor:
    """Return the targets y of the values predicted at (s, a), one per outcome j.

        y_j = r + α m(s,a) + γ(1−d) [ Σ_b π(b|s') z_j(s',b) + c τ S_q(π(·|s')) ]

    ``following`` and ``current`` are the target network's outcomes z at s' and at s, of shape
    (batch, outcomes, actions): the quantiles, or the one action value of a scalar agent. The
    policies are those of their mean Q = mean_j z_j. ``rewards``, ``actions``, ``terminated`` and
    ``discounts`` have shape (batch, 1). ``terminated`` says that no future follows; a truncated
    episode has one. With n-step returns ``rewards`` are the returns, ``discounts`` γⁿ, s' the
    state n steps on, and the Munchausen term is that of the first step. ``current`` is needed
    where the family has a Munchausen term.

    >>> dqn = Family(q=torch.inf, munchausen_alpha=0.0)
    >>> one = torch.ones(1, 1)
    >>> bellman_target(dqn, one, one.long(), 0 * one, 0.5, torch.tensor([[[4.0, 6.0]]]))
    tensor([[4.]])
    """
    if family.munchausen_alpha == 0:
        at, bonus = family.evaluate(following.mean(1)), torch.zeros(())
    elif current is None:
        raise ValueError("current must be given, since the family has a Munchausen term")
    else:
        at, bonus = _evaluate_both(family, following.mean(1), current.mean(1), actions)
    spread = expectation(at.policy.unsqueeze(1), following)
    future = family.bootstrap(Evaluation(at.policy, spread, at.entropy.unsqueeze(1)))
    return rewards + bonus + (1 - terminated) * discounts * future


def _evaluate_both(
    family: Family, following: Tensor, current: Tensor, actions: Tensor
) -> tuple[Evaluation, Tensor]:
    """Return the policy at s' and the Munchausen term at (s, a), from one solution of both."""
    both = family.evaluate(torch.cat((following, current)))
    after, now = (Evaluation(*parts) for parts in zip(*(x.chunk(2) for x in both), strict=True))
    return after, family.munchausen(current, now).gather(1, actions)
