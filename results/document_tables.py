"""The tables of the documents that are computed from the files of this directory.

    python results/document_tables.py               write all of them anew, in README.md and docs/
    python results/document_tables.py minatar       print those of one study or one name

Each stands below a comment with its name.
"""

import csv
import re
import sys
from pathlib import Path

import numpy as np
from scipy.stats import ttest_ind

from mviq.env_families import family_of
from mviq.paper.alpha_tau_sweep import labels_of_points
from mviq.paper.artefacts import ARTEFACTS
from mviq.paper.evidence import difference, more_often
from mviq.paper.learning import learning
from mviq.paper.reproduction import ANSWERS
from mviq.reports.comparison import ReportChoices, compare, counts
from mviq.reports.numbers import percent, shown, signed, with_interval
from mviq.reports.reading import load_study
from mviq.reports.stability import stability
from mviq.reports.statistics import interval, mean, task_means
from mviq.reports.summary_tables import by_environment

ROOT = Path(__file__).parent.parent
LAST = 10
RUNS = ("runs", "diverged")
WORST = "lowest evaluation after a first success"


def rows_of(*rows):
    """Return a table in Markdown; the first row is its header."""
    header, *others = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ["---"] * len(header), *others))


def stored(name):
    return compare(load_study(ROOT / "results" / name), ReportChoices())


def learnt(name):
    """Return the learning curves of a stored study."""
    return learning(load_study(ROOT / "results" / name))


def paper_table(name):
    rows = [("algorithm", *RUNS, "mean return after 50 000 steps", "share at 475 or more", WORST)]
    for row in stability(stored(name)):
        numbers = with_interval(row.late), with_interval(row.share, percent), shown(row.worst)
        rows.append((row.label, str(row.runs), str(row.diverged), *numbers))
    return rows_of(*rows)


def general_table(name):
    comparison, ends_of = stored(name), ("mean of the last ten evaluations", "last evaluation")
    rows = [("environment", "algorithm", *RUNS, *ends_of, WORST)]
    curves = {env.env: env.curves for env in comparison.environments}
    for row in stability(comparison):
        own = curves[row.env][row.label]
        own = own[~np.isnan(own).any(axis=1)]
        ends = [own[:, -points:].mean(axis=1, keepdims=True) for points in (LAST, 1)]
        options = {"seed": comparison.choices.seed, "bounds": family_of(row.env).returns}
        finals = [with_interval(interval(mean, end, **options)) for end in ends]
        worst = shown(row.worst) if row.succeeded else "no success"
        rows.append((row.env, row.label, str(row.runs), str(row.diverged), *finals, worst))
    return rows_of(*rows)


