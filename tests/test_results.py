"""The published results: files from which the numbers in the documents can be computed again.

``python tests/test_results.py`` writes the tables in the documents anew. Each stands below a
comment with its name.
"""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_ind

from mviq.env_families import family_of
from mviq.paper.alpha_tau_sweep import labels_of_points, picked
from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.evidence import difference
from mviq.paper.experiments import TUNED
from mviq.paper.learning import learning
from mviq.paper.reproduction import ANSWERS
from mviq.reports.comparison import ReportChoices, compare, counts
from mviq.reports.numbers import percent, shown, signed, with_interval
from mviq.reports.reading import load_study
from mviq.reports.stability import stability
from mviq.reports.statistics import interval, mean, task_means
from mviq.reports.summary_tables import by_environment
from mviq.runs.directory import RunDirectory
from mviq.studies.study_directory import StudyDirectory

ROOT = Path(__file__).parent.parent
PLANS = sorted(ROOT.glob("results/*/plan.json"))
HEADER = (
    "| algorithm | runs | diverged | mean return after 50 000 steps | share at 475 or more | "
    "lowest evaluation after a first success |\n|---|---|---|---|---|---|\n"
)


LAST = 10
GENERAL_HEADER = (
    "| environment | algorithm | runs | diverged | mean of the last ten evaluations | "
    "last evaluation | lowest evaluation after a first success |\n|---|---|---|---|---|---|---|\n"
)


def rows_of(*rows):
    """Return a table in Markdown; the first row is its header."""
    header, *others = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *others))


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
    rows = [("environment", *labels)]
    for env in comparison.study.envs:
        rows.append((env, *(scores[env, label] for label in labels)))
    return rows_of(*rows)


def sweep_table(name):
    """Return the final scores of the sweep, a row for each game and α, a column for each τ."""
    data = load_study(ROOT / "results" / name)
    results = learning(data)
    means = {
        point: task_means(results.last(label)) for point, label in labels_of_points(data).items()
    }
    alphas, temperatures = (sorted({point[i] for point in means}) for i in (0, 1))
    rows = [("game", "α", *(f"τ = {t:g}" for t in temperatures))]
    for i, env in enumerate(results.envs):
        for alpha in alphas:
            cells = (shown(float(means[alpha, t][i])) for t in temperatures)
            rows.append((env, f"{alpha:g}", *cells))
    return rows_of(*rows)


def verdict_table(name):
    """Return what an artefact of the paper finds in a stored study."""
    study, _, artefact = name.partition(": ")
    made = ARTEFACTS[artefact].make(load_study(ROOT / "results" / study))
    rows = [(one.claim, one.where, one.measured, ANSWERS[one.holds]) for one in made.findings]
    return rows_of(("claim", "where", "measured", "verdict"), *rows)


def final_scores(comparison, env):
    """Return the final scores in an environment, ``(seeds, 1)`` by label."""
    return {label: env.final(label, comparison.choices)[:, None] for label in env.curves}


def lead(new, old):
    return with_interval(difference(new, old), signed)


def holm(p_values, level=0.05):
    """Return which of several tests are decided together, by the method of Holm (1979)."""
    order = np.argsort(p_values)
    bounds = level / np.arange(len(order), 0, -1)
    decided = np.logical_and.accumulate(np.asarray(p_values)[order] <= bounds)
    return decided[np.argsort(order)]


MEASURES = {"last evaluation": 1, "last two": 2, "last five": 5, "average over time": None}
"""How many of the last evaluations a score is the mean of; None for all, by their steps."""


def measured(results, label, count):
    """Return the scores ``(seeds, environments)`` of a label by a measure."""
    if count is None:
        return results.area(label)
    return results.curves[label].curves[..., -count:].mean(axis=-1)


def difference_table(study, pairs, measures=MEASURES):
    """Return by how much each first label is above its second, in every environment.

    Bold: different from zero by Welch's t test, with Holm's method over the rows of a column.
    """
    results = learning(load_study(ROOT / "results" / study))
    cases = [(env, *pair) for env in range(len(results.envs)) for pair in pairs]
    columns = []
    for count in measures.values():
        scores = [
            [measured(results, label, count)[:, [env]] for label in pair] for env, *pair in cases
        ]
        tests = [ttest_ind(*both, equal_var=False, nan_policy="omit") for both in scores]
        decided = holm([float(test.pvalue[0]) for test in tests])
        cells = [lead(*both) for both in scores]
        columns.append([f"**{x}**" if y else x for x, y in zip(cells, decided, strict=True)])
    rows = [
        (results.envs[env], f"{new} − {old}", *cells)
        for (env, new, old), *cells in zip(cases, *columns, strict=True)
    ]
    return rows_of(("game", "difference", *measures), *rows)


def better_temperature_table(name):
    """Return what ``minatar-q`` finds where each q has its better temperature."""
    header, rule, *rows = verdict_table("minatar-q-night: minatar-q").splitlines(keepends=True)
    return "".join((header, rule, *(row for row in rows if "each at its better τ" in row)))


def comparison_table(name):
    """Return by how much MVI(2) is above the others."""
    return difference_table(
        "minatar", [("MVI(2)", other) for other in ("M-VI", "Tsallis-VI", "DQN")]
    )


def without_q_table(name):
    """Return by how much M-VI and Tsallis-VI are above DQN."""
    measures = {measure: MEASURES[measure] for measure in ("last two", "average over time")}
    return difference_table("minatar", [(x, "DQN") for x in ("M-VI", "Tsallis-VI")], measures)


