"""Finite MDPs and the whole MVI(q) family on them: solve, watch, compare.

>>> solution = solve(from_gym("FrozenLake-v1"), algorithm("mvi", q=2.0))
>>> solution.status.value
'converged'
"""

from mviq.choices import ALGORITHMS
from mviq.tabular.algorithms import Algorithm, ExplicitKL, algorithm
from mviq.tabular.exact_values import greedy_policy, optimal_q_values, policy_values
from mviq.tabular.generators import chain, deep_sea, garnet, grid_world, lock_in_chain
from mviq.tabular.gym import from_gym
from mviq.tabular.history import Diagnostics, Record
from mviq.tabular.mdp import MDP, Grid
from mviq.tabular.mdp_files import load_mdp, save_mdp
from mviq.tabular.solver import Noise, Solution, iterate, solve
from mviq.tabular.status import State, Status, begin

__all__ = [
    "ALGORITHMS",
    "MDP",
    "Algorithm",
    "Diagnostics",
    "ExplicitKL",
    "Grid",
    "Noise",
    "Record",
    "Solution",
    "State",
    "Status",
    "algorithm",
    "begin",
    "chain",
    "deep_sea",
    "from_gym",
    "garnet",
    "greedy_policy",
    "grid_world",
    "iterate",
    "load_mdp",
    "lock_in_chain",
    "optimal_q_values",
    "policy_values",
    "save_mdp",
    "solve",
]
