"""``mviq study``: run many runs from one file, and see how far they are."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mviq.cli import tune
from mviq.cli.engines import add_session_options, saying, session_options
from mviq.cli.errors import OneLineParser, UsageError
from mviq.runs.directory import RunError
from mviq.studies.directory import Plan, StudyDirectory
from mviq.studies.file import read_study
from mviq.studies.status import RunStatus, last_return, statuses, summary

if TYPE_CHECKING:  # the real imports wait until the command runs: status must not load torch
    from mviq.studies.running import Options
    from mviq.studies.study import Study

_DESCRIPTION = """\
A study is a file (YAML or TOML) that says what to compare:

  name: cartpole
  baseline: M-DQN
  environments: [CartPole-v1]
  algorithms:
    - {label: MVI(2), algorithm: mvi, q: 2}
    - {label: M-DQN, algorithm: m-vi}
  seeds: 5
  settings: {total_steps: 20_000, eval_every: 1000}

  mviq study run cartpole.yaml --dry-run    what it will take, measured for a moment
  mviq study run cartpole.yaml              run it, in studies/cartpole; the same continues it
  mviq study status cartpole.yaml           how far it is
  mviq study tune tune.yaml                 search hyper-parameters
"""

_RUN = """\
Run a study: every environment × algorithm × value × seed of the file. Started again it continues:
what has finished is kept, what was interrupted is resumed exactly where it was, and what the file
has been extended by is added.

  mviq study run cartpole.yaml
  mviq study run cartpole.yaml --only 'MVI*' --only 'seed 0'
  mviq study run studies/cartpole --retry-failed

Exit code: 0 all runs have finished, 1 some failed or diverged, 2 wrong input, 130 stopped.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser("study", description=_DESCRIPTION, formatter_class=raw)
    parser.set_defaults(run=lambda _: _show_help(parser))
    actions = parser.add_subparsers(title="actions", metavar="ACTION", parser_class=OneLineParser)
    run = actions.add_parser("run", help="run it", description=_RUN, formatter_class=raw)
    _add_place(run)
    _add_options(run)
    run.set_defaults(run=run_command)
    status = actions.add_parser(
        "status", help="how far it is", description="Show how far the runs of a study are."
    )
    _add_place(status)
    status.set_defaults(run=status_command)
    tune.add_parser(actions)


def _show_help(parser: argparse.ArgumentParser) -> int:
    parser.print_help()
    return 0


def _add_place(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("study", type=Path, metavar="FILE|DIR", help="a study file, or the directory of a study")
    out = "where the directories of studies are (studies)"
    add("--out", type=Path, default=Path("studies"), metavar="DIR", help=out)


def _add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--dry-run", action="store_true", help="say what it will take, and stop")
    pattern = "only runs whose label, environment or 'seed N' is like this; repeatable"
    add("--only", action="append", default=[], metavar="PATTERN", help=pattern)
    add_session_options(parser)


def run_command(options: argparse.Namespace) -> int:
    """Run a study, or say what that will take."""
    try:
        study, directory = _found(options)
        return (_dry_run if options.dry_run else _run)(study, directory, _as_options(options))
    except (RunError, ValueError) as mistake:
        raise UsageError(f"study: {mistake}") from None
    except OSError as mistake:
        raise UsageError(f"study: cannot write {mistake.filename}: {mistake.strerror}") from None


def _found(options: argparse.Namespace) -> "tuple[Study, StudyDirectory]":
    """Return the study and its directory, from the one or the other."""
    if options.study.is_dir():
        directory = StudyDirectory(options.study)
        directory.plan()
        return read_study(directory.study_file), directory
    study = read_study(options.study)
    return study, StudyDirectory(options.out / study.name)


def _as_options(options: argparse.Namespace) -> "Options":
    from mviq.studies.running import Options

    return Options(only=options.only, **session_options(options))


def _run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.running import run_study

    outcome = run_study(study, directory, options, saying(options.quiet))
    for run in outcome.runs:
        if run.state in ("failed", "diverged"):
            print(f"{run.planned.title}: {run.state} at step {run.step}, {run.message}")
    print(f"{directory.path}: {summary(outcome.runs)}")
    if outcome.stopped:
        print(f"continue with: mviq study run {directory.path}")
    return outcome.exit_code


def _dry_run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.running import check_limits, engine_of, prepare

    with engine_of(options) as engine:
        work = prepare(study, directory, options, engine, saying(options.quiet))
    _print_plan(work.plan)
    print(f"left to do: {work.estimate or f'{len(work.left)} runs, {work.steps:,} steps'}")
    if not options.force:
        check_limits(study.budget, work, directory, options)
    return 0


def _print_plan(plan: Plan) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("label", "environment", "seeds"):
        table.add_column(title)
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in plan.runs:
        seeds.setdefault((run.label, run.env), []).append(str(run.seed))
    for (label, env), found in seeds.items():
        table.add_row(*map(Text, (label, env, " ".join(found))))
    Console().print(table)


def status_command(options: argparse.Namespace) -> int:
    """Show how far the runs of a study are."""
    try:
        directory = StudyDirectory(options.study)
        if not options.study.is_dir():
            directory = StudyDirectory(options.out / read_study(options.study).name)
        found = statuses(directory, directory.plan())
    except (RunError, ValueError) as mistake:
        raise UsageError(f"study: {mistake}") from None
    _print_statuses(directory, found)
    return 0


def _print_statuses(directory: StudyDirectory, found: list[RunStatus]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("label", "environment", "seed", "state", "step", "return", ""):
        table.add_column(title, justify="right" if title in ("seed", "step", "return") else "left")
    for run in found:
        reached = last_return(directory.run(run.planned.run))
        shown = "" if reached is None else f"{reached:.1f}"
        planned = run.planned
        cells = (planned.label, planned.env, str(planned.seed), run.state, f"{run.step:,}")
        table.add_row(*map(Text, (*cells, shown, run.message)))
    Console().print(table)
    print(f"{directory.path}: {summary(found)}")
