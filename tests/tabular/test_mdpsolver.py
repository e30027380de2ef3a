"""Agreement of the optimal values with an independent C++ solver."""

import gymnasium
import mdpsolver
import numpy as np
import pytest

from mviq.tabular import algorithm, from_gym, garnet, optimal_q_values, solve


def values_of(probabilities: list, columns: list, rewards: list, discount: float) -> np.ndarray:
    model = mdpsolver.model()
    model.mdp(
        discount=discount, rewards=rewards, tranMatProbs=probabilities, tranMatColumns=columns
    )
    model.solve(algorithm="pi", update="standard", tolerance=1e-9, parallel=False)
    return np.array(model.getValueVector())


@pytest.mark.parametrize("seed", range(4))
def test_garnets(seed: int) -> None:
    mdp = garnet(200, discount=0.95, seed=seed)
    shape = (200, 4, 5)
    theirs = values_of(
        mdp.transitions.data.reshape(shape).tolist(),
        mdp.transitions.indices.reshape(shape).tolist(),
        mdp.rewards.tolist(),
        0.95,
    )
    np.testing.assert_allclose(optimal_q_values(mdp).max(axis=1), theirs, atol=1e-7)
    ours = solve(mdp, algorithm("vi"), tolerance=1e-10)
    np.testing.assert_allclose(ours.values, theirs, atol=1e-7)


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalking-v1", "Taxi-v4"])
def test_toy_text(name: str) -> None:
    """Their model is read from Gymnasium's table here, without our reader."""
    table = gymnasium.make(name).unwrapped.P
    end = len(table)  # every transition that terminates goes there
    probabilities, columns, rewards = [], [], []
    for state in range(end):
        rows = [table[state][action] for action in range(len(table[0]))]
        probabilities.append([[p for p, *_ in row] for row in rows])
        columns.append([[end if ends else int(to) for _, to, _, ends in row] for row in rows])
        rewards.append([float(sum(p * r for p, _, r, _ in row)) for row in rows])
    probabilities.append([[1.0]] * len(rows))
    columns.append([[end]] * len(rows))
    rewards.append([0.0] * len(rows))
    theirs = values_of(probabilities, columns, rewards, 0.99)[:end]
    mdp = from_gym(name)
    acting = ~mdp.terminal[:end]
    best = optimal_q_values(mdp).max(axis=1)[:end]
    np.testing.assert_allclose(best[acting], theirs[acting], atol=1e-6)
    ours = solve(mdp, algorithm("vi"), tolerance=1e-10).values[:end]
    np.testing.assert_allclose(ours[acting], theirs[acting], atol=1e-6)
