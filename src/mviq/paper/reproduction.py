"""A reproduced artefact of the paper: figure, numbers, and whether its claims hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from matplotlib.figure import Figure

from mviq.drawing.panels import Cell, csv_bytes
from mviq.drawing.style import pictures
from mviq.paper.experiments import Experiment, StudyScale

ANSWERS = {True: "agrees", False: "does not", None: "not decided"}
"""The possible results of testing a claim."""


@dataclass(frozen=True)
class Finding:
    """A claim of the paper, where it was tested, what was measured there, and whether it holds."""

    claim: str
    where: str
    measured: str
    holds: bool | None
    """None: the evidence does not decide it."""


@dataclass(frozen=True)
class Data:
    """The numbers behind an artefact."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Reproduction:
    """A reproduced artefact: its numbers, the settings used and the findings."""

    name: str
    figure: Figure | None
    """None for a table."""
    data: Data
    settings: Sequence[str]
    findings: Sequence[Finding]
    proviso: str = ""
    """A caveat printed with the verdict."""


_WORDS = {True: "agrees", False: "does not agree", None: "not enough evidence"}


def verdict(findings: Iterable[Finding]) -> str:
    """Return one line on whether the claims hold: everywhere, nowhere, in part, or not decided.

    More than four places are counted, not named.

    >>> verdict([Finding("flatter", "x > 1", "", True), Finding("flatter", "x < 1", "", False)])
    'agrees in part: “flatter” only for x > 1'
    >>> verdict([Finding("higher", "Pong", "1 seed", None)])
    'not enough evidence'
    >>> verdict([Finding("higher", "Pong", "", True), Finding("higher", "Hero", "", None)])
    'agrees in part: “higher” for Pong, not decided for Hero'
    >>> verdict([Finding("up", game, "", game > "B") for game in ("A", "C", "D", "E", "F")])
    'agrees in part: “up” only in 4 of 5 cases'
    """
    places = by_claim(findings)
    answers = {test.holds for tests in places.values() for test in tests}
    if len(answers) <= 1:
        return _WORDS[answers.pop() if answers else None]
    open_ones = {claim: tests for claim, tests in places.items() if not all(t.holds for t in tests)}
    begin = "agrees in part: " if True in answers else "does not agree: "
    return begin + "; ".join(_only(claim, tests) for claim, tests in open_ones.items())


def at_scale(made: Reproduction, experiment: Experiment, scale: StudyScale) -> Reproduction:
    """Return a reproduction with the scale of its runs in the settings and the proviso.

    At scale ``smoke`` nothing is decided: the findings are dropped.
    """
    remark = experiment.scales[scale]["remark"]
    settings = (f"scale {scale}: {experiment.cost(scale)}; {remark}", *made.settings)
    if scale == "smoke":
        proviso = "scale smoke shows that everything runs and decides nothing"
        return replace(made, settings=settings, findings=(), proviso=proviso)
    return replace(made, settings=settings, proviso=experiment.stand_in(scale))


def whole_verdict(made: Reproduction) -> str:
    """Return the verdict with its proviso."""
    return verdict(made.findings) + (f", {made.proviso}" if made.proviso else "")


def as_markdown(shows: str, claim: str, made: Reproduction) -> bytes:
    """Return the claim, the verdict and the measurements as Markdown, to save with the figure."""
    lines = [f"# {made.name}", "", shows, "", f"- the paper's claim: {claim}"]
    lines += [f"- **verdict: {whole_verdict(made)}**", ""]
    for about, tests in by_claim(made.findings).items():
        lines += [f"## {about}", ""]
        lines += [f"- {ANSWERS[test.holds]} ({test.where}): {test.measured}" for test in tests]
        lines += [""]
    lines += ["## How", "", *(f"- {setting}" for setting in made.settings)]
    return ("\n".join(lines) + "\n").encode()


def by_claim(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """Return the findings grouped by claim, in the order the claims first appear."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.claim, []).append(finding)
    return groups


def _only(claim: str, tests: Sequence[Finding]) -> str:
    """Describe where a claim holds and where it is undecided."""
    holds, undecided, refuted = (_places(tests, answer) for answer in (True, None, False))
    said = []
    if holds:
        said.append(f"{'only ' if refuted else ''}{holds}")
    elif refuted:
        said.append(f"not {refuted}" if undecided or len(tests) == 1 else "nowhere")
    if undecided:
        said.append(f"not decided {undecided}")
    return f"“{claim}” {', '.join(said)}"


def _places(tests: Sequence[Finding], answer: bool | None) -> str:
    """Name the places with a given answer, or count them if there are too many to name."""
    places = [test.where for test in tests if test.holds is answer]
    if places and len(tests) > 4:
        return f"in {len(places)} of {len(tests)} cases"
    return f"for {' and '.join(places)}" if places else ""


def reproduction_files(made: Reproduction) -> dict[str, bytes]:
    """Return the figure (PNG, SVG) and its numbers (CSV) by file name, deterministically."""
    contents = {f"{made.name}.csv": csv_bytes(made.data.columns, made.data.rows)}
    return contents if made.figure is None else contents | pictures(made.name, made.figure)
