"""``mviq solve``: help and arguments; ``solving`` does the work and imports PyTorch."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from mviq.choices import (
    ALGORITHMS,
    ANY,
    GENERATORS,
    MAX_ITERATIONS,
    TOLERANCE,
    TOY_TEXT,
    Form,
    NoiseKind,
    PolicyMethod,
    PriorMotion,
)


def _lines(entries: Mapping[str, str]) -> str:
    return "\n".join(f"  {name:<19}{summary}" for name, summary in entries.items())


def _description() -> str:
    """Return the help text, which lists the environments, generators and algorithms."""
    algorithms = {**ALGORITHMS, ANY: "no name: any q, α, form, clip and entropy weight"}
    return f"""\
Solve a finite MDP and say how it ended: converged, cycling, diverged, or
stopped at the limit.

  mviq solve FrozenLake-v1                         MVI(2), the paper's algorithm
  mviq solve FrozenLake-v1 --q 1 2 5 inf --out out/lake
  mviq solve garnet:states=1000,seed=1 --algorithm m-vi --temperature 0.1
  mviq solve lock-in --algorithm tkl-vi --prior moving

environments:
{_lines(TOY_TEXT)}

generators, with their numbers as in garnet:states=1000,seed=1:
{_lines(GENERATORS)}

  a .npz file        an MDP written by mviq.tabular.save_mdp

algorithms:
{_lines(algorithms)}
"""


DESCRIPTION = _description()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("problem", help="environment, generator or file, as listed above")
    add = parser.add_argument
    add("--algorithm", default="mvi", metavar="NAME", help="one of those above (default: mvi)")
    add(
        "--discount",
        type=float,
        metavar="γ",
        help="discount in [0, 1) (default: that of the problem)",
    )
    point = parser.add_argument_group("parameters of the algorithm (defaults depend on its name)")
    add = point.add_argument
    add(
        "--q",
        type=float,
        nargs="+",
        metavar="Q",
        help="entropic index ≥ 1 or inf; several are compared",
    )
    add("--temperature", type=float, metavar="τ", help="scale at which the policy is soft")
    add("--munchausen-alpha", type=float, metavar="α", help="weight of the Munchausen term")
    add("--form", choices=get_args(Form), help="form of the Munchausen term")
    add("--clip", metavar="LOW,HIGH", help="bounds of the Munchausen term, as -1,0, or none")
    add("--entropy-weight", type=float, metavar="C", help="weight of the entropy in the bootstrap")
    add(
        "--policy-method",
        choices=get_args(PolicyMethod),
        help="exact, or the paper's Taylor approximation",
    )
    add(
        "--prior",
        choices=get_args(PriorMotion),
        help="prior of kl-vi and tkl-vi: fixed, or the previous policy",
    )
    run = parser.add_argument_group("the run")
    add = run.add_argument
    add(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        help="converged when ‖TQ − Q‖∞ is below this (default: %(default)g)",
    )
    add("--max-iterations", type=int, default=MAX_ITERATIONS, help="(default: %(default)d)")
    add(
        "--noise",
        type=float,
        default=0.0,
        metavar="σ",
        help="standard deviation of an error added to Q in every iteration",
    )
    add(
        "--noise-kind",
        choices=get_args(NoiseKind),
        default="gaussian",
        help="distribution of those errors",
    )
    add("--seed", type=int, default=0, help="seed of the noise (default: %(default)d)")
    add("--values-every", type=int, metavar="N", help="iterations between exact policy values")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add(
        "--out",
        type=Path,
        metavar="DIR",
        help="write JSON, CSV, arrays and plots to this directory",
    )
    add("--force", action="store_true", help="write to DIR even if it is not empty")


def run(options: argparse.Namespace) -> int:
    """Solve the MDP, write the files and print the results."""
    from mviq.cli.solving import run_job

    return run_job(options)
