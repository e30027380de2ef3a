"""``mviq study tune``: search hyper-parameters with Optuna."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from mviq.cli.common import text_table, tolerating_closed_output
from mviq.cli.engines import add_session_options, session_options
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.tuning.search_file import Search, read_search, with_trials

if TYPE_CHECKING:
    from mviq.studies.running import Options
    from mviq.studies.tuning.results import SearchOutcome
    from mviq.studies.tuning.trial_scores import Judge

SHOWN = 10  # trials in the table

DESCRIPTION = """\
Search hyper-parameters. The file is that of a study with one algorithm, plus a
section that says what to search:

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

  mviq study tune cartpole-tune.yaml --dry-run     estimate the cost
  mviq study tune cartpole-tune.yaml               search or continue
  mviq study tune cartpole-tune.yaml --trials 80   continue, with more trials
  mviq study run studies/cartpole-tune/tuning/best.yaml    confirm the best one

A trial has one run per seed and environment. docs/tuning.md explains the
section and the files. Exit code: 0 there is a best trial and none failed,
1 otherwise, 2 wrong input, 130 stopped.
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search."""
    trials = "number of trials, including earlier ones (default: as in the file)"
    parser.add_argument("--trials", type=int, metavar="N", help=trials)
    add_session_options(parser)


def run(options: argparse.Namespace, file: Path, directory: StudyDirectory) -> int:
    """Run the search, print the best trials and write the files; or only estimate the cost."""
    if find_spec("optuna") is None:
        raise ValueError("tune needs an extra: pip install 'mviq[tune]'")
    search = read_search(file)
    if options.trials is not None:
        search = with_trials(search, options.trials)

    from mviq.reports.tuning_scores import judge_of
    from mviq.studies.running import Options

    judge, how = judge_of(search), Options(**session_options(options))
    if options.dry_run:
        return _dry_run(search, directory, how)
    return _search(search, directory, how, judge)


def _dry_run(search: Search, directory: StudyDirectory, options: "Options") -> int:
    from mviq.studies.running import check_limits, engine_of
    from mviq.studies.tuning.search import cost_of, prepare_search

    with engine_of(options) as engine:
        trials, work = prepare_search(search, directory, options, engine)
    print(f"left to do: {cost_of(trials, work)}")
    check_limits(search.study.budget, work, directory, options)
    return 0


def _search(search: Search, directory: StudyDirectory, options: "Options", judge: "Judge") -> int:
    from mviq.reports.tuning import tuning_files
    from mviq.storage import write_files
    from mviq.studies.running import engine_of
    from mviq.studies.tuning.search import tune

    with engine_of(options) as engine:
        outcome = tune(search, directory, options, engine, judge)
    place = directory.path / "tuning"
    paths = write_files(tuning_files(outcome), place, force=True)
    with tolerating_closed_output():
        _print(outcome, place)
        for path in paths:
            print(path)
        if outcome.stopped:
            print(f"continue with: mviq study tune {directory.path}")
    return outcome.exit_code


def _print(outcome: "SearchOutcome", place: Path) -> None:
    from mviq.reports.tuning import ranking, sentences

    console = Console(highlight=False)
    columns, rows = ranking(outcome, SHOWN)
    if rows:
        console.print(text_table(columns, rows, box=None, pad_edge=False))
    for sentence in sentences(outcome, place):
        console.print(Text(sentence), soft_wrap=True)
