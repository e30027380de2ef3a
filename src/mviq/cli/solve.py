"""``mviq solve``: the arguments; what they do is in ``solve_job``, which loads torch."""

import argparse
from pathlib import Path
from typing import Any


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "solve",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
    )
    parser.add_argument("-h", "--help", action=_Help, nargs=0, help="show this help and exit")
    parser.add_argument("problem", help="environment, generator or file, as listed above")
    add = parser.add_argument
    add("--algorithm", default="mvi", metavar="NAME", help="one of those above (default: mvi)")
    add("--discount", type=float, metavar="γ", help="in [0, 1); default: the problem's own")
    point = parser.add_argument_group("the algorithm's numbers (defaults: those of its name)")
    add = point.add_argument
    add("--q", type=float, nargs="+", metavar="Q", help="entropic index ≥ 1 or inf, or several")
    add("--temperature", type=float, metavar="τ", help="scale at which the policy is soft")
    add("--munchausen-alpha", type=float, metavar="α", help="weight of the Munchausen term")
    add("--form", help="of that term: gap, log, truncated_log or naive_log")
    add("--clip", type=float, nargs=2, metavar=("LOW", "HIGH"), help="bounds of that term")
    add("--no-clip", action="store_true", help="no bounds, where the name has some")
    add("--entropy-weight", type=float, metavar="C", help="of the entropy in the bootstrap")
    add("--policy-method", help="exact, or taylor: the paper's approximation")
    add("--prior", help="of kl-vi and tkl-vi: fixed or moving")
    run = parser.add_argument_group("the run")
    add = run.add_argument
    add("--tolerance", type=float, help="of ‖TQ − Q‖∞")
    add("--max-iterations", type=int, metavar="N", help="after which it stops")
    add("--noise", type=float, default=0.0, metavar="σ", help="Gaussian error added to Q each time")
    add("--seed", type=int, default=0, help="of the noise (default: %(default)d)")
    add("--values-every", type=int, metavar="N", help="iterations between exact policy values")
    output = parser.add_argument_group("output")
    add = output.add_argument
    add("--out", type=Path, metavar="DIR", help="write JSON, CSV, arrays and plots there")
    add("--force", action="store_true", help="write into DIR even if it has something in it")
    parser.set_defaults(run=_run)


class _Help(argparse.Action):
    """Help that reads the tables of the code only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from mviq.cli.solve_job import description

        parser.description = description()
        parser.print_help()
        parser.exit()


def _run(options: argparse.Namespace) -> int:
    from mviq.cli.solve_job import run_command

    return run_command(options)
