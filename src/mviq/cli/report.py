"""``mviq report``: a page, pictures and tables from the files of a study or of some runs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.text import Text

from mviq.cli.common import text_table
from mviq.reports import FORMATS

if TYPE_CHECKING:  # help must not import Matplotlib
    from mviq.reports.report import Report

_TITLES = {"interquartile mean": "IQM", "optimality gap": "gap"}
_LEFT_OUT = ("mean", "median", "area under curve")
"""Columns left out, as is the interval of the gap, so that the table fits into 80 characters."""

DESCRIPTION = """\
Make a report of a study, of a directory of runs, or of one run: a page that
opens in any browser without a network (report.html), the same figures as PNG
and SVG with their data as CSV (figures/), and the numbers behind them
(summary.csv, scores.csv; stability.csv for environments that can be solved).
The study need not be finished: the report says what is missing.

  mviq report studies/demo                  write it to studies/demo/report
  mviq report runs --baseline DQN --open    runs of mviq train; open the page
  mviq report demo.yaml --runs all          include unfinished runs
  mviq report studies/demo --without 'M*'   leave out labels or environments
  mviq report studies/demo --metric train --last 5 --out out --format html,csv
"""

EPILOG = """\
Only stored files are read, and the same files give the same report. An earlier
report in STUDY/report is replaced. Elsewhere, existing files with other
content are only replaced with --force. docs/reports.md explains the page,
docs/statistics.md the numbers.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    path = "file or directory of a study, directory of runs, or one run"
    add("path", type=Path, metavar="STUDY", help=path)
    add("--out", type=Path, metavar="DIR", help="directory for the files (default: STUDY/report)")
    add("--baseline", metavar="LABEL", help="label to compare with (default: that of the study)")
    add(
        "--metric",
        default="eval",
        metavar="{eval,train}",
        help="returns of evaluations or of training (eval)",
    )
    add(
        "--last",
        type=int,
        metavar="N",
        help="evaluations that make the final score (default: the last tenth)",
    )
    like = "label or environment to report, by name or pattern; repeatable (all)"
    add("--only", action="append", default=[], metavar="PATTERN", help=like)
    other = "label or environment to leave out; repeatable"
    add("--without", action="append", default=[], metavar="PATTERN", help=other)
    runs = "runs to include: ended (a diverged run keeps its last score), finished, or all (ended)"
    add("--runs", default="ended", metavar="{ended,finished,all}", help=runs)
    add("--seed", type=int, default=0, metavar="N", help="seed of the bootstrap (0)")
    add(
        "--format",
        default=",".join(FORMATS),
        metavar="LIST",
        help=f"some of {','.join(FORMATS)} (all)",
    )
    add("--force", action="store_true", help="replace files that exist with other content")
    add("--open", action="store_true", help="open the page in the browser")


def run(options: argparse.Namespace) -> int:
    """Make the report, and print its tables and the paths of its files."""
    formats = _formats(options.format)
    if options.open and "html" not in formats:
        raise ValueError("--open needs the format html")
    report, paths = _make(options, formats)
    print_summary(report)
    _print_stability(report)
    for path in paths:
        if path.parent.name != "figures":
            print(path)
    if figures := [path for path in paths if path.parent.name == "figures"]:
        print(f"{figures[0].parent}: {len(figures)} files")
    if options.open:
        import webbrowser

        webbrowser.open(paths[0].resolve().as_uri())
    return 0


def _formats(text: str) -> list[str]:
    formats = [name.strip() for name in text.split(",") if name.strip()]
    wrong = [name for name in formats if name not in FORMATS]
    if wrong or not formats:
        raise ValueError(f"--format must be some of {','.join(FORMATS)}, got {text!r}")
    return formats


def _make(options: argparse.Namespace, formats: list[str]) -> "tuple[Report, list[Path]]":
    from mviq.progress import counting
    from mviq.reports.comparison import ReportChoices
    from mviq.reports.report import make_report, remove_others, report_files
    from mviq.storage import write_files

    own = options.out is None
    choices = ReportChoices(
        metric=options.metric,
        last=options.last,
        baseline=options.baseline,
        which=options.runs,
        seed=options.seed,
        only=options.only,
        without=options.without,
    )
    with counting("making the report"):
        study = _directory(options.path)
        directory = study / "report" if own else options.out
        report = make_report(study, choices)
        paths = write_files(report_files(report, formats), directory, own or options.force)
        if own:
            remove_others(directory, paths)
        return report, paths


def _directory(given: Path) -> Path:
    """Return the directory to read; that of a study file is where ``mviq study`` puts it."""
    if given.is_file():
        from mviq.studies.study_file import name_from, parse_file

        return Path("studies") / parse_file(given, name_from)
    if given.is_dir():
        return given
    from mviq.runs.directory import find_run

    return find_run(given).path  # a prefix of the name is enough


def print_summary(report: "Report") -> None:
    """Print the conclusion and the summary table."""
    from mviq.reports.numbers import UNKNOWN, shown, with_interval
    from mviq.reports.summary_tables import GAP

    console = Console(highlight=False)
    conclusion = report.conclusion
    console.print(Text(conclusion.headline, style="bold"))
    for sentence in conclusion.sentences:
        console.print(Text(sentence))
    for caution in conclusion.cautions:
        console.print(Text(caution, style="yellow"))
    columns = [name for name in report.summary.columns if name not in _LEFT_OUT]
    titles = ["P(better)" if x.startswith("P(") else _TITLES.get(x, x) for x in columns]
    rows = []
    for row in report.summary.rows:
        numbers = [(name, row.numbers.get(name, UNKNOWN)) for name in columns]
        cells = [shown(x.estimate) if name == GAP else with_interval(x) for name, x in numbers]
        rows.append([report.looks[row.label].name, *cells, f"{row.runs} of {row.planned}"])
    title = Text(f"final scores, {report.comparison.scale.unit}")
    table = text_table(
        ["label", *titles, "runs"], rows, ["label"], no_wrap=True, title=title, box=SIMPLE_HEAD
    )
    if report.summary.chances:
        table.caption = Text(f"P(better): than {report.comparison.baseline}, the baseline")
    console.print(table)


def _print_stability(report: "Report") -> None:
    """Print a stability table for each environment with a reward threshold."""
    from mviq.reports.numbers import percent, shown, with_interval

    for env in dict.fromkeys(row.env for row in report.stability):
        own = [row for row in report.stability if row.env == env]
        solved = f"{own[0].solved:g}"
        rows = []
        for row in own:
            late, share = with_interval(row.late), with_interval(row.share, percent)
            cells = [late, share, shown(row.worst), f"{row.diverged} of {row.runs}"]
            rows.append([report.looks[row.label].name, *cells])
        columns = ["label", "mean return", f"≥ {solved}", "lowest after", "diverged"]
        title = Text(f"second half of {env}")
        table = text_table(columns, rows, ["label"], no_wrap=True, title=title, box=SIMPLE_HEAD)
        table.caption = Text(f"lowest after: lowest evaluation after the first of {solved} or more")
        Console(highlight=False).print(table)