def regrets():
    """Return the stored regrets of value iteration with errors, by setting."""
    with (ROOT / "results" / "when-q-helps.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = ("problem", "error", "form", "alpha", "temperature", "q")
    return {tuple(row[name] for name in names): row for row in rows}


def number(row, name):
    columns = name, f"{name}, low", f"{name}, high"
    values = (round(float(row[column]), 3) + 0.0 for column in columns)  # + 0.0: no minus zero
    return "{:.3f} [{:.3f}, {:.3f}]".format(*values)


def temperature_table(name):
    """Return the regret at large temperatures: of the gap for some q, and of the log form."""
    columns = {f"gap, q = {q}": ("gap", q) for q in ("1", "2", "5", "inf")}
    columns |= {f"log, q = {q}": ("log", q) for q in ("1", "2")}
    rows = [("problem", "τ", *columns)]
    stored_regrets = regrets()
    for problem in ("Garnet", "chain", "grid"):
        for t in ("0.1", "1", "3", "10"):
            found = (
                stored_regrets[problem, "Gaussian, 0.3", form, "0.9", t, q]
                for form, q in columns.values()
            )
            rows.append((problem, t, *(number(row, "regret") for row in found)))
    return rows_of(*rows)


def error_table(name):
    """Return the regret of the gap form at a small temperature, by kind of error."""
    indices, stored_regrets = ("1", "2", "inf"), regrets()
    rows = [("problem", "error, σ", *(f"q = {q}" for q in indices))]
    for problem in ("Garnet", "chain", "grid"):
        for error in ("Gaussian, 1", "outliers, 1", "heavy tails, 1", "same error, 0.3"):
            found = (stored_regrets[problem, error, "gap", "0.9", "0.1", q] for q in indices)
            rows.append((problem, error, *(number(row, "regret") for row in found)))
    return rows_of(*rows)


def form_table(name):
    """Return the regret under outliers at a small temperature, by form and α."""
    rows = [("problem", "form", "α", "q = 1", "q = 2", "last regret of q = 1", "of q = 2")]
    stored_regrets = regrets()
    forms = [("gap", alpha) for alpha in ("0", "0.5", "0.9", "0.99")]
    for problem in ("Garnet", "chain", "grid"):
        for form, alpha in (*forms, ("log", "0.9"), ("truncated_log", "0.9"), ("explicit", "1")):
            key = (problem, "outliers, 1", form, alpha, "0.1")
            both = [
                number(stored_regrets[*key, q], name)
                for name in ("regret", "last regret")
                for q in "12"
            ]
            shown_alpha = "–" if form == "explicit" else alpha
            rows.append((problem, form.replace("explicit", "explicit KL"), shown_alpha, *both))
    return rows_of(*rows)


def explicit_table(name):
    """Return the regret of explicit divergences under outliers, by temperature."""
    rows = [("problem", "τ", "KL (q = 1)", "Tsallis KL, q = 2", "gain of q = 2")]
    stored_regrets = regrets()
    for problem in ("Garnet", "chain", "grid"):
        for t in ("0.1", "1", "10", "100", "1000"):
            one, two = (stored_regrets[problem, "outliers, 1", "explicit", "1", t, q] for q in "12")
            both = (number(row, "regret") for row in (one, two))
            rows.append((problem, t, *both, number(two, "gain over q = 1")))
    return rows_of(*rows)


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


def final(scores, env):
    return with_interval(interval(mean, scores, bounds=family_of(env).returns))


def lead(new, old):
    return with_interval(difference(new, old), signed)


def holm(p_values, level=0.05):
    """Return which of several tests are decided together, by the method of Holm (1979)."""
    order = np.argsort(p_values)
    bounds = level / np.arange(len(order), 0, -1)
    decided = np.logical_and.accumulate(np.asarray(p_values)[order] <= bounds)
    return decided[np.argsort(order)]


MEASURES = {"last two": 2, "last five": 5, "average over time": None}
"""How many of the last evaluations a score is the mean of; None for all, by their steps."""
PLANNED = {"final score": 2, "average over time": None}
TUNED_ON = ("MinAtar/Asterix-v1", "MinAtar/Seaquest-v1")
OTHERS = ("M-VI", "Tsallis-VI", "DQN")


def measured(results, label, count):
    """Return the scores ``(seeds, environments)`` of a label by a measure."""
    if count is None:
        return results.area(label)
    return results.curves[label].curves[..., -count:].mean(axis=-1)


def difference_table(study, pairs, measures):
    """Return by how much each first label is above its second, in every environment.

    Bold: different from zero by Welch's t test, with Holm's method over the rows of a column.
    """
    results = learnt(study)
    own = [env in TUNED_ON and study == "minatar" for env in results.envs]
    order = sorted(range(len(own)), key=lambda env: not own[env])  # those tuned on come first
    cases = [(env, *pair) for env in order for pair in pairs]
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
        (results.envs[env] + " †" * own[env], f"{new} − {old}", *cells)
        for (env, new, old), *cells in zip(cases, *columns, strict=True)
    ]
    return rows_of(("game", "difference", *measures), *rows)


def better_temperature_table(name):
    """Return what ``minatar-q`` finds where each q has its better temperature."""
    header, rule, *rows = verdict_table("minatar-q-night: minatar-q").splitlines(keepends=True)
    return "".join((header, rule, *(row for row in rows if "each at its better τ" in row)))


def comparison_table(name):
    """Return by how much MVI(2) is above the others."""
    return difference_table("minatar", [("MVI(2)", other) for other in OTHERS], PLANNED)


def probability_table(name):
    """Return how often a run of MVI(2) ends above one of another algorithm, by groups of games."""
    results = learnt("minatar")
    tuned = [env in TUNED_ON for env in results.envs]
    groups = {
        "all five": np.ones(len(tuned), bool),
        "the two of the sweep": np.array(tuned),
        "the other three": ~np.array(tuned),
    } | {env: np.array(results.envs) == env for env in results.envs}
    rows = []
    for group, chosen in groups.items():
        scores = {label: results.last(label)[:, chosen] for label in results.curves}
        chances = (more_often(scores["MVI(2)"], scores[other]) for other in OTHERS)
        rows.append((group, *map(with_interval, chances)))
    return rows_of(("games", *(f"above {other}" for other in OTHERS)), *rows)


def control_table(name):
    """Return the log form with q = 1 at τ = 0.1, and minus the gap with some q and τ."""
    control, gap = (learnt(x) for x in (name, "minatar-q-night"))
    (label,), others = control.curves, ("q=1, τ=0.1", "q=2, τ=0.1", "q=1, τ=0.03")
    rows = [("game", label, *(f"− gap, {other}" for other in others))]
    for env in control.envs:
        scores = control.last(label, env)
        leads = (lead(scores, gap.last(other, env)) for other in others)
        rows.append((env, final(scores, env), *leads))
    return rows_of(*rows)


def early_table(name):
    """Return MVI(q) with α = 0.9 minus the algorithms of the comparison, at 300 000 steps."""
    ours, theirs = (learnt(study) for study in ("minatar-q-night", "minatar"))
    rows = []
    for env in ours.envs:
        for label in ours.curves:
            if label == "q=inf, τ=0.1":  # the same as at τ = 0.03
                continue
            new, cells = ours.last(label, env), []
            for other in ("DQN", "M-VI", "MVI(2)"):
                upto = np.flatnonzero(theirs.curves[other].steps <= 300_000)[-2:]
                old = theirs.of(other, env)[:, upto].mean(axis=1, keepdims=True)
                cells.append(lead(new, old))
            rows.append((env, label, *cells))
    return rows_of(("game", "α = 0.9, gap", "− DQN", "− M-VI", "− MVI(2) as tuned"), *rows)


