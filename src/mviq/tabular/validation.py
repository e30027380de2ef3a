"""Checks that an MDP is valid; errors name the state and action."""

from typing import TYPE_CHECKING, SupportsInt

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mviq.arrays import Floats

if TYPE_CHECKING:
    from mviq.tabular.mdp import MDP

SUM_TOLERANCE = 1e-9  # how far the sum of a row's probabilities may be from 1


def check_mdp(mdp: "MDP") -> None:
    """Raise a ``ValueError`` for the first error found in an MDP."""
    if not isinstance(mdp.discount, int | float) or not 0 <= mdp.discount < 1:
        raise ValueError(f"discount must be a number in [0, 1), got {mdp.discount!r}")
    _check_shapes(mdp)
    _check_rewards(mdp)
    _check_probabilities(mdp)
    _check_rows(mdp)
    _check_start(mdp)
    if mdp.grid is not None:
        _check_grid(mdp)


def check_terminal(
    transitions: sparse.csr_array, rewards: Floats, terminal: NDArray[np.bool_]
) -> None:
    """Require that a terminal state has reward 0 and leads only to itself."""
    actions = rewards.shape[1]
    for state, action in np.argwhere(terminal[:, None] & (rewards != 0)):
        raise ValueError(
            f"terminal {_place(state, action)}: reward must be 0, got "
            f"{rewards[state, action]:g}; pay it on the transition that leads there"
        )
    states = np.repeat(np.arange(rewards.size) // actions, np.diff(transitions.indptr))
    for entry in np.flatnonzero(terminal[states] & (transitions.indices != states)):
        to = transitions.indices[entry]
        raise ValueError(f"terminal state {states[entry]} must not lead to state {to}")


def _check_shapes(mdp: "MDP") -> None:
    if mdp.rewards.ndim != 2 or 0 in mdp.rewards.shape:
        raise ValueError(f"rewards must have shape (states, actions), got {mdp.rewards.shape}")
    states, actions = mdp.rewards.shape
    expected = {
        "transitions": (mdp.transitions.shape, (states * actions, states)),
        "start": (mdp.start.shape, (states,)),
        "terminal": (mdp.terminal.shape, (states,)),
    }
    for name, (shape, wanted) in expected.items():
        if shape != wanted:
            raise ValueError(
                f"{name} must have shape {wanted} for {states} states and {actions} actions, "
                f"got {shape}"
            )
    columns = mdp.transitions.indices
    if columns.size and not 0 <= int(columns.min()) <= int(columns.max()) < states:
        raise ValueError(f"transitions lead to a state outside 0 … {states - 1}")


def _check_rewards(mdp: "MDP") -> None:
    for state, action in np.argwhere(np.isnan(mdp.rewards) | (mdp.rewards == np.inf)):
        raise ValueError(
            f"{_place(state, action)}: reward must be finite, or -inf for an action that is not "
            f"available, got {mdp.rewards[state, action]}"
        )
    for state in np.flatnonzero(mdp.rewards.max(axis=1) == -np.inf):
        raise ValueError(f"state {state}: at least one action must be available")
    for state in np.flatnonzero(mdp.terminal & (mdp.rewards != 0).any(axis=1)):
        raise ValueError(f"terminal state {state}: rewards must be 0, got {mdp.rewards[state]}")


def _check_probabilities(mdp: "MDP") -> None:
    data = mdp.transitions.data
    lowest = data.min(initial=0.0)  # NaN if there is one
    if lowest >= 0:
        return
    entry = int(np.flatnonzero(~(data >= 0))[0])
    row = int(np.searchsorted(mdp.transitions.indptr, entry, side="right")) - 1
    raise ValueError(
        f"{_place(*divmod(row, mdp.actions))}: the probability of next state "
        f"{mdp.transitions.indices[entry]} must be ≥ 0, got {data[entry]:g}"
    )


def _check_rows(mdp: "MDP") -> None:
    """Require probabilities that sum to 1 where an action can be taken, and to 0 elsewhere."""
    totals = (mdp.transitions @ np.ones(mdp.states)).reshape(mdp.rewards.shape)
    wanted = (mdp.rewards > -np.inf) & ~mdp.terminal[:, None]
    wrong = ~(np.abs(totals - wanted) <= SUM_TOLERANCE)
    if not wrong.any():
        return
    state, action = np.argwhere(wrong)[0]
    what = "sum to 1" if wanted[state, action] else "be none: no action can be taken here"
    raise ValueError(
        f"{_place(state, action)}: probabilities of the next states must {what}, "
        f"got a sum of {totals[state, action]:.12g}"
    )


def _check_start(mdp: "MDP") -> None:
    for state in np.flatnonzero(~(mdp.start >= 0)):
        raise ValueError(f"start probability of state {state} must be ≥ 0, got {mdp.start[state]}")
    total = float(mdp.start.sum())
    if not abs(total - 1) <= SUM_TOLERANCE:
        raise ValueError(f"start probabilities must sum to 1, got {total:.12g}")


def _check_grid(mdp: "MDP") -> None:
    assert mdp.grid is not None
    tiles, moves = len(mdp.grid.letters), len(mdp.grid.moves)
    if (tiles, moves) != mdp.rewards.shape:
        raise ValueError(
            f"the map has {tiles} tiles and {moves} moves, but there are {mdp.states} states and "
            f"{mdp.actions} actions"
        )


def _place(state: SupportsInt, action: SupportsInt) -> str:
    return f"state {state}, action {action}"
