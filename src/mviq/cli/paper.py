"""``mviq paper``: reproduce a figure or table of the paper and check its claim."""

import argparse
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mviq.cli.engines import add_engine_options, engine_options, retry
from mviq.messages import did_you_mean
from mviq.paper.artefacts import ARTEFACTS, Artefact
from mviq.paper.experiments import SCALES, TIMES, Experiment, StudyScale

if TYPE_CHECKING:  # help and lists must not import torch and Matplotlib
    from mviq.paper.reproduction import Reproduction

_COLOURS = {True: "green", False: "red", None: "yellow"}

DESCRIPTION = """\
Reproduce a figure or table of the paper: the picture (PNG and SVG), its numbers
(CSV), and a verdict on the paper's claim (also as Markdown): what was measured,
with seeds and intervals, and whether that agrees, does not, or is not enough
evidence. Without a name, list all of them.

  mviq paper                       list them, with their claims and costs
  mviq paper fig1                  write out/fig1/fig1.png, .svg, .csv and .md
  mviq paper fig2 --out figures    write figures/fig2.png, …
  mviq paper fig3 --scale smoke    only see that it works: a minute
  mviq paper fig3                  --scale small: about an hour on two cores
  mviq paper fig3 --scale full --engine ray    the paper's scale, on a cluster

Figures 3 to 7, the sweep and minatar-q train agents. Each has a study behind
it, which 'mviq study status' and 'mviq report' can read; give the same command
again to continue it. Figures 4, 5 and 7 share one study. For the theorems, see
'mviq verify'.
"""

