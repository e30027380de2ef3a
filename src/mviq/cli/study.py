"""``mviq study``: run many runs from one file, and see how far they are."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mviq.cli import tune
from mviq.cli.engines import add_session_options, retry, saying, session_options
from mviq.cli.errors import OneLineParser, UsageError, perhaps_unread
from mviq.runs.directory import RunError
from mviq.studies.directory import OtherStudyError, PlannedRun, StudyDirectory
from mviq.studies.file import name_from, read, read_study
from mviq.studies.status import RunStatus, last_return, statuses, summary
from mviq.studies.study import LimitError

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


Action = Callable[[argparse.Namespace, Path, StudyDirectory], int]
"""Does something with the file of a study and its directory."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = commands.add_parser("study", description=_DESCRIPTION, formatter_class=raw)
    parser.set_defaults(run=lambda _: parser.print_help())
    actions = parser.add_subparsers(title="actions", metavar="ACTION", parser_class=OneLineParser)
    status = "Show how far the runs of a study or of a search are."
    _add_options(_add(actions, "run", "run it", _RUN, run))
    _add(actions, "status", "how far it is", status, show_status)
    tune.add_options(_add(actions, "tune", "search hyper-parameters", tune.DESCRIPTION, tune.run))


def _add(
    actions: "argparse._SubParsersAction[OneLineParser]",
    name: str,
    summary: str,
    description: str,
    action: Action,
) -> OneLineParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = actions.add_parser(name, help=summary, description=description, formatter_class=raw)
    add = parser.add_argument
    add("study", type=Path, metavar="FILE|DIR", help="a study file, or the directory of a study")
    out = "where the directories of studies are, for a FILE (studies)"
    add("--out", type=Path, metavar="DIR", help=out)
    parser.set_defaults(run=lambda options: _call(action, options))
    return parser


def _add_options(parser: argparse.ArgumentParser) -> None:
    pattern = (
        "only runs whose label, environment or 'seed N' is like this; several: any of them; "
        "both of two: 'MVI*seed 0'"
    )
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help=pattern)
    drop = "runs that the file no longer has leave the study; their files stay"
    parser.add_argument("--drop", action="store_true", help=drop)
    add_session_options(parser)


def _call(action: Action, options: argparse.Namespace) -> int:
    """Do something with a study; a mistake is one line."""
    place = options.study
    try:
        file, directory = _found(options.study, options.out)
        place = directory.path
        return action(options, file, directory)
    except (RunError, ValueError) as mistake:
        raise UsageError(f"study: {mistake}{_way_out(mistake, options)}") from None
    except BrokenPipeError:  # the reader, such as head, has had enough
        raise
    except OSError as mistake:
        where, why = mistake.filename or place, mistake.strerror or mistake
        raise UsageError(f"study: {where}: {why}") from None


def _way_out(mistake: Exception, options: argparse.Namespace) -> str:
    """Return the option, if there is one here, by which a refusal can be overcome."""
    if isinstance(mistake, LimitError):
        return " (--force starts it nevertheless)"
    if isinstance(mistake, OtherStudyError) and hasattr(options, "drop"):
        return ", or --drop what is missing in the file"
    return ""


def _found(given: Path, out: Path | None) -> tuple[Path, StudyDirectory]:
    """Return the file of a study and its directory, from the one or the other."""
    if not given.is_dir():
        return given, StudyDirectory((out or Path("studies")) / read(given, name_from))
    if out is not None:
        raise ValueError(f"--out is for a file: {given} is a directory already")
    directory = StudyDirectory(given)
    directory.plan()
    return directory.study_file, directory


def run(options: argparse.Namespace, file: Path, directory: StudyDirectory) -> int:
    """Run a study, or say what that will take."""
    study = read_study(file)
    return (_dry_run if options.dry_run else _run)(study, directory, _as_options(options))


def _as_options(options: argparse.Namespace) -> "Options":
    from mviq.studies.running import Options

    return Options(only=options.only, drop=options.drop, **session_options(options))


def _run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.running import run_study

    outcome = run_study(study, directory, options, saying(options.quiet))
    states = [run.state for run in outcome.runs]
    with perhaps_unread():
        _print_summary(directory, outcome.runs)
        if "failed" in states:
            print(f"why: {directory.logs}; try again what failed: {retry(directory.path)}")
        if "diverged" in states and options.retry_failed:
            print("what diverged is final, and not tried again")
        if outcome.stopped:
            print(f"continue with: mviq study run {directory.path}")
    return outcome.exit_code


def _dry_run(study: "Study", directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.plan import matching_runs
    from mviq.studies.running import check_limits, engine_of, prepare_study

    with engine_of(options) as engine:
        plan, work = prepare_study(study, directory, options, engine, saying(options.quiet))
    _print_plan(matching_runs(plan, options.only))
    print(f"left to do: {work}")
    check_limits(study.budget, work, directory, options)
    return 0


def _print_plan(runs: Sequence[PlannedRun]) -> None:
    table = Table(box=None, pad_edge=False)
    for title in ("label", "environment", "seeds"):
        table.add_column(title)
    seeds: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        seeds.setdefault((run.label, run.env), []).append(str(run.seed))
    for (label, env), found in seeds.items():
        table.add_row(*map(Text, (label, env, " ".join(found))))
    Console().print(table)


def show_status(options: argparse.Namespace, file: Path, directory: StudyDirectory) -> int:
    """Show how far the runs of a study are."""
    if not directory.plan_file.is_file() and not options.study.is_dir():
        raise ValueError(f"{directory.path} is not begun yet: mviq study run {options.study}")
    found = statuses(directory, directory.plan())
    table = Table(box=None, pad_edge=False)
    for title in ("label", "environment", "seed", "state", "step", "return"):
        table.add_column(title, justify="right" if title in ("seed", "step", "return") else "left")
    for run in found:
        reached = last_return(directory.run(run.planned.run))
        shown = "" if reached is None else f"{reached:.1f}"
        planned = run.planned
        cells = (planned.label, planned.env, str(planned.seed), run.state, f"{run.step:,}")
        table.add_row(*map(Text, (*cells, shown)))
    Console().print(table)
    _print_summary(directory, found)
    if directory.is_search:
        print("a search: runs of trials that were given up stay interrupted or waiting")
    return 0


def _print_summary(directory: StudyDirectory, found: Sequence[RunStatus]) -> None:
    """Say why runs have failed or diverged, and how many are in which state."""
    for run in found:
        if run.state == "failed":
            print(f"{run.planned.title}: failed at step {run.step:,}: {run.message}")
        elif run.state == "diverged":
            print(f"{run.planned.title}: {run.message}")
    print(f"{directory.path}: {summary(found)}")
