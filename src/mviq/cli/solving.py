"""Implementation of ``mviq solve``: a progress bar, and partial results if interrupted."""

import argparse
import math
import sys
import time
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from mviq.cli.solve_output import Job, job_files, show_job
from mviq.progress import Bar, Display
from mviq.runs.settings import parse
from mviq.runs.stopping import asked_to_stop
from mviq.storage import check_writable, write_files
from mviq.tabular import MDP, Diagnostics, Noise, State, algorithm, solve
from mviq.tabular.exact_values import optimal_q_values
from mviq.tabular.problems import problem

SMALL = 200  # largest number of states with exact values in every iteration
MEDIUM = 50_000  # largest number of states with Q*, and with exact values at the end


def run_job(options: argparse.Namespace) -> int:
    """Solve, write files and print results; after Ctrl-C, those that had been reached."""
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
    noise = Noise(options.noise, options.seed, options.noise_kind) if options.noise else None
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
    """Return the progress from 0 to 1, by the log of the residual or by the iterations."""
    counted = state.iteration / limit
    if tolerance <= 0 or not 0 < state.residual < math.inf:
        return counted
    ahead = math.log(max(state.residual / tolerance, 1.0))
    whole = math.log(max(state.watch.worth / tolerance, 2.0))
    return max(counted, min(1 - ahead / whole, 1.0))
