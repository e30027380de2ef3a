"""The finite Markov decision process (MDP) that the solvers of this package take."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mviq.arrays import Floats
from mviq.tabular import validation

Booleans = NDArray[np.bool_]
LEFT, DOWN, RIGHT, UP = (0, -1), (1, 0), (0, 1), (-1, 0)


@dataclass(frozen=True)
class Grid:
    """A map: its tiles row by row, and the (row, column) step of every action.

    State ``row · columns + column`` is the tile at (row, column). Letters:
    S start, G goal, H hole, C cliff, # wall; anything else is free.

    >>> Grid(tiles=("S.", ".G"), moves=(LEFT, DOWN, RIGHT, UP)).shape
    (2, 2)
    """

    tiles: tuple[str, ...]
    moves: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        if not self.tiles or not self.tiles[0]:
            raise ValueError("a map needs at least one tile")
        for number, row in enumerate(self.tiles):
            if len(row) != len(self.tiles[0]):
                raise ValueError(
                    f"row {number} of the map has {len(row)} tiles, expected {len(self.tiles[0])}"
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.tiles), len(self.tiles[0])

    @property
    def letters(self) -> str:
        """The letters of all tiles, in the order of the states."""
        return "".join(self.tiles)


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite MDP with discounted rewards, validated on construction.

    The constructor takes the stored form; ``MDP.from_arrays`` takes dense or sparse arrays.

    >>> stay_or_go = MDP.from_arrays(
    ...     transitions=[[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]],
    ...     rewards=[[0.1, 1.0], [0.0, 0.0]],
    ...     discount=0.9,
    ...     terminal=[False, True],
    ... )
    >>> stay_or_go
    MDP(name='MDP', states=2, actions=2, transitions=2, discount=0.9)
    """

    transitions: sparse.csr_array
    """Row ``state · actions + action`` holds the probabilities of the next states; a row of
    a terminal state, or of an action that is not available, is empty."""
    rewards: Floats
    """Expected reward, shape (states, actions); −inf marks an action that is not available."""
    discount: float
    """γ in [0, 1)."""
    start: Floats
    """Initial state distribution, shape (states,)."""
    terminal: Booleans
    """States in which the process ends: their value is 0, also under regularisation."""
    name: str = "MDP"
    grid: Grid | None = None
    """The map of the states, if there is one."""

    def __post_init__(self) -> None:
        validation.check_mdp(self)

    @property
    def states(self) -> int:
        """Number of states."""
        return int(self.rewards.shape[0])

    @property
    def actions(self) -> int:
        """Number of actions, available or not."""
        return int(self.rewards.shape[1])

    @cached_property
    def available(self) -> Booleans:
        """Which actions can be taken, shape (states, actions)."""
        return self.rewards > -np.inf

    @cached_property
    def acting(self) -> NDArray[np.intp]:
        """Indices of the non-terminal states."""
        return np.flatnonzero(~self.terminal)

    @cached_property
    def largest_reward(self) -> float:
        """The largest absolute reward."""
        lowest = self.rewards.min(where=self.available, initial=0.0)
        return float(max(-lowest, self.rewards.max()))

    def __repr__(self) -> str:
        return (
            f"MDP(name={self.name!r}, states={self.states}, actions={self.actions}, "
            f"transitions={self.transitions.nnz}, discount={self.discount:g})"
        )

    @classmethod
    def from_arrays(
        cls,
        transitions: ArrayLike | sparse.sparray | sparse.spmatrix,
        rewards: ArrayLike,
        discount: float,
        start: ArrayLike | None = None,
        terminal: ArrayLike | None = None,
        available: ArrayLike | None = None,
        name: str = "MDP",
        grid: Grid | None = None,
    ) -> "MDP":
        """Build from dense or sparse arrays.

        Transitions are dense (states, actions, states), or sparse (states · actions, states).
        Rewards are (states, actions), or (states, actions, states) for a reward that depends on
        the next state. The start is uniform over the non-terminal states unless given;
        every action is available unless ``available`` (states, actions) says otherwise.
        """
        matrix, states, actions = _matrix(transitions)
        ends = _booleans("terminal", terminal, (states,), default=False)
        can = _booleans("available", available, (states, actions), default=True)
        expected = _expected_rewards(rewards, matrix, (states, actions))
        if ends.any():
            validation.check_terminal(matrix, expected, ends)
        expected[~can & ~ends[:, None]] = -np.inf
        closed = np.repeat(ends, actions) | ~can.ravel()
        if closed.any():
            matrix = sparse.csr_array(sparse.diags_array((~closed).astype(float)) @ matrix)
            matrix.eliminate_zeros()
        uniform = ~ends / max(int((~ends).sum()), 1)
        first = uniform if start is None else np.asarray(start, dtype=np.float64)
        return cls(matrix, expected, discount, first, ends, name, grid)


def _matrix(transitions: Any) -> tuple[sparse.csr_array, int, int]:
    """Return the transitions in stored form, and the numbers of states and actions."""
    if sparse.issparse(transitions):
        matrix = sparse.csr_array(transitions, dtype=np.float64, copy=True)
        rows, states = matrix.shape
        if states == 0 or rows == 0 or rows % states:
            raise ValueError(
                f"sparse transitions must have shape (states·actions, states), got {matrix.shape}"
            )
        matrix.sum_duplicates()
        return matrix, states, rows // states
    dense = np.asarray(transitions, dtype=np.float64)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2] or 0 in dense.shape:
        raise ValueError(
            f"dense transitions must have shape (states, actions, states), got {dense.shape}"
        )
    states, actions, _ = dense.shape
    return sparse.csr_array(dense.reshape(states * actions, states)), states, actions


def _expected_rewards(
    rewards: ArrayLike, matrix: sparse.csr_array, shape: tuple[int, int]
) -> Floats:
    given = np.array(rewards, dtype=np.float64, order="C")
    if given.shape == (*shape, shape[0]):
        rows = matrix.multiply(given.reshape(matrix.shape))
        return np.asarray(rows.sum(axis=1)).reshape(shape)
    if given.shape != shape:
        raise ValueError(
            f"rewards must have shape (states, actions) = {shape}, or (states, actions, states), "
            f"got {given.shape}"
        )
    return given


def _booleans(
    name: str, given: ArrayLike | None, shape: tuple[int, ...], *, default: bool
) -> Booleans:
    if given is None:
        return np.full(shape, default)
    result = np.array(given)
    if result.dtype != np.bool_ or result.shape != shape:
        raise ValueError(
            f"{name} must be booleans of shape {shape}, got {result.dtype} of shape {result.shape}"
        )
    return result
