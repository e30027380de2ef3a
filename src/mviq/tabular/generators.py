"""Generators of MDPs: random ones (seeded), and small ones with a known solution."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage, sparse

from mviq.arrays import Array, Floats
from mviq.tabular.mdp import DOWN, LEFT, MDP, RIGHT, UP, Grid

_BLOCK = 100_000  # rows drawn at a time, so that temporaries stay small


def garnet(
    states: int = 100,
    actions: int = 4,
    branching: int = 5,
    discount: float = 0.9,
    seed: int = 0,
) -> MDP:
    """Return a random MDP: an action leads to ``branching`` random states, rewards are N(0, 1).

    The transition probabilities are uniform on the simplex.
    """
    _check_at_least(1, states=states, actions=actions, branching=branching)
    if branching > states:
        raise ValueError(f"branching must be at most the number of states, got {branching}")
    rng = np.random.default_rng(seed)
    rows = states * actions
    columns = np.empty((rows, branching), dtype=np.int32)
    probabilities = np.empty((rows, branching))
    for first in range(0, rows, _BLOCK):
        block = slice(first, min(first + _BLOCK, rows))
        columns[block] = _distinct(rng, block.stop - first, branching, states)
        probabilities[block] = rng.dirichlet(np.ones(branching), size=block.stop - first)
    wide = rows * branching >= 2**31
    ends = np.arange(rows + 1, dtype=np.int64 if wide else np.int32) * branching
    return MDP(
        transitions=sparse.csr_array(
            (probabilities.ravel(), columns.ravel(), ends), shape=(rows, states)
        ),
        rewards=rng.standard_normal((states, actions)),
        discount=discount,
        start=np.full(states, 1 / states),
        terminal=np.zeros(states, dtype=bool),
        name=f"garnet({states}×{actions})",
    )


def _distinct(rng: np.random.Generator, rows: int, columns: int, states: int) -> NDArray[np.int32]:
    """Return rows of distinct states in ascending order."""
    if columns * columns > states:  # collisions would be common: take a part of a permutation
        chosen = rng.random((rows, states)).argpartition(columns - 1, axis=1)[:, :columns]
        return np.sort(chosen.astype(np.int32), axis=1)
    drawn = np.sort(rng.integers(states, size=(rows, columns), dtype=np.int32), axis=1)
    while (again := (np.diff(drawn, axis=1) == 0).any(axis=1)).any():
        fresh = rng.integers(states, size=(int(again.sum()), columns), dtype=np.int32)
        drawn[again] = np.sort(fresh, axis=1)
    return drawn


def chain(states: int = 10, slip: float = 0.1, discount: float = 0.95) -> MDP:
    """Return a chain: walk left or right, or slip the other way; only the right end pays (1)."""
    _check_at_least(2, states=states)
    _check_probability(slip=slip)
    here = np.arange(states)
    sides = (np.maximum(here - 1, 0), np.minimum(here + 1, states - 1))
    moves = [
        (2 * here + action, sides[side], np.full(states, slip if side != action else 1 - slip))
        for action in (0, 1)
        for side in (0, 1)
    ]
    transitions = _sparse(states, moves)
    rewards = np.zeros((states, 2))
    rewards[-1] = 1.0
    return MDP.from_arrays(transitions, rewards, discount, _first(states), name=f"chain({states})")


def _sparse(states: int, moves: Sequence[tuple[Array, ...]], actions: int = 2) -> sparse.csr_array:
    """Return the transition matrix of moves (rows, next states, probabilities)."""
    rows, following, probabilities = (np.concatenate(part) for part in zip(*moves, strict=True))
    shape = (actions * states, states)
    matrix = sparse.csr_array((probabilities, (rows, following)), shape=shape)
    matrix.eliminate_zeros()
    return matrix


def lock_in_chain(states: int = 8, discount: float = 0.95) -> MDP:
    """Return a chain: stay for a reward of 0.1, or walk right for 0; the last state pays 1.

    Walking right pays off in the end, but its value takes many iterations to reach the start. A
    policy that drops an action for good, as the explicit Tsallis-KL step does, never learns it.
    """
    _check_at_least(2, states=states)
    here = np.arange(states)
    sure, onwards = np.ones(states), np.minimum(here + 1, states - 1)
    transitions = _sparse(states, [(2 * here, here, sure), (2 * here + 1, onwards, sure)])
    rewards = np.where(np.arange(2) == 0, 0.1, 0.0) * np.ones((states, 1))
    rewards[-1] = 1.0
    return MDP.from_arrays(
        transitions, rewards, discount, _first(states), name=f"lock-in({states})"
    )


def grid_world(
    rows: int = 8,
    columns: int = 8,
    slip: float = 0.1,
    walls: float = 0.15,
    discount: float = 0.95,
    seed: int = 0,
) -> MDP:
    """Return a grid with random walls: walk from the top left to the bottom right, which pays 1.

    With probability ``slip`` the step goes to one of the two sides. The goal is always reachable.
    """
    _check_at_least(2, rows=rows, columns=columns)
    _check_probability(slip=slip)
    if not 0 <= walls <= 0.4:
        raise ValueError(f"walls must be a fraction in [0, 0.4], got {walls}")
    rng = np.random.default_rng(seed)
    blocked = _walls_with_a_way(rng, rows, columns, walls)
    return _walk(blocked, slip, discount)


MOST_TRIES = 10_000  # to draw walls that leave a way


def _walls_with_a_way(
    rng: np.random.Generator, rows: int, columns: int, walls: float
) -> NDArray[np.bool_]:
    for _ in range(MOST_TRIES):
        blocked = rng.random((rows, columns)) < walls
        blocked[0, 0] = blocked[-1, -1] = False
        regions, _ = ndimage.label(~blocked)
        if regions[0, 0] == regions[-1, -1]:
            return blocked
    raise ValueError(
        f"walls must be below {walls:g} on a grid of {rows} rows and {columns} columns: none of "
        f"{MOST_TRIES} had a way to the goal"
    )


def _walk(blocked: NDArray[np.bool_], slip: float, discount: float) -> MDP:
    """Return the MDP of walking between tiles; a step into a wall or off the grid is a no-op."""
    moves = (LEFT, DOWN, RIGHT, UP)
    rows, columns = blocked.shape
    tiles = rows * columns
    row, column = np.divmod(np.arange(tiles), columns)
    goal = tiles - 1

    def target(move: tuple[int, int]) -> NDArray[np.intp]:
        to_row, to_column = row + move[0], column + move[1]
        outside = (to_row < 0) | (to_row >= rows) | (to_column < 0) | (to_column >= columns)
        to_row, to_column = np.where(outside, row, to_row), np.where(outside, column, to_column)
        stopped = outside | blocked[to_row, to_column]
        return np.where(stopped, np.arange(tiles), to_row * columns + to_column)

    targets = [target(move) for move in moves]
    terminal = blocked.ravel().copy()
    terminal[goal] = True
    free = np.flatnonzero(~terminal)
    steps = [
        (free * 4 + action, targets[(action + turn) % 4][free], np.full(free.size, chance))
        for action in range(4)
        for turn, chance in ((0, 1 - slip), (1, slip / 2), (3, slip / 2))
    ]
    matrix = _sparse(tiles, steps, actions=4)
    rewards = matrix[:, [goal]].toarray().reshape(tiles, 4)
    letters = np.where(blocked.ravel(), "#", ".")
    letters[0], letters[goal] = "S", "G"
    lines = tuple("".join(line) for line in letters.reshape(rows, columns))
    return MDP.from_arrays(
        matrix,
        rewards,
        discount,
        _first(tiles),
        terminal,
        name=f"grid({rows}×{columns})",
        grid=Grid(lines, moves),
    )


def deep_sea(size: int = 10, discount: float = 0.99) -> MDP:
    """Return bsuite's deep sea: descend one row per step; only going right all the way pays off.

    A step right costs 0.01/size, and the treasure in the last corner is worth 1. Unlike in bsuite,
    an action means the same direction in every state.
    """
    _check_at_least(2, size=size)
    tiles = size * size
    row, column = np.divmod(np.arange(tiles), size)
    end = tiles  # one more state, below the last row
    rewards = np.zeros((tiles + 1, 2))
    rewards[:tiles, 1] = -0.01 / size
    rewards[tiles - 1, 1] += 1.0
    below = np.where(row < size - 1, (row + 1) * size, end)
    to_left = np.where(row < size - 1, below + np.maximum(column - 1, 0), end)
    to_right = np.where(row < size - 1, below + np.minimum(column + 1, size - 1), end)
    here, sure = np.arange(tiles), np.ones(tiles)
    matrix = _sparse(tiles + 1, [(2 * here, to_left, sure), (2 * here + 1, to_right, sure)])
    terminal = np.arange(tiles + 1) == end
    return MDP.from_arrays(
        matrix, rewards, discount, _first(tiles + 1), terminal, name=f"deep-sea({size})"
    )


def _first(states: int) -> Floats:
    return np.asarray(np.arange(states) == 0, dtype=np.float64)


def _check_at_least(lowest: int, **numbers: int) -> None:
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < lowest:
            raise ValueError(f"{name} must be a whole number ≥ {lowest}, got {number!r}")


def _check_probability(**numbers: float) -> None:
    for name, number in numbers.items():
        if not 0 <= number <= 1:
            raise ValueError(f"{name} must be a probability, got {number!r}")
