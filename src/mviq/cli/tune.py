"""``mviq study tune``: search hyper-parameters with Optuna."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mviq.cli.engines import add_session_options, saying, session_options
from mviq.cli.errors import OneLineParser, UsageError
from mviq.runs.directory import RunError
from mviq.studies.directory import StudyDirectory
from mviq.studies.tuning_file import Search, read_search, with_trials

if TYPE_CHECKING:
    from mviq.studies.tuning_results import Outcome

SHOWN = 10  # trials of the table

_DESCRIPTION = """\
Search hyper-parameters: a study file with one algorithm and a section that says what to search.

  name: cartpole-tune
  environments: [CartPole-v1]
  algorithms: [{algorithm: mvi, q: 2}]
  seeds: 3
  settings: {total_steps: 20_000, eval_every: 1000}
  tune:
    trials: 40
    space:
      learning_rate: {low: 1e-5, high: 1e-2, log: true}
      temperature: {choices: [0.01, 0.03, 0.1, 1]}

  mviq study tune cartpole-tune.yaml               search, in studies/cartpole-tune
  mviq study tune cartpole-tune.yaml --trials 80   the same continues it, here with more trials
  mviq study run studies/cartpole-tune/tuning/best.yaml   confirm the best with other seeds

A trial is as many ordinary runs as there are seeds. docs/tuning.md explains the section and the
files. Exit code: 0 there is a best trial, 1 a trial failed, 2 wrong input, 130 stopped.
"""


def add_parser(actions: "argparse._SubParsersAction[OneLineParser]") -> None:
    """Add the subcommand to those of ``mviq study``; its other options are those of ``run``."""
    parser = actions.add_parser(
        "tune",
        help="search hyper-parameters",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("study", type=Path, metavar="FILE|DIR", help="a tune file, or the directory of a search")
    out = "where the directories of studies are (studies)"
    add("--out", type=Path, default=Path("studies"), metavar="DIR", help=out)
    add("--trials", type=int, metavar="N", help="trials in all, also earlier ones (as in the file)")
    add_session_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Search, print the best trials and write the files."""
    try:
        outcome, directory = _search(options)
        paths = _write(outcome, directory)
    except (RunError, ValueError) as mistake:
        raise UsageError(f"study: {mistake}") from None
    except OSError as mistake:
        raise UsageError(f"study: cannot write {mistake.filename}: {mistake.strerror}") from None
    _print(outcome)
    for path in paths:
        print(path)
    if outcome.stopped:
        print(f"continue with: mviq study tune {directory.path}")
    return outcome.exit_code


def _search(options: argparse.Namespace) -> "tuple[Outcome, StudyDirectory]":
    if find_spec("optuna") is None:
        raise ValueError("tune needs an extra: pip install 'mviq[tune]'")
    search, directory = _found(options)

    from mviq.reports.tuning_scores import judge_of
    from mviq.studies.running import Options
    from mviq.studies.tuning import tune

    chosen = Options(**session_options(options))
    say = saying(options.quiet)
    return tune(search, directory, chosen, judge_of(search), say), directory


def _found(options: argparse.Namespace) -> tuple[Search, StudyDirectory]:
    """Return the search and its directory, from the one or the other."""
    if options.study.is_dir():
        directory = StudyDirectory(options.study)
        directory.plan()
        search = read_search(directory.study_file)
    else:
        search = read_search(options.study)
        directory = StudyDirectory(options.out / search.study.name)
    if options.trials is not None:
        search = with_trials(search, options.trials)
    return search, directory


def _write(outcome: "Outcome", directory: StudyDirectory) -> list[Path]:
    from mviq.reports.tuning import files
    from mviq.storage import write_files

    return write_files(files(outcome), directory.path / "tuning", force=True)


def _print(outcome: "Outcome") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mviq.reports.tuning import ranking, sentences

    console = Console(highlight=False)
    columns, rows = ranking(outcome, SHOWN)
    if rows:
        table = Table(box=None, pad_edge=False)
        for title in columns:
            table.add_column(Text(title), justify="right")
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for sentence in sentences(outcome):
        console.print(Text(sentence))
