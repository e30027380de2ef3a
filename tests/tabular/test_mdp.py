"""Building MDPs: the ways agree, and mistakes are named with their place."""

import numpy as np
import pytest
from scipy import sparse

from mviq.tabular import MDP, Grid, garnet

P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
R = np.array([[1.0, 2.0], [0.0, -1.0]])


def test_dense_and_sparse_give_the_same_mdp() -> None:
    dense = MDP.from_arrays(P, R, 0.9)
    for matrix in (sparse.coo_array, sparse.csr_matrix, sparse.csc_array):
        other = MDP.from_arrays(matrix(P.reshape(4, 2)), R, 0.9)
        np.testing.assert_array_equal(other.transitions.toarray(), dense.transitions.toarray())
        np.testing.assert_array_equal(other.rewards, dense.rewards)


def test_the_matrix_of_the_caller_is_neither_changed_nor_kept() -> None:
    # Two entries of one place: they are summed, but not in the caller's own arrays.
    given = sparse.csr_array((np.array([0.5, 0.5, 1.0]), [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    mdp = MDP.from_arrays(given, [[1.0], [0.0]], 0.9)
    np.testing.assert_array_equal(given.data, [0.5, 0.5, 1.0])
    given.data[:] = 7
    np.testing.assert_array_equal(mdp.transitions.toarray(), [[1, 0], [0, 1]])


def test_rewards_of_the_next_state_are_averaged() -> None:
    per_next = np.arange(8.0).reshape(2, 2, 2)
    mdp = MDP.from_arrays(P, per_next, 0.9)
    np.testing.assert_allclose(mdp.rewards, (P * per_next).sum(-1))


def test_the_start_is_uniform_over_states_that_act() -> None:
    end = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = MDP.from_arrays(end, [[1.0, 2.0], [0.0, 0.0]], 0.9, terminal=[False, True])
    np.testing.assert_array_equal(mdp.start, [1.0, 0.0])
    assert mdp.transitions[[2, 3]].nnz == 0  # nothing leads out of a terminal state


def changed(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    result = array.copy()
    result[place] = value
    return result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transitions": changed(P, (1, 1, 1), 0.5)}, r"state 1, action 1.*sum to 1.*0\.75"),
        ({"transitions": changed(P, (0, 1, 0), -0.5)}, "state 0, action 1.*next state 0.*-0.5"),
        ({"transitions": changed(P, (1, 0, 0), np.nan)}, "state 1, action 0.*nan"),
        ({"transitions": np.ones((2, 2, 3))}, r"\(states, actions, states\), got \(2, 2, 3\)"),
        ({"transitions": sparse.csr_array(np.ones((3, 2)))}, r"\(states·actions, states\)"),
        ({"rewards": changed(R, (1, 0), np.nan)}, "state 1, action 0: reward must be finite"),
        ({"rewards": changed(R, (0, 1), np.inf)}, "state 0, action 1: reward must be finite"),
        ({"rewards": np.ones((2, 3))}, r"rewards must have shape .*got \(2, 3\)"),
        ({"discount": 1.0}, r"discount must be a number in \[0, 1\), got 1.0"),
        ({"discount": -0.1}, "discount"),
        ({"discount": float("nan")}, "discount"),
        ({"start": [0.5, 0.4]}, "start probabilities must sum to 1, got 0.9"),
        ({"start": [1.5, -0.5]}, "start probability of state 1"),
        ({"start": [1.0]}, r"start must have shape \(2,\)"),
        ({"terminal": [0, 1]}, "terminal must be booleans"),
        ({"terminal": [True, False]}, "terminal state 0, action 0: reward must be 0"),
        ({"terminal": [False, True]}, "terminal state 1, action 1: reward must be 0, got -1"),
        ({"available": [[True, True]]}, "available must be booleans"),
        ({"available": [[True, True], [False, False]]}, "state 1: at least one action"),
        ({"grid": Grid(("S.G",), ((0, 1), (0, -1)))}, "3 tiles"),
    ],
)
def test_a_mistake_is_named(arguments: dict[str, object], message: str) -> None:
    good = {"transitions": P, "rewards": R, "discount": 0.9}
    with pytest.raises(ValueError, match=message):
        MDP.from_arrays(**(good | arguments))


def test_a_terminal_state_must_not_lead_on() -> None:
    with pytest.raises(ValueError, match="terminal state 1 must not lead to state 0"):
        MDP.from_arrays(P, [[1.0, 1.0], [0.0, 0.0]], 0.9, terminal=[False, True])


def test_an_action_that_is_not_available_needs_no_transitions() -> None:
    missing = P.copy()
    missing[0, 1] = 0.0
    mdp = MDP.from_arrays(missing, R, 0.9, available=[[True, False], [True, True]])
    assert mdp.available.tolist() == [[True, False], [True, True]]
    assert mdp.rewards[0, 1] == -np.inf


def test_a_next_state_out_of_range_is_found() -> None:
    mdp = garnet(10)
    wrong = mdp.transitions.copy()
    wrong.indices[7] = 10
    with pytest.raises(ValueError, match="outside 0 … 9"):
        MDP(wrong, mdp.rewards, 0.9, mdp.start, mdp.terminal)


def test_a_map_must_be_a_rectangle() -> None:
    with pytest.raises(ValueError, match="row 1 of the map has 1 tiles, expected 2"):
        Grid(("..", "."), ((0, 1),))
