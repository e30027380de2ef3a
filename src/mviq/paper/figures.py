"""What every figure of the paper is made of, how it looks, and how it reaches the disk."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from numpy.typing import NDArray
from torch import Tensor

from mviq.reports.style import BLACK, BLUE, GREEN, ORANGE, PINK, render

Floats = NDArray[np.float64]

_LINES: Mapping[float, tuple[str, Any]] = {
    1: (BLACK, "solid"),
    2: (BLUE, (0, (6, 1.2))),
    3: (GREEN, (0, (4, 1.2, 1, 1.2))),
    4: (ORANGE, (0, (2.2, 1.2))),
    5: (PINK, (0, (1, 1))),
}


@dataclass(frozen=True)
class Curve:
    """A line of a figure: y against x at one index q, in one panel."""

    panel: str
    q: float
    x: Floats
    y: Floats


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, where it was tested, what was measured there, and whether it holds."""

    claim: str
    where: str
    measured: str
    holds: bool | None
    """None: the evidence does not decide it."""


@dataclass(frozen=True)
class Drawing:
    """A figure with the numbers behind it, the settings it was made with and what it shows."""

    name: str
    figure: Figure
    curves: Sequence[Curve]
    settings: Sequence[str]
    findings: Sequence[Finding]


_WORDS = {True: "agrees", False: "does not agree", None: "not enough evidence"}


def verdict(findings: Iterable[Finding]) -> str:
    """Say in one line whether the claims hold: everywhere, nowhere, only where, or not decided.

    >>> verdict([Finding("flatter", "x > 1", "", True), Finding("flatter", "x < 1", "", False)])
    'agrees in part: flatter only for x > 1'
    >>> verdict([Finding("higher", "Pong", "1 seed", None)])
    'not enough evidence'
    >>> verdict([Finding("higher", "Pong", "", True), Finding("higher", "Hero", "", None)])
    'agrees in part: higher for Pong, not decided for Hero'
    """
    places = by_claim(findings)
    answers = {test.holds for tests in places.values() for test in tests}
    if len(answers) == 1:
        return _WORDS[answers.pop()]
    open_ones = {claim: tests for claim, tests in places.items() if not all(t.holds for t in tests)}
    begin = "agrees in part: " if True in answers else "does not agree: "
    return begin + "; ".join(_only(claim, tests) for claim, tests in open_ones.items())


def by_claim(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Return the findings grouped by claim, in the order the claims first appear."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.claim, []).append(finding)
    return groups


def _only(claim: str, tests: Sequence[Finding]) -> str:
    """Say where a claim holds and where that is not decided; elsewhere it does not."""
    holds, undecided = (_places(tests, answer) for answer in (True, None))
    refuted = any(test.holds is False for test in tests)
    said = []
    if holds:
        said.append(f"{'only ' if refuted else ''}for {holds}")
    elif refuted:
        said.append("nowhere")
    if undecided:
        said.append(f"not decided for {undecided}")
    return f"{claim} {', '.join(said)}"


def _places(tests: Iterable[Finding], answer: bool | None) -> str:
    return " and ".join(test.where for test in tests if test.holds is answer)


def curve(panel: str, q: float, x: Tensor, y: Tensor) -> Curve:
    """Return a line through points held in tensors."""
    return Curve(panel, q, x.double().numpy(), y.double().numpy())


def point(panel: str, q: float, x: float, y: float) -> Curve:
    """Return a line of one point, for panels that show one number per index."""
    return Curve(panel, q, np.array([x], dtype=np.float64), np.array([y], dtype=np.float64))


def of_panel(curves: Iterable[Curve], panel: str) -> list[Curve]:
    """Return the curves of one panel."""
    return [one for one in curves if one.panel == panel]


def points(curves: Iterable[Curve], panel: str) -> tuple[Floats, Floats]:
    """Return x and y of all curves of one panel, joined: those of a panel with one point per q."""
    chosen = of_panel(curves, panel)
    return np.concatenate([c.x for c in chosen]), np.concatenate([c.y for c in chosen])


def two_rows(upper: str, lower: str) -> tuple[Figure, list[Axes], list[Axes]]:
    """Return a figure, as wide as a page, of two titled rows of three panels, and the panels."""
    figure = Figure(figsize=(10, 6.6), layout=ConstrainedLayoutEngine(wspace=0.06))
    rows = []
    for half, title in zip(
        figure.subfigures(2, hspace=0.03, squeeze=False).flat, (upper, lower), strict=True
    ):
        half.suptitle(title)
        rows.append(list(half.subplots(1, 3)))
    return figure, rows[0], rows[1]


def draw_family(axes: Axes, curves: Iterable[Curve], panel: str) -> None:
    """Draw the curves of a panel for q = 1 to 5, each q with its own colour and dashes."""
    for one in of_panel(curves, panel):
        colour, dashes = _LINES[one.q]
        axes.plot(one.x, one.y, color=colour, linestyle=dashes, label=f"$q={one.q:g}$")


def files(drawing: Drawing) -> dict[str, bytes]:
    """Return the picture (PNG, SVG) and its numbers (CSV) by file name; same input, same bytes."""
    return {
        f"{drawing.name}.png": render(drawing.figure, "png"),
        f"{drawing.name}.svg": render(drawing.figure, "svg"),
        f"{drawing.name}.csv": _csv(drawing.curves),
    }


def _csv(curves: Iterable[Curve]) -> bytes:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("panel", "q", "x", "y"))
    for one in curves:
        for x, y in zip(one.x, one.y, strict=True):
            # Twelve digits: the last ones of a float64 differ between machines.
            table.writerow((one.panel, f"{one.q:g}", f"{x:.12g}", f"{y:.12g}"))
    return text.getvalue().encode()
