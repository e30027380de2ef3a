"""Command-line options for executing runs, shared by ``study``, ``tune`` and ``paper``."""

import argparse
import math
from pathlib import Path
from typing import Any


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a session and of the engine that executes its runs."""
    add = parser.add_argument
    add("--dry-run", action="store_true", help="estimate time, memory and disk, and stop")
    add("--retry-failed", action="store_true", help="try failed runs again")
    add("--no-estimate", action="store_true", help="start without measuring how long it will take")
    force = "start even if the budget, memory or disk is too small"
    add("--force", action="store_true", help=force)
    add("--quiet", action="store_true", help="do not show progress")
    add_engine_options(parser)


def session_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return keyword arguments for ``Options`` from the parsed options."""
    own = {name: getattr(options, name) for name in ("retry_failed", "force", "quiet")}
    return {**own, "measure": not options.no_estimate, **engine_options(options)}


def retry(study: Path) -> str:
    """Return the command that retries the failed runs of a study."""
    return f"mviq study run {study} --retry-failed"


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the engine that executes runs."""
    group = parser.add_argument_group("where to run")
    add = group.add_argument
    workers = "runs at the same time (as many as cores and memory allow)"
    add("--workers", type=int, metavar="N", help=workers)
    engines = "local, or ray: a cluster whose nodes share the study's directory (local)"
    add("--engine", choices=("local", "ray"), default="local", help=engines)
    add(
        "--address",
        metavar="HOST:PORT",
        help="address of the Ray cluster (RAY_ADDRESS, or this machine)",
    )
    add("--cpus", type=float, metavar="X", help="CPUs per run, for Ray (one per thread)")
    add("--gpus", type=float, default=0.0, metavar="X", help="GPUs per run, for Ray (0)")
    memory = "memory per run, for Ray (as measured)"
    add("--memory", type=float, default=0.0, metavar="GB", help=memory)


def engine_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments for ``Options`` that configure the engine."""
    from mviq.studies.ray_engine import Resources

    _check(options)
    return {
        "workers": options.workers,
        "engine": options.engine,
        "address": options.address,
        "resources": Resources(options.cpus, options.gpus, round(options.memory * 1e9)),
    }


def _check(options: argparse.Namespace) -> None:
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"--workers must be at least 1, got {options.workers}")
    for name in ("cpus", "gpus", "memory"):
        value = getattr(options, name)
        if value and options.engine != "ray":
            raise ValueError(f"--{name} is for --engine ray")
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"--{name} must be a number ≥ 0, got {value}")
    if options.cpus == 0:
        raise ValueError("--cpus must be above 0")
    if options.address is not None and options.engine != "ray":
        raise ValueError("--address is for --engine ray")
