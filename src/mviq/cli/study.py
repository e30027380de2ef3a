"""``mviq study``: run many runs from one file, and show their progress."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from mviq.cli import tune
from mviq.cli.common import OneLineParser, text_table, tolerating_closed_output
from mviq.cli.engines import add_session_options, retry, session_options
from mviq.studies.definition import LimitError
from mviq.studies.run_status import RunStatus, count_states, last_return, status_of
from mviq.studies.study_directory import OtherStudyError, PlannedRun, StudyDirectory
from mviq.studies.study_file import name_from, parse_file, read_study

if TYPE_CHECKING:  # imported when the command runs: status must not load torch
    from mviq.studies.definition import Study
    from mviq.studies.running import Options

DESCRIPTION = """\
A study is described by a file (YAML or TOML) that says what to compare:

  name: cartpole
  baseline: M-DQN
  environments: [CartPole-v1]
  algorithms:
    - {label: MVI(2), algorithm: mvi, q: 2}
    - {label: M-DQN, algorithm: m-vi}
  seeds: 5
  settings: {total_steps: 20_000, eval_every: 1000}

  mviq study run cartpole.yaml --dry-run    estimate time, memory and disk
  mviq study run cartpole.yaml              run or continue it
  mviq study status cartpole.yaml           show its progress
  mviq study tune tune.yaml                 search hyper-parameters
"""

_RUN = """\
Run a study: every environment × algorithm × value × seed of the file. Give the
same command again to continue: finished runs are kept, interrupted runs are
resumed exactly, and runs that you added to the file are done, too.

  mviq study run cartpole.yaml
  mviq study run cartpole.yaml --only 'MVI*' --only 'seed 0'
  mviq study run studies/cartpole --retry-failed

Exit code: 0 all runs have finished, 1 some have not, 2 wrong input,
130 stopped.
"""


Action = Callable[[argparse.Namespace, Path, StudyDirectory], int]
"""Called with the options, the study file and the study directory; returns the exit code."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions, each with its arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", parser_class=OneLineParser)
    status = "Show the progress of a study or a search."
    _add_options(_add(actions, "run", "run or continue it", _RUN, run_action))
    _add(actions, "status", "show its progress", status, show_status)
    tune.add_options(_add(actions, "tune", "search hyper-parameters", tune.DESCRIPTION, tune.run))


def _add(
    actions: "argparse._SubParsersAction[OneLineParser]",
    name: str,
    summary: str,
    description: str,
    action: Action,
) -> OneLineParser:
    parser = actions.add_parser(name, help=summary, description=description)
    add = parser.add_argument
    add("study", type=Path, metavar="FILE|DIR", help="a study file, or the directory of a study")
    out = "where the directory of the study is or will be, for a FILE (studies)"
    add("--out", type=Path, metavar="DIR", help=out)
    parser.set_defaults(run=partial(_call, action))
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    pattern = (
        "only runs whose label, environment or 'seed N' matches; repeatable, to add more; "
        "'MVI*seed 0' has to match both"
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help=pattern)
    drop = "remove runs that are no longer in the file from the study, but keep their files"
    parser.add_argument("--drop", action="store_true", help=drop)
    add_session_options(parser)


def _call(action: Action, options: argparse.Namespace) -> int:
    """Call an action with a study; error messages name the option that overrides the check."""
    try:
        return action(options, *_located(options.study, options.out))
    except LimitError as error:
        raise ValueError(f"{error} (--force starts it nevertheless)") from None
    except OtherStudyError as error:
        hint = ", or --drop what is missing in the file" if hasattr(options, "drop") else ""
        raise ValueError(f"{error}{hint}") from None


def _located(given: Path, out: Path | None) -> tuple[Path, StudyDirectory]:
    """Return the file and the directory of a study, given either of them."""
    if not given.is_dir():
        return given, StudyDirectory((out or Path("studies")) / parse_file(given, name_from))
    if out is not None:
        raise ValueError(f"--out is for a file: {given} is a directory already")
    directory = StudyDirectory(given)
    directory.plan()
    return directory.study_file, directory


def run_action(options: argparse.Namespace, file: Path, directory: StudyDirectory) -> int:
    """Run a study, or estimate its cost."""
    from mviq.studies.running import Options

    how = Options(only=options.only, drop=options.drop, **session_options(options))
    return (_dry_run if options.dry_run else _run)(read_study(file), directory, how)


def _run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.running import run_study

    outcome = run_study(study, directory, options)
    states = [run.state for run in outcome.runs]
    with tolerating_closed_output():
        _print_summary(directory, outcome.runs)
        if "failed" in states:
            print(f"logs: {directory.logs}; to retry the failed runs: {retry(directory.path)}")
        if "diverged" in states and options.retry_failed:
            print("runs that diverged are final and were not tried again")
        if outcome.stopped:
            print(f"continue with: mviq study run {directory.path}")
    return outcome.exit_code


def _dry_run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.plan import matching_runs
    from mviq.studies.running import check_limits, engine_of, prepare_study

    with engine_of(options) as engine:
        plan, work = prepare_study(study, directory, options, engine)
    _print_plan(matching_runs(plan, options.only))
    print(f"left to do: {work}")
    check_limits(study.budget, work, directory, options)
    return 0


def _print_plan(runs: Sequence[PlannedRun]) -> None:
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        seeds.setdefault((run.label, run.env), []).append(str(run.seed))
    columns = ("label", "environment", "seeds")
    rows = [(label, env, " ".join(own)) for (label, env), own in seeds.items()]
    Console().print(text_table(columns, rows, columns, box=None, pad_edge=False))


def show_status(options: argparse.Namespace, file: Path, directory: StudyDirectory) -> int:
    """Show the progress of the runs of a study."""
    if not directory.plan_file.is_file() and not options.study.is_dir():
        raise ValueError(f"{directory.path} is not begun yet: mviq study run {options.study}")
    runs, rows = [status_of(directory, run) for run in directory.plan().runs], []
    for run in runs:
        planned, reached = run.planned, last_return(directory.run(run.planned.run))
        cells = (planned.label, planned.env, str(planned.seed), run.state, f"{run.step:,}")
        rows.append((*cells, "" if reached is None else f"{reached:.1f}"))
    columns = ("label", "environment", "seed", "state", "step", "return")
    words = ("label", "environment", "state")
    Console().print(text_table(columns, rows, words, box=None, pad_edge=False))
    _print_summary(directory, runs)
    if directory.is_search:
        print("this is a search: runs of pruned trials stay interrupted or waiting")
    return 0


def _print_summary(directory: StudyDirectory, runs: Sequence[RunStatus]) -> None:
    """Print why runs failed or diverged, and the number of runs in each state."""
    for run in runs:
        if run.state == "failed":
            print(f"{run.planned.title}: failed at step {run.step:,}: {run.message}")
        elif run.state == "diverged":
            print(f"{run.planned.title}: {run.message}")
    print(f"{directory.path}: {count_states(runs)}")
