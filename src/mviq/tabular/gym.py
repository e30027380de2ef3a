"""Gymnasium's toy-text environments as MDPs: their table ``P`` holds every transition."""

from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mviq.arrays import Array
from mviq.tabular.mdp import DOWN, LEFT, MDP, RIGHT, UP, Grid

Transition = tuple[float, int, float, bool]
TransitionTable = dict[int, dict[int, list[Transition]]]


def from_gym(
    environment: str | gymnasium.Env[Any, Any], discount: float = 0.99, **options: Any
) -> MDP:
    """Return the MDP of a toy-text environment, given by name or as an instance.

    A state in which every episode ends is a terminal state. A transition that ends the episode in
    a state that can also be passed through (in Taxi-v4, from states no episode reaches) leads to
    an additional terminal state instead.

    >>> from_gym("FrozenLake-v1", is_slippery=False)
    MDP(name='FrozenLake-v1', states=16, actions=4, transitions=44, discount=0.99)
    """
    made = _make(environment, options) if isinstance(environment, str) else environment
    name = made.spec.id if made.spec is not None else type(made.unwrapped).__name__
    table = _table(made, name)
    starts = np.asarray(getattr(made.unwrapped, "initial_state_distrib", np.zeros(len(table)))) > 0
    moves, terminal = _moves(table, starts)
    states, actions = len(terminal), len(table[0])
    source = moves["state"] * actions + moves["action"]
    shape = (states * actions, states)
    rewards = np.bincount(source, moves["probability"] * moves["reward"], minlength=shape[0])
    start = np.zeros(states)
    start[: len(table)] = getattr(made.unwrapped, "initial_state_distrib", ~terminal[: len(table)])
    return MDP.from_arrays(
        sparse.csr_array((moves["probability"], (source, moves["next"])), shape=shape),
        rewards.reshape(states, actions),
        discount,
        start=start / start.sum(),
        terminal=terminal,
        name=name,
        grid=_grid(made),
    )


def _make(name: str, options: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    try:
        return gymnasium.make(name, **options)
    except KeyError as reason:  # such as an unknown map name
        raise ValueError(f"{name} knows no {reason} among {options}") from None
    except (gymnasium.error.Error, TypeError, ImportError, ValueError) as reason:
        first_line = (str(reason).splitlines() or [type(reason).__name__])[0]
        raise ValueError(f"Gymnasium cannot make {name!r}: {first_line}") from None


def _table(environment: gymnasium.Env[Any, Any], name: str) -> TransitionTable:
    table = getattr(environment.unwrapped, "P", None)
    if not isinstance(table, dict):
        raise ValueError(
            f"{name} is not tabular: it has no table P of transitions (FrozenLake-v1, "
            "CliffWalking-v1 and Taxi-v4 have one)"
        )
    return cast(TransitionTable, table)


def _moves(table: TransitionTable, starts: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Return the transitions out of non-terminal states, and which states are terminal."""
    fields = [("state", int), ("action", int), ("probability", float), ("next", int)]
    fields += [("reward", float), ("ends", bool)]
    moves = np.array(
        [
            (state, action, *transition)
            for state, row in table.items()
            for action, transitions in row.items()
            for transition in transitions
        ],
        dtype=fields,
    )
    ends_here = np.isin(np.arange(len(table)), moves["next"][moves["ends"]])
    passed_through, before = starts, None
    while before is None or (passed_through != before).any():
        before = passed_through
        inside = moves[(~ends_here | passed_through)[moves["state"]]]
        reached = np.isin(np.arange(len(table)), inside["next"][~inside["ends"]])
        passed_through = before | reached
    if not (ends_here & passed_through).any():
        return inside, ends_here
    moves["next"][moves["ends"] & passed_through[moves["next"]]] = len(table)
    terminal = np.append(ends_here & ~passed_through, True)
    return moves[~terminal[moves["state"]]], terminal


def _grid(environment: gymnasium.Env[Any, Any]) -> Grid | None:
    """Return the map of an environment, if it has one with one state per tile."""
    kind, unwrapped = type(environment.unwrapped).__name__, cast(Any, environment.unwrapped)
    if kind == "FrozenLakeEnv":
        tiles = tuple("".join(tile.decode() for tile in row) for row in unwrapped.desc)
        return Grid(tiles, (LEFT, DOWN, RIGHT, UP))
    if kind == "CliffWalkingEnv":
        rows, columns = unwrapped.shape
        free = ("." * columns,) * (rows - 1)
        return Grid((*free, "S" + "C" * (columns - 2) + "G"), (UP, RIGHT, DOWN, LEFT))
    return None
