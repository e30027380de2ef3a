"""Exact reference solutions: the value of a policy, and the optimal action values."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from mviq.arrays import Floats
from mviq.tabular.mdp import MDP

_DIRECT = 500  # states up to which a linear system is factorised
_ACCURACY = 1e-12  # relative, of an iterative solution
_WARM_UP = 1000  # sweeps of value iteration before policy iteration
_IMPROVES = 1e-11  # relative: a smaller advantage is rounding


def greedy_policy(q_values: Floats) -> Floats:
    """Return the greedy policy; ties go to the first action."""
    policy: Floats = np.eye(q_values.shape[1])[q_values.argmax(axis=1)]
    return policy


def action_values(mdp: MDP, values: Floats) -> Floats:
    """Return r + γ P values, shape (states, actions), without regularisation."""
    expected: Floats = (mdp.transitions @ values).reshape(mdp.rewards.shape)
    return mdp.rewards + mdp.discount * expected


def policy_values(mdp: MDP, policy: Floats) -> Floats:
    """Return the value of every state under a policy: the V with V = r_π + γ P_π V.

    Up to 500 states the system is solved directly, above by a Krylov method whose result is then
    refined until its error bound ‖r_π + γ P_π V − V‖∞/(1 − γ) is about 1e-12 ‖V‖∞ or less.

    >>> from mviq.tabular import lock_in_chain
    >>> stay = np.eye(2)[np.zeros(8, dtype=int)]
    >>> float(policy_values(lock_in_chain(), stay)[0].round(6))
    2.0
    """
    if policy.shape != mdp.rewards.shape:
        raise ValueError(f"policy must have shape {mdp.rewards.shape}, got {policy.shape}")
    rewards = (policy * np.where(mdp.available, mdp.rewards, 0.0)).sum(axis=1)
    if mdp.states <= _DIRECT:
        return _solve_directly(mdp, policy, rewards)
    return _solve_iteratively(mdp, policy, rewards)


def _solve_directly(mdp: MDP, policy: Floats, rewards: Floats) -> Floats:
    choose = sparse.csr_array(
        (policy.ravel(), np.arange(policy.size), np.arange(0, policy.size + 1, mdp.actions)),
        shape=(mdp.states, policy.size),
    )
    matrix = sparse.eye_array(mdp.states) - mdp.discount * (choose @ mdp.transitions)
    return np.asarray(linalg.splu(sparse.csc_array(matrix)).solve(rewards))


def _solve_iteratively(mdp: MDP, policy: Floats, rewards: Floats) -> Floats:
    def expected(values: Floats) -> Floats:
        per_action: Floats = (mdp.transitions @ values).reshape(policy.shape)
        return np.asarray(np.einsum("sa,sa->s", policy, per_action))

    shape = (mdp.states, mdp.states)
    system = linalg.LinearOperator(
        shape, matvec=lambda v: v - mdp.discount * expected(v), dtype=np.float64
    )
    values, _ = linalg.bicgstab(system, rewards, rtol=_ACCURACY * (1 - mdp.discount), maxiter=500)
    if not np.isfinite(values).all():
        values = rewards.copy()
    rounding = 64 * np.finfo(float).eps / (1 - mdp.discount)
    while True:  # a contraction, so it ends whatever the Krylov method returned
        backed_up = rewards + mdp.discount * expected(values)
        error = np.abs(backed_up - values).max() / (1 - mdp.discount)
        values = backed_up
        if error <= max(_ACCURACY, rounding) * np.abs(values).max():
            return values


def _nearly_optimal(mdp: MDP) -> NDArray[np.intp]:
    """Return the greedy actions after value iteration, a good start for policy iteration."""
    values = np.zeros(mdp.states)
    for _ in range(_WARM_UP):
        backed_up = action_values(mdp, values).max(axis=1)
        spread = np.ptp(backed_up - values)
        values = backed_up
        if spread <= _IMPROVES * np.abs(values).max():
            break
    return np.asarray(action_values(mdp, values).argmax(axis=1))


def optimal_q_values(mdp: MDP) -> Floats:
    """Return Q* by policy iteration: evaluate exactly, improve where strictly better.

    >>> from mviq.tabular import lock_in_chain
    >>> optimal_q_values(lock_in_chain())[0].round(2).tolist()
    [13.37, 13.97]
    """
    states = np.arange(mdp.states)
    chosen = _nearly_optimal(mdp)
    while True:
        values = policy_values(mdp, np.eye(mdp.actions)[chosen])
        q_values = action_values(mdp, values)
        best = q_values.argmax(axis=1)
        gain = q_values[states, best] - q_values[states, chosen]
        better = gain > _IMPROVES * max(np.abs(values).max(), 1e-300) / (1 - mdp.discount)
        if not better.any():
            return q_values
        chosen = np.where(better, best, chosen)
