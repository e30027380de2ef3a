"""``mviq solve``: solve a finite MDP with a progress bar, and leave what was reached."""

import argparse
import math
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any, get_args

from mviq.cli.solve_output import Job, job_files, show_job
from mviq.progress import Bar, Display
from mviq.runs.settings import parse
from mviq.runs.stopping import asked_to_stop
from mviq.storage import check_writable, write_files
from mviq.tabular import ALGORITHMS, MDP, Diagnostics, Noise, State, algorithm, solve
from mviq.tabular.algorithms import ANY, PriorMotion
from mviq.tabular.exact_values import optimal_q_values
from mviq.tabular.problems import GENERATORS, TOY_TEXT, problem
from mviq.tabular.solver import MAX_ITERATIONS, TOLERANCE
from mviq.tsallis.family import Form, PolicyMethod

SMALL = 200  # states up to which exact values are computed in every iteration
MEDIUM = 50_000  # states up to which Q* and the exact values of the end are


def _lines(entries: dict[str, str]) -> str:
    return "\n".join(f"  {name:<20}{summary}" for name, summary in entries.items())


def _description() -> str:
    """Return the help text, with the environments, generators and algorithms there are."""
    generators = {
        name: f"{entry.summary} ({', '.join(entry.settings)})" for name, entry in GENERATORS.items()
    }
    algorithms = {**ALGORITHMS, ANY: "no name: any q, α, form, clip and entropy weight"}
    return f"""\
Solve a finite MDP and say how it ended: converged, cycling, diverged or stopped at the limit.

  mviq solve FrozenLake-v1                                    MVI(2), the paper's algorithm
  mviq solve FrozenLake-v1 --algorithm mvi --q 1 2 5 inf --out out/lake
  mviq solve garnet:states=1000,actions=4,seed=1 --algorithm m-vi --temperature 0.1
  mviq solve lock-in --algorithm tkl-vi --prior moving

environments:
{_lines(dict(TOY_TEXT))}

generators, with their numbers as in garnet:states=1000,seed=1:
{_lines(generators)}

  a .npz file         an MDP written by mviq.tabular.save_mdp

algorithms:
{_lines(algorithms)}
"""


DESCRIPTION = _description()


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
    """Solve, show and write; Ctrl-C ends the solving and leaves what has been reached."""
    job = _prepare(options)
    with asked_to_stop() as asked:
        _solve_all(job, asked)
    if options.out is not None:
        write_files(job_files(job), options.out, force=True)
    show_job(job)
    if asked.is_set():
        print("mviq: interrupted, this is what had been reached", file=sys.stderr)
        return 130
    return 0


def _prepare(options: argparse.Namespace) -> Job:
    """Check everything before any work starts."""
    _check_numbers(options)
    _check_out(options.out, options.force)
    indices = options.q if options.q is not None else [None]
    points = [algorithm(options.algorithm, **_changes(options, q)) for q in indices]
    labels = ["q = ∞" if point.q == math.inf else f"q = {point.q:g}" for point in points]
    if len(set(labels)) < len(labels):
        raise ValueError(f"the values of --q must differ, got {options.q}")
    mdp = problem(options.problem, options.discount)
    known = mdp.states <= MEDIUM
    diagnostics = Diagnostics(
        every=1 if mdp.states <= MEDIUM else 10,
        values_every=_values_every(options, mdp),
        optimum=optimal_q_values(mdp) if known else None,
    )
    return Job(mdp, dict(zip(labels, points, strict=True)), diagnostics, options)


def _changes(options: argparse.Namespace, q: float | None) -> dict[str, Any]:
    names = ("temperature", "munchausen_alpha", "form", "entropy_weight", "policy_method", "prior")
    changes = {name: getattr(options, name) for name in names}
    changes["q"] = q
    given = {name: value for name, value in changes.items() if value is not None}
    return given if options.clip is None else given | {"clip": parse("clip", options.clip)}


def _check_numbers(options: argparse.Namespace) -> None:
    if options.noise < 0 or not math.isfinite(options.noise):
        raise ValueError(f"--noise must be a finite number ≥ 0, got {options.noise:g}")
    if options.seed < 0:
        raise ValueError(f"--seed must be ≥ 0, got {options.seed}")
    if options.max_iterations < 1:
        raise ValueError(f"--max-iterations must be at least 1, got {options.max_iterations}")
    if not options.tolerance >= 0:
        raise ValueError(f"--tolerance must be ≥ 0, got {options.tolerance:g}")
    if options.values_every is not None and options.values_every < 0:
        raise ValueError(f"--values-every must be ≥ 0, got {options.values_every}")


def _check_out(out: Path | None, force: bool) -> None:
    if out is None:
        return
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out must be a directory, {out} is a file")
    try:
        check_writable(out)
    except OSError as reason:
        raise ValueError(f"--out cannot be written: {reason}") from None
    if out.is_dir() and any(out.iterdir()) and not force:
        raise ValueError(f"{out} is not empty; --force writes into it all the same")


def _values_every(options: argparse.Namespace, mdp: MDP) -> int:
    if options.values_every is not None:
        return int(options.values_every)
    if mdp.states > MEDIUM:
        return 0
    return (
        math.ceil(mdp.states / SMALL) if mdp.states <= 10 * SMALL else sys.maxsize
    )  # the last record always has them


def _solve_all(job: Job, asked: Event) -> None:
    options = job.options
    noise = Noise(options.noise, options.seed) if options.noise else None
    bars: dict[str, Bar] = {}

    def watch(label: str, state: State) -> bool:
        done = _fraction(state, options.tolerance, options.max_iterations)
        note = f"iteration {state.iteration}, residual {state.residual:.2e}"
        bars[label] = Bar(label, done, 1.0, note)
        return asked.is_set()

    with Display(lambda elapsed: list(bars.values())):
        for label, point in job.algorithms.items():
            began = time.perf_counter()
            job.runs[label] = solve(
                job.mdp,
                point,
                tolerance=options.tolerance,
                max_iterations=options.max_iterations,
                noise=noise,
                diagnostics=job.diagnostics,
                stop=partial(watch, label),
            )
            job.seconds[label] = time.perf_counter() - began
            if asked.is_set():
                return


def _fraction(state: State, tolerance: float, limit: int) -> float:
    """Return how far a run is: in orders of magnitude of the residual, or towards the limit."""
    counted = state.iteration / limit
    if tolerance <= 0 or not 0 < state.residual < math.inf:
        return counted
    ahead = math.log(max(state.residual / tolerance, 1.0))
    whole = math.log(max(state.watch.worth / tolerance, 2.0))
    return max(counted, min(1 - ahead / whole, 1.0))
