"""``mviq solve``: the arguments; what they do is in ``solve_job``."""

import argparse
from pathlib import Path
from typing import get_args

from mviq.cli.solve_job import description, run_command
from mviq.tabular.algorithms import PriorMotion
from mviq.tabular.solver import MAX_ITERATIONS, TOLERANCE
from mviq.tsallis.family import Form, PolicyMethod


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "solve",
        description=description(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("problem", help="environment, generator or file, as listed above")
    add = parser.add_argument
    add("--algorithm", default="mvi", metavar="NAME", help="one of those above (default: mvi)")
    add("--discount", type=float, metavar="γ", help="in [0, 1); default: the problem's own")
    point = parser.add_argument_group("the algorithm's numbers (defaults: those of its name)")
    add = point.add_argument
    add("--q", type=float, nargs="+", metavar="Q", help="entropic index ≥ 1 or inf, or several")
    add("--temperature", type=float, metavar="τ", help="scale at which the policy is soft")
    add("--munchausen-alpha", type=float, metavar="α", help="weight of the Munchausen term")
    add("--form", choices=get_args(Form), help="of that term")
    add("--clip", metavar="LOW,HIGH", help="bounds of that term, as -1,0, or none")
    add("--entropy-weight", type=float, metavar="C", help="of the entropy in the bootstrap")
    add("--policy-method", choices=get_args(PolicyMethod), help="exact, or the paper's Taylor one")
    add("--prior", choices=get_args(PriorMotion), help="of kl-vi and tkl-vi")
    run = parser.add_argument_group("the run")
    add = run.add_argument
    add("--tolerance", type=float, default=TOLERANCE, help="of ‖TQ − Q‖∞ (default: %(default)g)")
    add("--max-iterations", type=int, default=MAX_ITERATIONS, help="(default: %(default)d)")
    add("--noise", type=float, default=0.0, metavar="σ", help="Gaussian error added to Q each time")
    add("--seed", type=int, default=0, help="of the noise (default: %(default)d)")
    add("--values-every", type=int, metavar="N", help="iterations between exact policy values")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--out", type=Path, metavar="DIR", help="write JSON, CSV, arrays and plots there")
    add("--force", action="store_true", help="write into DIR even if it has something in it")
    parser.set_defaults(run=run_command)
