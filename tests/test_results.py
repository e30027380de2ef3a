"""The published results: files from which the numbers in the documents can be computed again.

``python tests/test_results.py`` prints the tables.
"""

import csv
from pathlib import Path

import numpy as np
import pytest

from mviq.env_families import family_of
from mviq.paper.alpha_tau_sweep import labels_of_points, picked
from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.experiments import TUNED
from mviq.paper.learning import learning
from mviq.paper.reproduction import ANSWERS
from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.numbers import percent, shown, with_interval
from mviq.reports.reading import load_study
from mviq.reports.stability import stability
from mviq.reports.statistics import interval, mean, task_means
from mviq.reports.summary_tables import by_environment
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
    "last evaluation | lowest evaluation after a first success |\n|---|---|---|---|---|---|---|\n"
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
        own = curves[row.env][row.label]
        own = own[~np.isnan(own).any(axis=1)]
        ends = [own[:, -points:].mean(axis=1, keepdims=True) for points in (LAST, 1)]
        options = {"seed": comparison.choices.seed, "bounds": family_of(row.env).returns}
        finals = [with_interval(interval(mean, end, **options)) for end in ends]
        worst = shown(row.worst) if row.succeeded else "no success"
        cells = row.env, row.label, row.runs, row.diverged, *finals, worst
        rows.append(f"| {' | '.join(map(str, cells))} |\n")
    return GENERAL_HEADER + "".join(rows)


def regrets():
    """Return the stored regrets of value iteration with errors, by setting."""
    with (ROOT / "results" / "when-q-helps.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("problem", "error", "form", "alpha", "temperature", "q")
    return {tuple(row[name] for name in names): row for row in rows}


def number(row, *names):
    return "{:.3f} [{:.3f}, {:.3f}]".format(*(float(row[name]) + 0.0 for name in names))


def temperature_table(name):
    rows = [
        "| problem | τ | regret of q = 1 | gain of q = 2 | gain of q = 5 |",
        "|---|---|---|---|---|",
    ]
    stored_regrets, gain = regrets(), ("gain over q = 1", "gain low", "gain high")
    for problem in ("Garnet", "chain", "grid"):
        for temperature in ("0.1", "1", "3", "10"):
            key = (problem, "Gaussian, 0.3", "gap", "0.9", temperature)
            one = number(stored_regrets[*key, "1"], "regret", "low", "high")
            gains = [number(stored_regrets[*key, q], *gain) for q in ("2", "5")]
            rows.append(f"| {' | '.join((problem, temperature, one, *gains))} |")
    return "\n".join(rows) + "\n"


def form_table(name):
    rows = ["| problem | form | α | regret of q = 1 | regret of q = 2 |", "|---|---|---|---|---|"]
    stored_regrets = regrets()
    forms = [("gap", alpha) for alpha in ("0", "0.5", "0.9", "0.99")]
    for problem in ("Garnet", "chain", "grid"):
        for form, alpha in (*forms, ("log", "0.9"), ("truncated_log", "0.9")):
            key = (problem, "outliers, 1", form, alpha, "0.1")
            both = [number(stored_regrets[*key, q], "regret", "low", "high") for q in "12"]
            rows.append(f"| {' | '.join((problem, f'`{form}`', alpha, *both))} |")
    return "\n".join(rows) + "\n"


def scores_table(name):
    """Return the final scores of a study, a row for each environment."""
    comparison = stored(name)
    labels = comparison.study.labels
    scores = {(row.env, row.label): with_interval(row.number) for row in by_environment(comparison)}
    rows = [("environment", *labels), ("---",) * (1 + len(labels))]
    for env in comparison.study.envs:
        rows.append((env, *(scores[env, label] for label in labels)))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def sweep_table(name):
    """Return the final scores of the sweep, a row for each game and α, a column for each τ."""
    data = load_study(ROOT / "results" / name)
    results = learning(data)
    means = {
        point: task_means(results.last(label)) for point, label in labels_of_points(data).items()
    }
    alphas, temperatures = (sorted({point[i] for point in means}) for i in (0, 1))
    rows = [("game", "α", *(f"τ = {t:g}" for t in temperatures))]
    rows.append(("---",) * len(rows[0]))
    for i, env in enumerate(results.envs):
        for alpha in alphas:
            cells = (shown(float(means[alpha, t][i])) for t in temperatures)
            rows.append((env, f"{alpha:g}", *cells))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def verdict_table(name):
    """Return what an artefact of the paper finds in a stored study."""
    study, _, artefact = name.partition(": ")
    made = ARTEFACTS[artefact].make(load_study(ROOT / "results" / study))
    rows = [("claim", "where", "measured", "verdict"), ("---",) * 4]
    rows += [(one.claim, one.where, one.measured, ANSWERS[one.holds]) for one in made.findings]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


VERDICTS = {
    "minatar": ("fig7", "fig5", "fig4"),
    "minatar-q-night": ("minatar-q",),
}
TABLES = {
    "when-q-helps: temperatures": (temperature_table, "docs/when-q-helps.md"),
    "when-q-helps: forms": (form_table, "docs/when-q-helps.md"),
    "cartpole-table1": (paper_table, "docs/paper.md"),
    "general-cartpole": (general_table, "docs/presets.md"),
    "general": (general_table, "docs/presets.md"),
    "sweep-night": (sweep_table, "docs/results.md"),
    "sweep-night: sweep": (verdict_table, "docs/results.md"),
    **dict.fromkeys(VERDICTS, (scores_table, "docs/results.md")),
    **{
        f"{name}: {artefact}": (verdict_table, "docs/results.md")
        for name, artefacts in VERDICTS.items()
        for artefact in artefacts
    },
}


def is_whole(name):
    """Return whether all planned runs of a stored study are there; a table waits for the last."""
    study = StudyDirectory(ROOT / "results" / name.partition(":")[0])
    if study.path.name == "when-q-helps":  # no study, but one file
        return True
    if not study.path.is_dir():
        return False
    planned = {run.run for run in study.plan().runs}
    return planned <= {path.name for path in study.runs.glob("*")}


PRESENT = list(filter(is_whole, TABLES))


@pytest.mark.parametrize("name", PRESENT)
def test_the_table_in_the_document_is_that_of_the_files(name):
    table, document = TABLES[name]
    assert table(name) in (ROOT / document).read_text(encoding="utf-8"), table(name)


@pytest.mark.skipif("sweep-night" not in PRESENT, reason="the sweep is not whole")
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


PLANS = sorted(ROOT.glob("results/*/plan.json"))


@pytest.mark.parametrize("study", PLANS, ids=lambda path: path.parent.name)
def test_every_run_says_what_it_was_and_how_it_ended(study):
    for place in (study.parent / "runs").iterdir():
        directory = RunDirectory(place)
        assert directory.config().name == place.name
        assert directory.result is not None


if __name__ == "__main__":  # print the tables, to be copied into the documents
    for present in PRESENT:
        print(TABLES[present][0](present))
