"""The published results: files from which the numbers in the documents can be computed again.

``python tests/test_results.py`` prints the tables.
"""

from pathlib import Path

import pytest

from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.numbers import percent, shown, with_interval
from mviq.reports.reading import load_study
from mviq.reports.stability import stability
from mviq.runs.directory import RunDirectory

ROOT = Path(__file__).parent.parent
STUDIES = {"cartpole-table1": "docs/paper.md"}
HEADER = (
    "| algorithm | runs | diverged | mean return after 50 000 steps | share at 475 or more | "
    "lowest evaluation after a first success |\n|---|---|---|---|---|---|\n"
)


def table(name: str) -> str:
    comparison = compare(load_study(ROOT / "results" / name), ReportChoices())
    rows = [
        f"| {row.label} | {row.runs} | {row.diverged} | {with_interval(row.late)} | "
        f"{with_interval(row.share, percent)} | {shown(row.worst)} |\n"
        for row in stability(comparison)
    ]
    return HEADER + "".join(rows)


@pytest.mark.parametrize(("name", "document"), STUDIES.items())
def test_the_table_in_the_document_is_that_of_the_files(name, document):
    assert table(name) in (ROOT / document).read_text(encoding="utf-8"), table(name)


PLANS = sorted(ROOT.glob("results/*/plan.json"))


@pytest.mark.parametrize("study", PLANS, ids=lambda path: path.parent.name)
def test_every_run_says_what_it_was_and_how_it_ended(study):
    for place in (study.parent / "runs").iterdir():
        directory = RunDirectory(place)
        assert directory.config().name == place.name
        assert directory.result is not None


if __name__ == "__main__":
    for study in STUDIES:
        print(table(study))
