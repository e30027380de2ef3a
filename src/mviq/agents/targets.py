"""What an action value should become: the one target of the scalar and of the quantile agent."""

from torch import Tensor

from mviq.tsallis import Evaluation, Family, expectation


def bellman_target(
    family: Family,
    rewards: Tensor,
    actions: Tensor,
    terminated: Tensor,
    discounts: Tensor | float,
    outcomes: Tensor,
) -> Tensor:
    """Return the targets y of the values predicted at (s, a), one per outcome j.

        y_j = r + α m(s,a) + γ(1−d) [ Σ_b π(b|s') z_j(s',b) + c τ S_q(π(·|s')) ]

    ``outcomes`` are the target network's z at all s' and then, if the family has a Munchausen
    term, at all s, of shape (batch or 2 batch, outcomes, actions): the quantiles, or the one
    action value of a scalar agent. The policies are those of their mean Q = mean_j z_j.

    ``rewards``, ``actions``, ``terminated`` and ``discounts`` have shape (batch, 1).
    ``terminated`` says that no future follows; a truncated episode has one. With n-step returns
    ``rewards`` are the returns, ``discounts`` γⁿ, s' the state n steps on, and the Munchausen
    term is that of the first step.

    >>> import torch
    >>> dqn = Family(q=torch.inf, munchausen_alpha=0.0)
    >>> one = torch.ones(1, 1)
    >>> bellman_target(dqn, one, one.long(), 0 * one, 0.5, torch.tensor([[[4.0, 6.0]]]))
    tensor([[4.]])
    """
    batch = len(rewards)
    _check(family, batch, outcomes)
    q_values = mean_outcome(outcomes)
    at = family.evaluate(q_values)
    after = Evaluation(*(x[:batch] for x in at))
    future = family.bootstrap(_spread(after, outcomes[:batch]))
    target = rewards + (1 - terminated) * discounts * future
    if family.munchausen_alpha == 0:
        return target
    now = Evaluation(*(x[batch:] for x in at))
    return target + family.munchausen(q_values[batch:], now).gather(1, actions)


def mean_outcome(outcomes: Tensor) -> Tensor:
    """Return the action values (batch, actions) of outcomes (batch, outcomes, actions)."""
    return outcomes.squeeze(1) if outcomes.shape[1] == 1 else outcomes.mean(1)


def _spread(at: Evaluation, outcomes: Tensor) -> Evaluation:
    """Return the evaluation of every outcome by itself, Σ_b π(b) z_j(b) in place of its mean."""
    entropy, mean = at.entropy.unsqueeze(1), at.soft_maximum.unsqueeze(1)
    if outcomes.shape[1] > 1:
        mean = expectation(at.policy.unsqueeze(1), outcomes)
    return Evaluation(at.policy, mean, entropy)


def _check(family: Family, batch: int, outcomes: Tensor) -> None:
    expected = batch if family.munchausen_alpha == 0 else 2 * batch
    if len(outcomes) != expected:
        raise ValueError(
            f"outcomes must be of {expected} states for a batch of {batch} and "
            f"munchausen_alpha = {family.munchausen_alpha:g}, got {len(outcomes)}"
        )
