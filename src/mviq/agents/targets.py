"""The target y_j of an update, defined in ``update``, on any device."""

from torch import Tensor

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
    and s; those at s are not needed if α = 0. The other tensors have shape (batch, 1).
    ``terminated`` is d, which is 0 where an episode was truncated. With n-step returns,
    ``rewards`` are the returns, ``discounts`` γⁿ and s' the state n steps later.
    """
    if family.munchausen_alpha != 0 and outcomes is None:
        raise ValueError(
            f"munchausen_alpha = {family.munchausen_alpha:g} needs the outcomes at s, got None"
        )
    after = family.evaluate(mean_outcome(next_outcomes))
    values = after.soft_maximum.unsqueeze(1)
    if next_outcomes.shape[1] > 1:  # one value per outcome
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
