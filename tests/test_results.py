"""The published results: files from which the numbers in the documents can be computed again."""

import csv
import re
from statistics import fmean

import pytest

from document_tables import DOCUMENTS, LAST, MARKED, ROOT, TABLES, stored
from mviq.agents import MVI
from mviq.cli.main import main
from mviq.paper.alpha_tau_sweep import labels_of_points, picked
from mviq.paper.experiments import TUNED
from mviq.paper.learning import learning
from mviq.reports.numbers import shown
from mviq.reports.reading import load_study
from mviq.reports.statistics import task_means
from mviq.runs.directory import RunDirectory
from mviq.studies.study_directory import StudyDirectory
from reward_noise import SIZE, Outliers

PLANS = sorted(ROOT.glob("results/*/plan.json"))


def shown_tables():
    """Return every table in a document that is computed from stored files, with its name."""
    return [
        pytest.param(name, table, id=f"{document.name}, {name}")
        for document in DOCUMENTS
        for _, name, table in MARKED.findall(document.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("name", "table"), shown_tables())
def test_the_table_in_the_document_is_that_of_the_files(name, table):
    assert table == TABLES[name](name)


def test_the_report_of_the_comparison_has_the_numbers_of_the_page(tmp_path):
    study = str(ROOT / "results" / "minatar")
    assert main(["report", study, "--format", "csv", "--out", str(tmp_path)]) == 0
    summary, scores = (
        list(csv.DictReader((tmp_path / name).read_text(encoding="utf-8").splitlines()))
        for name in ("summary.csv", "scores.csv")
    )
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    wanted = ("MVI(2)", "P(better than M-VI)")
    (chance,) = (row for row in summary if (row["label"], row["statistic"]) == wanted)
    number = [float(chance[name]) for name in ("estimate", "low", "high")]
    assert "all five | {:.3f} [{:.3f}, {:.3f}] |".format(*number) in page
    tables = {name: table for _, name, table in MARKED.findall(page)}
    for env in {row["env"] for row in scores}:
        own = (row["final"] for row in scores if (row["env"], row["label"]) == (env, "MVI(2)"))
        finals = [float(final) for final in own if final]
        assert f"| {env} | {shown(fmean(finals))} [" in tables["minatar"]


INTERVAL = re.compile(r"([+−-]?)(\d[\d.]*)\s+(\[[^]]*\d\])")


def intervals(text):
    """Return all numbers with an interval in a text, in one spelling."""
    found = ("".join(part).replace("−", "-").replace("+", "") for part in INTERVAL.findall(text))
    return {re.sub(r"\s", "", number) for number in found}


@pytest.mark.parametrize("page", ["README.md", "docs/results.md", "docs/when-q-helps.md"])
def test_every_interval_in_a_sentence_stands_in_a_computed_table(page):
    """So that a sentence cannot keep a number of runs that have since been added to."""
    pages = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    computed = intervals("".join(table for text in pages for _, _, table in MARKED.findall(text)))
    assert intervals(MARKED.sub("", (ROOT / page).read_text(encoding="utf-8"))) <= computed


def is_whole(name):
    """Return whether all planned runs of a stored study are there; a table waits for the last."""
    study = StudyDirectory(ROOT / "results" / name.partition(":")[0])
    if study.path.name == "when-q-helps":  # no study, but one file
        return True
    if not study.path.is_dir():
        return False
    planned = {run.run for run in study.plan().runs}
    return planned <= {path.name for path in study.runs.glob("*")}


@pytest.mark.parametrize("name", list(filter(is_whole, TABLES)))
def test_the_tables_of_a_whole_study_are_in_a_document(name):
    assert name in [shown.values[0] for shown in shown_tables()]


def test_no_stored_study_is_left_out():
    """Every study in results/ has a table, or its picture and verdicts, in a document."""
    pages = "".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)
    for study in PLANS:
        assert f"results/{study.parent.name}" in pages or f"table: {study.parent.name}" in pages


def test_the_comparison_has_the_values_that_the_sweep_picked():
    data = load_study(ROOT / "results" / "sweep-night")
    results = learning(data)
    averages = {
        point: task_means(results.area(label)) for point, label in labels_of_points(data).items()
    }
    own, tsallis = picked(averages)
    assert own == (TUNED["mvi"]["munchausen_alpha"], TUNED["mvi"]["temperature"])
    assert tsallis == (0, TUNED["tsallis-vi"]["temperature"])


def test_mvi_2_keeps_cartpole_with_the_preset_general():
    """Ten seeds: the mean of the last ten evaluations is at least 475."""
    (env,) = stored("general-cartpole").environments
    assert env.curves["MVI(2)"].shape[0] == 10
    assert env.curves["MVI(2)"][:, -LAST:].mean() >= 475


@pytest.mark.parametrize("study", PLANS, ids=lambda path: path.parent.name)
def test_every_run_says_what_it_was_and_how_it_ended(study):
    for place in (study.parent / "runs").iterdir():
        directory = RunDirectory(place)
        assert directory.config().name == place.name
        assert directory.result is not None


def test_errors_are_in_the_rewards_that_are_learnt_from_and_not_in_returns():
    agent = MVI("MlpPolicy", "CartPole-v1", seed=0, learning_starts=2_000).learn(2_000, Outliers())
    rewards = agent.replay_buffer.rewards[:2_000]
    assert set(rewards.flat) == {1.0, 1 - SIZE, 1 + SIZE}
    assert 0.003 < (rewards != 1).mean() < 0.02
    assert all(episode["r"] == episode["l"] for episode in agent.ep_info_buffer)