def without_q_table(name):
    """Return by how much M-VI and Tsallis-VI are above DQN."""
    return difference_table("minatar", [(x, "DQN") for x in ("M-VI", "Tsallis-VI")], PLANNED)


def q_difference_table(name):
    """Return by how much each q is above q = 1, at the same temperature."""
    pairs = [
        (f"q={q}, τ={t}", f"q=1, τ={t}") for t in ("0.03", "0.1") for q in ("1.5", "2", "3", "inf")
    ]
    return difference_table("minatar-q-night", pairs, MEASURES)


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
    results = learnt(name)
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
    """Return the scores of the critics, what q = 2 gains, and what each gains.

    Critics are compared with the scalar one, additions to the implicit one with it.
    """
    comparison, gains = stored("critics"), [f"q = {q}, gain" for q in "12"]
    rows = [("environment", "critic", "q = 1", "q = 2", "q = 2 − q = 1", *gains)]
    scores = {(row.env, row.label): with_interval(row.number) for row in by_environment(comparison)}
    critics = dict.fromkeys(label.rpartition(" ")[0] for label in comparison.labels)
    for env in comparison.environments:
        ends = final_scores(comparison, env)
        for critic in critics:
            one, two = own = [f"{critic} q={q}" for q in "12"]
            less = "implicit" if critic.startswith("prioritised") else "scalar"
            over = [lead(ends[f"{critic} q={q}"], ends[f"{less} q={q}"]) for q in "12"]
            over = ["–", "–"] if critic == "scalar" else over
            cells = *(scores[env.env, label] for label in own), lead(ends[two], ends[one]), *over
            rows.append((env.env, critic, *cells))
    return rows_of(*rows)


def parts_table(name):
    """Return the scores with prioritised replay or longer returns, and minus those with neither."""
    parts, critics = (learnt(x) for x in (name, "critics"))
    (env,), both = parts.envs, "prioritised implicit q=1"
    finals = {label: parts.last(label, env) for label in parts.curves}
    finals["both"] = critics.last(both, env)
    rows = [("game", "what is added", "final score", "− without it")]
    for label, scores in finals.items():
        critic = "scalar" if "scalar" in label else "implicit"
        gain = lead(scores, critics.last(f"{critic} q=1", env))
        rows.append((env, label, final(scores, env), gain))
    return rows_of(*rows)


def noise_table(name):
    """Return what α, q and the errors change in the scores of agents that learn with errors."""
    noisy, clean = (learnt(x) for x in ("reward-noise", "minatar-q-night"))
    pairs = [(f"q={q}, α=0.9", f"q={q}, α=0") for q in "12"]
    pairs += [(f"q=2, α={alpha}", f"q=1, α={alpha}") for alpha in ("0", "0.9")]
    rows = []
    for env in noisy.envs:
        for new, old in pairs:
            rows.append((env, f"{new} − {old}", lead(noisy.last(new, env), noisy.last(old, env))))
        for q in "12":
            ends = noisy.last(f"q={q}, α=0.9", env), clean.last(f"q={q}, τ=0.03", env)
            rows.append((env, f"q={q}, α=0.9: with errors − without", lead(*ends)))
    return rows_of(("game", "difference", "final score"), *rows)


ARTEFACTS_OF = {"sweep-night": ("sweep",), "minatar": ("fig7", "fig5")}
TABLES = {
    "when-q-helps: temperatures": temperature_table,
    "when-q-helps: errors": error_table,
    "when-q-helps: forms": form_table,
    "when-q-helps: explicit": explicit_table,
    "cartpole-table1": paper_table,
    "general-cartpole": general_table,
    "general": general_table,
    "sweep-night": sweep_table,
    "minatar": scores_table,
    "minatar: runs": runs_table,
    "minatar: MVI(2)": comparison_table,
    "minatar: without q": without_q_table,
    "minatar: probabilities": probability_table,
    "minatar: at 300 000 steps": early_table,
    "minatar-q-night": q_table,
    "minatar-q-night: over q = 1": q_difference_table,
    "minatar-q-night: better temperatures": better_temperature_table,
    "minatar-q-night: MinAtar/Asterix-v1": softness_table,
    "minatar-log": control_table,
    "critics": critics_table,
    "critics-parts": parts_table,
    "reward-noise": scores_table,
    "reward-noise: differences": noise_table,
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


def write() -> None:
    """Write the tables in the documents anew."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        new = MARKED.sub(lambda found: found[1] + TABLES[found[2]](found[2]), text)
        document.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    wanted = set(sys.argv[1:])
    found = {name for name in TABLES if {name, name.partition(":")[0]} & wanted}
    if wanted and not found:
        sys.exit(f"there is no table {', '.join(wanted)}, there are {'; '.join(TABLES)}")
    for name in TABLES:
        if name in found:
            print(f"{name}\n\n{TABLES[name](name)}")
    if not wanted:
        write()
