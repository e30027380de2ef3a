"""The published results: files from which the numbers in the documents can be computed again.

``python tests/test_results.py`` prints the tables.
"""

from pathlib import Path

import numpy as np
import pytest

from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.numbers import percent, shown, with_interval
from mviq.reports.reading import load_study
from mviq.reports.stability import stability
from mviq.reports.statistics import interval, mean
from mviq.runs.directory import RunDirectory
from mviq.studies.study_directory import StudyDirectory

ROOT = Path(__file__).parent.parent
HEADER = (
    "| algorithm | runs | diverged | mean return after 50 000 steps | share at 475 or more | "
    "lowest evaluation after a first success |\n|---|---|---|---|---|---|\n"
)


LAST = 10
GENERAL_HEADER = (
    "| environment | algorithm | runs | diverged | mean of the last ten evaluations | "
    "lowest evaluation after a first success |\n|---|---|---|---|---|---|\n"
)


def stored(name):
    return compare(load_study(ROOT / "results" / name), ReportChoices())


def paper_table(name):
    rows = [
        f"| {row.label} | {row.runs} | {row.diverged} | {with_interval(row.late)} | "
        f"{with_interval(row.share, percent)} | {shown(row.worst)} |\n"
        for row in stability(stored(name))
    ]
    return HEADER + "".join(rows)


def general_table(name):
    comparison, rows = stored(name), []
    curves = {env.env: env.curves for env in comparison.environments}
    for row in stability(comparison):
        last = curves[row.env][row.label][:, -LAST:].mean(axis=1, keepdims=True)
        final = interval(mean, last[~np.isnan(last[:, 0])], seed=comparison.choices.seed)
        worst = shown(row.worst) if row.succeeded else "no success"
        cells = row.env, row.label, row.runs, row.diverged, with_interval(final), worst
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return GENERAL_HEADER + "".join(rows)


TABLES = {
    "cartpole-table1": (paper_table, "docs/paper.md"),
    "general-cartpole": (general_table, "docs/agents.md"),
    "general": (general_table, "docs/agents.md"),
}


def is_whole(name):
    """Return whether all planned runs of a stored study are there; a table waits for the last."""
    study = StudyDirectory(ROOT / "results" / name)
    planned = {run.run for run in study.plan().runs} if study.path.is_dir() else {""}
    return planned <= {path.name for path in study.runs.glob("*")}


PRESENT = list(filter(is_whole, TABLES))


@pytest.mark.parametrize("name", PRESENT)
def test_the_table_in_the_document_is_that_of_the_files(name):
    table, document = TABLES[name]
    assert table(name) in (ROOT / document).read_text(encoding="utf-8"), table(name)


def test_mvi_2_keeps_cartpole_with_the_preset_general():
    """Ten seeds: the mean of the last ten evaluations is at least 475."""
    (env,) = stored("general-cartpole").environments
    assert env.curves["MVI(2)"].shape[0] == 10
    assert env.curves["MVI(2)"][:, -LAST:].mean() >= 475


PLANS = sorted(ROOT.glob("results/*/plan.json"))


@pytest.mark.parametrize("study", PLANS, ids=lambda path: path.parent.name)
def test_every_run_says_what_it_was_and_how_it_ended(study):
    for place in (study.parent / "runs").iterdir():
        directory = RunDirectory(place)
        assert directory.config().name == place.name
        assert directory.result is not None


if __name__ == "__main__":
    for present in PRESENT:
        print(TABLES[present][0](present))
