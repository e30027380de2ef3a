"""Tables made from stored runs: byte for byte those that are kept under tests/fixtures.

``python tests/reports/test_same_tables.py`` writes the expected files anew. Only do that when a
number is meant to change.
"""

from pathlib import Path

import pytest

from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.reproduction import reproduction_files
from mviq.reports.comparison import ReportChoices
from mviq.reports.reading import load_study
from mviq.reports.report import make_report, report_files

STORED = Path(__file__).parents[1] / "fixtures" / "stored_runs"
REPORTS = {
    "every-fate": ("every-fate", ReportChoices()),
    "every-fate-train": ("every-fate", ReportChoices(metric="train", which="all", last=2, seed=3)),
    "every-fate-finished": ("every-fate", ReportChoices(which="finished", without=["Acrobot*"])),
    "no-plan": ("no-plan", ReportChoices()),
    "atari": ("atari", ReportChoices(baseline="m-vi")),
}
FIGURES = {
    "fig3": "cartpole-q",
    "fig4": "atari",
    "fig5": "atari",
    "fig6-left": "naive",
    "fig6-right": "acrobot-q",
    "fig7": "atari",
    "sweep": "sweep",
}


def unpacked(name: str, place: Path) -> Path:
    """Write the files of a study, which are kept in one text, into a directory."""
    study = place / name
    for part in (STORED / f"{name}.txt").read_text(encoding="utf-8").split("==> ")[1:]:
        path, _, content = part.partition("\n")
        (study / path).parent.mkdir(parents=True, exist_ok=True)
        (study / path).write_text(content, encoding="utf-8")
    return study


def report_tables(name: str, place: Path) -> dict[str, bytes]:
    study, choices = REPORTS[name]
    return report_files(make_report(unpacked(study, place), choices), ["csv"])


def figure_tables(name: str, place: Path) -> dict[str, bytes]:
    drawing = ARTEFACTS[name].make(load_study(unpacked(FIGURES[name], place)))
    said = [f"{f.claim} | {f.where} | {f.measured} | {f.holds}\n" for f in drawing.findings]
    said += [f"{setting}\n" for setting in drawing.settings]
    tables = {x: own for x, own in reproduction_files(drawing).items() if x.endswith(".csv")}
    return {**tables, f"{name}.txt": "".join(said).encode()}


def expected(kind: str, name: str) -> dict[str, bytes]:
    directory = STORED / "expected" / kind / name
    found = [path for path in directory.rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in found}


@pytest.mark.parametrize("name", REPORTS)
def test_the_tables_of_a_report_are_those_kept(name, tmp_path):
    assert report_tables(name, tmp_path) == expected("reports", name)


@pytest.mark.parametrize("name", FIGURES)
def test_the_tables_of_the_papers_figures_are_those_kept(name, tmp_path):
    assert figure_tables(name, tmp_path) == expected("paper", name)


def _write_expected() -> None:
    import tempfile

    for kind, names, tables in (
        ("reports", REPORTS, report_tables),
        ("paper", FIGURES, figure_tables),
    ):
        for name in names:
            with tempfile.TemporaryDirectory() as place:
                for path, content in tables(name, Path(place)).items():
                    file = STORED / "expected" / kind / name / path
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(content)


if __name__ == "__main__":
    _write_expected()
