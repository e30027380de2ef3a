"""What ``mviq paper`` prints: the list of artefacts, and what became of a claim."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mviq.paper.artefacts import ARTEFACTS, Artefact
from mviq.paper.experiments import SCALES, TIMES

if TYPE_CHECKING:  # the list must not wait for Matplotlib
    from mviq.paper.reproduction import Reproduction

_COLOURS = {True: "green", False: "red", None: "yellow"}


def list_artefacts() -> None:
    """Print what there is, what it claims and what it costs."""
    table = Table("name", "shows", "the paper's claim", "cost", show_lines=True)
    for artefact in ARTEFACTS.values():
        table.add_row(artefact.name, artefact.shows, artefact.claim, _cost(artefact))
    console = Console()
    console.print(table)
    console.print(f"cost: {TIMES}", highlight=False)
    console.print("make one with 'mviq paper NAME'; theorems: 'mviq verify'", highlight=False)


def _cost(artefact: Artefact) -> str:
    if artefact.experiment is None:
        return "seconds"
    return "\n".join(f"{scale}: {artefact.experiment.cost(scale)}" for scale in SCALES)


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