def q_difference_table(name):
    """Return by how much each q is above q = 1, at the same temperature."""
    pairs = [
        (f"q={q}, τ={t}", f"q=1, τ={t}") for t in ("0.03", "0.1") for q in ("1.5", "2", "3", "inf")
    ]
    measures = {measure: MEASURES[measure] for measure in list(MEASURES)[1:]}
    return difference_table("minatar-q-night", pairs, measures)


def runs_table(name):
    """Return how many runs of a study there are, and how many of them diverged."""
    data = load_study(ROOT / "results" / name.partition(":")[0])
    rows = [
        ("algorithm", *(f"runs on {family_of(env).game(env)}" for env in data.envs), "diverged")
    ]
    for label in data.labels:
        ended = [[x for x in data.select(label, env) if counts(x)] for env in data.envs]
        diverged = sum(run.status == "diverged" for runs in ended for run in runs)
        rows.append((label, *(str(len(runs)) for runs in ended), str(diverged)))
    return rows_of(*rows)


def q_table(name):
    """Return final scores, a row for each game and temperature, a column for each q."""
    comparison = stored(name)
    scores = {(row.env, row.label): with_interval(row.number) for row in by_environment(comparison)}
    parts = [label.split(", ") for label in comparison.labels]
    indices, temperatures = (list(dict.fromkeys(column)) for column in zip(*parts, strict=True))
    rows = [
        (env.env, t, *(scores[env.env, f"{q}, {t}"] for q in indices))
        for env in comparison.environments
        for t in temperatures
    ]
    return rows_of(("game", "temperature", *indices), *rows)


def softness_table(name):
    """Return how soft the policies on a game were at the end, and what the entropy adds to values.

    Means over seeds of the last logged values.
    """
    study, _, env = name.partition(": ")
    data = load_study(ROOT / "results" / study)
    metrics = ("tsallis/entropy", "tsallis/support_size", "train/q_values")
    rows = [("label", "entropy S", "support size", "mean action value", "γτS/(1−γ)")]
    for label in data.labels:
        runs = data.select(label, env)
        last = [np.mean([run.curve(metric).values[-1] for run in runs]) for metric in metrics]
        gamma, temperature = (runs[0].settings[key] for key in ("gamma", "temperature"))
        bonus = gamma * temperature * last[0] / (1 - gamma)
        rows.append((label, *(f"{number:.2f}" for number in (*last, bonus))))
    return rows_of(*rows)


def progress_table(name):
    """Return the mean evaluation in each fifth of the runs of a study, one seed each."""
    results = learning(load_study(ROOT / "results" / name))
    steps = next(iter(results.curves.values())).steps
    fifths = np.array_split(np.arange(steps.size), 5)
    ends = [f"to step {steps[fifth[-1]]:,.0f}".replace(",", " ") for fifth in fifths]
    rows = [("game", "label", *ends, "best evaluation")]
    for env in results.envs:
        for label in results.curves:
            (curve,) = results.of(label, env)
            cells = [*(curve[fifth].mean() for fifth in fifths), curve.max()]
            rows.append((family_of(env).game(env), label, *(shown(float(x)) for x in cells)))
    return rows_of(*rows)


def critics_table(name):
    """Return the scores of the critics, what q = 2 gains, and what each gains over a scalar one."""
    comparison, gains = stored("critics"), [f"q = {q}, over scalar" for q in "12"]
    rows = [("environment", "critic", "q = 1", "q = 2", "q = 2 − q = 1", *gains)]
    scores = {(row.env, row.label): with_interval(row.number) for row in by_environment(comparison)}
    critics = dict.fromkeys(label.rpartition(" ")[0] for label in comparison.labels)
    for env in comparison.environments:
        ends = final_scores(comparison, env)
        for critic in critics:
            one, two = own = [f"{critic} q={q}" for q in "12"]
            over = [lead(ends[f"{critic} q={q}"], ends[f"scalar q={q}"]) for q in "12"]
            over = ["–", "–"] if critic == "scalar" else over
            cells = *(scores[env.env, label] for label in own), lead(ends[two], ends[one]), *over
            rows.append((env.env, critic, *cells))
    return rows_of(*rows)


ARTEFACTS_OF = {"sweep-night": ("sweep",), "minatar": ("fig7", "fig5")}
TABLES = {
    "when-q-helps: temperatures": temperature_table,
    "when-q-helps: forms": form_table,
    "cartpole-table1": paper_table,
    "general-cartpole": general_table,
    "general": general_table,
    "sweep-night": sweep_table,
    "minatar": scores_table,
    "minatar: runs": runs_table,
    "minatar: MVI(2)": comparison_table,
    "minatar: without q": without_q_table,
    "minatar-q-night": q_table,
    "minatar-q-night: over q = 1": q_difference_table,
    "minatar-q-night: better temperatures": better_temperature_table,
    "minatar-q-night: MinAtar/Asterix-v1": softness_table,
    "critics": critics_table,
    "atari": progress_table,
    "atari-pilot": progress_table,
    "atari: ALE/RoadRunner-v5": softness_table,
    **{
        f"{study}: {artefact}": verdict_table
        for study, artefacts in ARTEFACTS_OF.items()
        for artefact in artefacts
    },
}
DOCUMENTS = (ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")))
MARKED = re.compile(r"(<!-- table: (.+) -->\n\n)((?:\|.*\n)+)")


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


INTERVAL = re.compile(r"([+−-]?)(\d[\d.]*)\s+(\[[^]]*\d\])")


def intervals(text):
    """Return all numbers with an interval in a text, in one spelling."""
    found = ("".join(part).replace("−", "-").replace("+", "") for part in INTERVAL.findall(text))
    return {re.sub(r"\s", "", number) for number in found}


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
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


if __name__ == "__main__":  # write the tables anew
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        new = MARKED.sub(lambda found: found[1] + TABLES[found[2]](found[2]), text)
        document.write_text(new, encoding="utf-8")
