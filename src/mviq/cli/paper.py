"""``mviq paper``: make a figure of the paper again and say whether its claim holds."""

import argparse
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from mviq.cli.errors import UsageError
from mviq.paper.artefacts import ARTEFACTS, Artefact

if TYPE_CHECKING:  # help and lists must not wait for torch and Matplotlib
    from mviq.paper.figures import Drawing

_DESCRIPTION = """\
Make a figure of the paper again: the picture (PNG and SVG), the numbers behind it (CSV with the
columns panel, q, x, y), and a verdict on the paper's claim: what was measured, in which convention
of q the claim holds and in which it does not. Without a name: list what there is.

  mviq paper                       what this version can make, and at what cost
  mviq paper fig1                  writes out/fig1/fig1.png, fig1.svg and fig1.csv
  mviq paper fig2 --out figures    writes figures/fig2.png, fig2.svg and fig2.csv
"""

_EPILOG = """\
q is the entropic index (1 softmax, 2 sparsemax, ∞ greedy). The paper's eq. (2) uses the physics
convention instead, where the logarithm and exponential of index q are ours of index 2 − q.
The same command gives the same files. A file that exists with other content is left alone unless
--force is given.
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the subcommand."""
    parser = commands.add_parser(
        "paper",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = ", ".join(ARTEFACTS)
    parser.add_argument("name", nargs="?", metavar="NAME", help=f"one of: {names}")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="directory for the files (default: out/NAME)"
    )
    parser.add_argument(
        "--force", action="store_true", help="replace files that exist with other content"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List the artefacts, or make one."""
    if options.name is None:
        if options.out is not None or options.force:
            raise UsageError(
                f"paper: --out and --force need a name, one of: {', '.join(ARTEFACTS)}"
            )
        _list_artefacts()
        return 0
    artefact = _find(options.name)
    _make(artefact, options.out or Path("out") / artefact.name, options.force)
    return 0


def _find(name: str) -> Artefact:
    if name in ARTEFACTS:
        return ARTEFACTS[name]
    (closest,) = get_close_matches(name, ARTEFACTS, n=1, cutoff=0.0)
    raise UsageError(f"paper: no {name!r}; closest: {closest!r} ('mviq paper' lists all)")


def _list_artefacts() -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("name", "shows", "the paper's claim", "cost")
    for artefact in ARTEFACTS.values():
        table.add_row(artefact.name, artefact.shows, artefact.claim, artefact.cost)
    console = Console()
    console.print(table)
    console.print("make one with 'mviq paper NAME'", highlight=False)


def _make(artefact: Artefact, directory: Path, force: bool) -> None:
    from rich.console import Console

    from mviq.paper import figures
    from mviq.storage import check_writable, write_files

    try:
        check_writable(directory)
        with Console(stderr=True).status(f"making {artefact.name}"):
            drawing = artefact.make()
            contents = figures.files(drawing)
        paths = write_files(contents, directory, force)
    except FileExistsError as mistake:
        raise UsageError(f"paper: {mistake}; use --force to replace it") from None
    except OSError as mistake:
        raise UsageError(f"paper: cannot write: {mistake}") from None
    _report(artefact, drawing, paths)


def _report(artefact: Artefact, drawing: "Drawing", paths: list[Path]) -> None:
    from rich.console import Console
    from rich.padding import Padding
    from rich.table import Table

    from mviq.paper.figures import by_claim, verdict

    console = Console(highlight=False)
    console.print(f"[bold]{artefact.name}[/]: {artefact.shows}")
    for setting in drawing.settings:
        console.print(Padding(setting, (0, 0, 0, 2)))
    for claim, tests in by_claim(drawing.findings).items():
        console.print(f"[bold]{claim}[/]")
        table = Table.grid(padding=(0, 2, 0, 0))
        for test in tests:
            mark = "[green]agrees[/]" if test.holds else "[red]does not[/]"
            table.add_row("", mark, test.where, test.measured)
        console.print(table)
    console.print(f"the paper's claim: {artefact.claim}")
    console.print(f"verdict: {verdict(drawing.findings)}")
    for path in paths:
        print(path)