EPILOG = """\
q is the entropic index (1 softmax, 2 sparsemax, ∞ greedy). The paper's eq. (2)
uses the physics convention, in which the logarithm and exponential of index q
are ours of index 2 − q.

Exit code: 0 all runs have ended, even if some diverged, 1 some failed, 2 wrong
input, 130 stopped. The same command gives the same files. Existing files with
other content are only replaced with --force.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", nargs="?", metavar="NAME", help=f"one of: {', '.join(ARTEFACTS)}")
    place = "directory for the files (default: out/NAME, with the scale if it has one)"
    add("--out", type=Path, metavar="DIR", help=place)
    add("--force", action="store_true", help="replace files that exist with other content")
    _add_options_of_studies(parser)


def _add_options_of_studies(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what trains agents: figures 3 to 7, sweep, minatar-q")
    add = group.add_argument
    scale = (
        "smoke: a minute, nothing is learnt; small: about an hour on two cores (the default); "
        "night: several hours; full: the scale of the paper"
    )
    add("--scale", choices=SCALES, help=scale)
    studies = "directory of the studies: stored runs in it are not trained again (studies)"
    add("--studies", type=Path, metavar="DIR", help=studies)
    add("--quiet", action="store_true", help="do not show progress")
    add_engine_options(parser)


def run(options: argparse.Namespace) -> int:
    """List the artefacts, or reproduce one."""
    if options.name is None:
        if options.out is not None or options.force:
            raise ValueError(f"--out and --force need a name, one of: {', '.join(ARTEFACTS)}")
        _refuse_options_of_studies(options, "the list trains nothing")
        _list_artefacts()
        return 0
    artefact = _find(options.name)
    if artefact.experiment is None:
        _refuse_options_of_studies(options, f"{options.name} trains nothing")
        return _make(artefact, options)
    return _study(artefact, artefact.experiment, options)


def _refuse_options_of_studies(options: argparse.Namespace, why: str) -> None:
    untouched = argparse.ArgumentParser()
    _add_options_of_studies(untouched)
    for option, default in vars(untouched.parse_args([])).items():
        if getattr(options, option) != default:
            raise ValueError(f"{why}, so it has no --{option}")


def _find(name: str) -> Artefact:
    if name in ARTEFACTS:
        return ARTEFACTS[name]
    begin = [known for known in ARTEFACTS if known.startswith(name)]
    hint = did_you_mean(name, begin or ARTEFACTS, "closest: {!r}", cutoff=0.0 if begin else 0.4)
    raise ValueError(f"no {name!r}{hint} ('mviq paper' lists all)")


def _make(artefact: Artefact, options: argparse.Namespace) -> int:
    from mviq.progress import counting
    from mviq.storage import check_writable

    check_writable(_place(artefact, options))
    with nullcontext() if artefact.minutes else counting(f"making {artefact.name}"):
        made = artefact.make()  # long ones show their own progress
    _write(artefact, made, options)
    return 0


def _study(artefact: Artefact, experiment: Experiment, options: argparse.Namespace) -> int:
    """Run or continue the study behind an artefact, and draw its results."""
    from mviq.paper.reproduction import at_scale
    from mviq.reports.reading import load_study
    from mviq.storage import check_writable
    from mviq.studies.running import Options, run_study
    from mviq.studies.study_directory import StudyDirectory
    from mviq.studies.study_file import study_from

    scale, parent = _scale(experiment, options), options.studies or Path("studies")
    for place in (_place(artefact, options), parent):
        check_writable(place)
    if options.studies is not None and not parent.is_dir():
        raise ValueError(f"--studies: there is no directory {parent}; make it to train there")
    how = Options(quiet=options.quiet, measure=scale != "smoke", **engine_options(options))
    study = study_from(experiment.at(scale))
    directory = parent / study.name
    outcome = run_study(study, StudyDirectory(directory), how)
    if outcome.stopped:
        print(f"stopped; the same command continues {directory}")
        return 130
    made = artefact.make(load_study(directory))
    _write(artefact, at_scale(made, experiment, scale), options)
    print(f"the study: {directory} ('mviq report {directory}' shows all of it)")
    ended = [run.state in ("finished", "diverged") for run in outcome.runs]
    if not all(ended):
        print(f"{ended.count(False)} runs are missing in it; try again: {retry(directory)}")
    return 0 if all(ended) else 1


def _scale(experiment: Experiment, options: argparse.Namespace) -> StudyScale:
    """Return the scale, by default small; scales that take hours must be given explicitly."""
    if options.scale is None and "small" not in experiment.scales:
        offered = " or ".join(f"--scale {scale} ({TIMES[scale]})" for scale in experiment.scales)
        raise ValueError(f"{options.name} needs {offered}")
    return options.scale or "small"


def _place(artefact: Artefact, options: argparse.Namespace) -> Path:
    name, experiment = artefact.name, artefact.experiment
    own = name if experiment is None else f"{name}-{_scale(experiment, options)}"
    return options.out or Path("out") / own


def _write(artefact: Artefact, made: "Reproduction", options: argparse.Namespace) -> None:
    from mviq.paper.reproduction import as_markdown, reproduction_files
    from mviq.storage import write_files

    text = as_markdown(artefact.shows, artefact.claim, made)
    contents = {**reproduction_files(made), f"{artefact.name}.md": text}
    report(artefact, made, write_files(contents, _place(artefact, options), options.force))


def _list_artefacts() -> None:
    """Print all artefacts with the paper's claims and their costs."""
    table = Table("name", "shows", "the paper's claim", "cost", show_lines=True)
    for artefact in ARTEFACTS.values():
        table.add_row(artefact.name, artefact.shows, artefact.claim, _cost(artefact))
    console = Console()
    console.print(table)
    times = ", ".join(f"{scale} {time}" for scale, time in TIMES.items())
    console.print(f"time: {times}", highlight=False)
    console.print("make one with 'mviq paper NAME'; theorems: 'mviq verify'", highlight=False)


def _cost(artefact: Artefact) -> str:
    if artefact.experiment is None:
        return f"{artefact.minutes} minutes" if artefact.minutes else "seconds"
    return "\n".join(
        f"{scale}: {artefact.experiment.cost(scale)}" for scale in artefact.experiment.scales
    )


def report(artefact: Artefact, made: "Reproduction", paths: Sequence[Path]) -> None:
    """Print the claim, the verdict, every finding, the settings and where the files are."""
    from mviq.paper.reproduction import ANSWERS, by_claim, whole_verdict

    console = Console(highlight=False)
    console.print(f"[bold]{artefact.name}[/]: {artefact.shows}")
    console.print(f"the paper's claim: {artefact.claim}")
    console.print(f"[bold]verdict: {whole_verdict(made)}[/]")
    for claim, tests in by_claim(made.findings).items():
        console.print(f"[bold]{claim}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        for test in tests:
            answer = Text(ANSWERS[test.holds], style=_COLOURS[test.holds])
            table.add_row("", answer, test.where, Text(test.measured))
        console.print(table)
    for setting in made.settings:
        console.print(Padding(setting, (0, 0, 0, 2)), markup=False)
    for path in paths:
        print(path)
