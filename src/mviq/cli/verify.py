"""``mviq verify``: check every statement of the paper numerically."""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from mviq.cli.common import table_console
from mviq.messages import did_you_mean

if TYPE_CHECKING:  # imported when the command runs: help must not load torch
    from mviq.paper.theorems import Check, Statement

DESCRIPTION = """\
Check every theorem, lemma and basic fact of the paper numerically.

By default, list which hold as printed, which hold in part and which fail. With
--all or --only, a table shows for each statement: the paper's claim and its
convention of q; the verdict, with a counterexample if the claim fails; the
corrected statement; and its largest violation, with the tolerance. q is the
entropic index (1 softmax, 2 sparsemax); the physics convention is 2 − q.

The exit code is 0 if every corrected statement holds, otherwise 1.
"""

EPILOG = """\
examples:
  mviq verify                     all statements; takes some seconds
  mviq verify --only theorem-2    the evidence for names that start like this
  mviq verify --all               the evidence for all of them: 450 lines
  mviq verify --markdown          the errata table of docs/errata.md
  mviq verify --json | jq '.statements[] | select(.verdict != "holds") | .name'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="check the statements whose name is or starts with NAME; repeatable",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--all", action="store_true", help="print the evidence for every statement")
    output.add_argument("--json", action="store_true", help="print JSON instead of a table")
    output.add_argument(
        "--markdown", action="store_true", help="print only the errata, as a Markdown table"
    )


def run(options: argparse.Namespace) -> int:
    """Check the statements, print the results, and return 0 iff all corrected ones hold."""
    from mviq.processor import threads

    with threads(1):
        statements = _measure(_select(options.only))
    if options.json:
        print(json.dumps(_as_data(statements), indent=2, ensure_ascii=False))
    elif options.markdown:
        print("\n".join(_errata(statements)))
    else:
        console = table_console(piped=120)
        console.print(_table(statements) if options.all or options.only else _names(statements))
        console.print(_summary(statements), markup=False)
    return 0 if all(statement.holds for statement in statements) else 1


def _select(names: Sequence[str]) -> "list[Check]":
    """Return the checks whose name starts with one of ``names``, in the order of the paper."""
    from mviq.paper.theorems import CHECKS, name_of

    known = [name_of(check) for check in CHECKS]
    for name in names:
        if not name or not any(other.startswith(name) for other in known):
            hint = did_you_mean(name, known, "closest: {!r}", cutoff=0.0)
            raise ValueError(f"no statement {name!r}{hint} ('mviq verify' lists all)")
    return [check for check in CHECKS if not names or name_of(check).startswith(tuple(names))]


def _measure(checks: "Sequence[Check]") -> "list[Statement]":
    from mviq.paper.theorems import measure
    from mviq.progress import counting

    statements: list[Statement] = []
    with counting("measuring", len(checks)) as tell:
        for check in checks:
            statements.append(measure(check))
            tell(len(statements))
    return statements


def _as_data(statements: "Sequence[Statement]") -> dict[str, object]:
    """Return the statements as JSON data; numbers that are not finite become null."""

    def finite(value: object) -> object:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    rows = [
        {key: finite(value) for key, value in asdict(statement).items()}
        | {"verdict": statement.verdict, "holds": statement.holds}
        for statement in statements
    ]
    return {"holds": all(statement.holds for statement in statements), "statements": rows}


def _names(statements: "Sequence[Statement]") -> Text:
    """Return the names by verdict, short enough for one screen, and how to see more."""
    groups: dict[str, list[str]] = {"hold as printed": [], "hold in part": [], "fail": []}
    for statement in statements:
        printed, partly = statement.printed_holds, statement.only_for is not None
        group = "hold as printed" if printed else "hold in part" if partly else "fail"
        groups[group].append(statement.name + " ✗" * (not statement.holds))
    text = Text()
    for (group, names), colour in zip(groups.items(), ("green", "yellow", "red"), strict=True):
        text.append(f"{len(names)} {group}: ", f"bold {colour}").append(", ".join(names) + "\n")
    more = "'mviq verify --only NAME' shows what was measured for one, --all for all"
    return text.append(more, "dim")


def _table(statements: "Sequence[Statement]") -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_lines=True, expand=True)
    table.add_column("statement", ratio=4, overflow="fold")
    for heading, ratio in (("the paper's claim", 6), ("as printed", 5), ("what is true", 6)):
        table.add_column(heading, ratio=ratio)
    table.add_column("residual", width=8)
    for statement in statements:
        table.add_row(*_cells(statement))
    return table


def _cells(statement: "Statement") -> list[Text]:
    """Return a row as ``Text``: rich would take the brackets in formulas for markup."""
    colour = "green" if statement.printed_holds else "yellow" if statement.only_for else "red"
    place = f"({_CONVENTIONS[statement.convention]}: {statement.where})"
    evidence = f"\nmeasured: {statement.evidence}" if statement.evidence else ""
    result = f"{_number(statement.residual)} {'✓' if statement.holds else '✗'}"
    return [
        Text.assemble((statement.name, "bold"), "\n", (statement.reference, "dim")),
        Text.assemble(statement.claim, "\n", (place, "dim")),
        Text.assemble((statement.verdict, colour), (evidence, "dim")),
        Text("as printed" if statement.corrected is None else statement.corrected),
        Text.assemble(
            (result, "green" if statement.holds else "bold red"),
            (f"\n≤ {_number(statement.tolerance)}", "dim"),
        ),
    ]


def _number(residual: float) -> str:
    return f"{residual:.0e}" if residual else "0"


def _errata(statements: "Sequence[Statement]") -> list[str]:
    """Return the statements that do not hold as printed, as the lines of a Markdown table."""
    header = ["| name | place | the paper prints | what is true | measured | within |"]
    rows = [
        (
            f"`{statement.name}`",
            statement.reference,
            f"{statement.claim} ({_CONVENTIONS[statement.convention]})",
            statement.corrected or "",
            f"{statement.verdict}: {statement.evidence}",
            _number(statement.tolerance),
        )
        for statement in statements
        if not statement.printed_holds
    ]
    return [
        *header,
        "|---|---|---|---|---|---|",
        *["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows],
    ]


_CONVENTIONS = {"ours": "our q", "physics": "physics' q", "both": "any convention"}


def _summary(statements: "Sequence[Statement]") -> str:
    printed = sum(statement.printed_holds for statement in statements)
    partly = sum(
        not statement.printed_holds and statement.only_for is not None for statement in statements
    )
    wrong = [statement.name for statement in statements if not statement.holds]
    return (
        f"{len(statements)} statements: {printed} hold as printed, {partly} in part, "
        f"{len(statements) - printed - partly} do not. Corrected, "
        + (f"these fail: {', '.join(wrong)}." if wrong else "all hold.")
    )
