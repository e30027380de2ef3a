"""The results of a search: a table of trials, figures, and a study that confirms the best one."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from mviq.drawing.panels import csv_bytes
from mviq.drawing.style import pictures
from mviq.reports.numbers import shown, with_interval
from mviq.reports.statistics import Interval, interval, mean
from mviq.reports.tuning_drawing import importance_figure, slices, surface
from mviq.reports.tuning_scores import unit_of
from mviq.studies.definition import Budget, study_yaml
from mviq.studies.plan import expand, format_value
from mviq.studies.tuning.results import SearchOutcome, TrialResult

BEST = "best.yaml"
CONFIRMING = 5  # minimum number of fresh seeds
UNTUNED = "untuned"


def tuning_files(outcome: SearchOutcome) -> dict[str, bytes]:
    """Return the files of a search by name; the same trials give the same bytes."""
    contents = {"tuning.csv": trials_csv(outcome)}
    if not outcome.ranked:
        return contents
    contents[BEST] = confirmation(outcome).encode()
    unit = unit_of(outcome.search)
    figures = {
        "slices": slices(outcome, unit),
        "surface": surface(outcome, unit),
        "importances": importance_figure(outcome),
    }
    for name, figure in figures.items():
        if figure is not None:
            contents |= pictures(name, figure)
    return contents


def trials_csv(outcome: SearchOutcome) -> bytes:
    """Return all trials as CSV, in their order."""
    study = outcome.search.study
    places = [(seed, str(env["env"])) for seed in study.seeds for env in study.environments]
    several = len(study.environments) > 1
    runs = [f"{env} seed {seed}" if several else f"seed {seed}" for seed, env in places]
    rows = []
    for trial in outcome.trials:
        numbers = trial.score, *trial.chosen.values(), *(trial.scores[place] for place in places)
        rows.append((str(trial.number), trial.state, *map(_exact, numbers), trial.reason))
    return csv_bytes(("trial", "state", "score", *outcome.search.space, *runs, "reason"), rows)


def _exact(value: object) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else format_value(value)


def ranking(outcome: SearchOutcome, count: int) -> tuple[list[str], list[list[str]]]:
    """Return the titles and rows of a table of the best trials."""
    titles = ["trial", unit_of(outcome.search), *outcome.search.space]
    rows = [
        [
            str(trial.number),
            with_interval(_interval(outcome, trial)),
            *map(format_value, trial.chosen.values()),
        ]
        for trial in outcome.ranked[:count]
    ]
    return titles, rows


def _interval(outcome: SearchOutcome, trial: TrialResult) -> Interval:
    study = outcome.search.study
    envs = [str(env["env"]) for env in study.environments]
    scores = [[trial.scores[seed, env] for env in envs] for seed in study.seeds]
    return interval(mean, np.array(scores, dtype=float))


def sentences(outcome: SearchOutcome, place: Path) -> list[str]:
    """Return sentences that summarise a search whose files are in ``place``."""
    count = Counter(trial.state for trial in outcome.trials)
    said = [", ".join(f"{number} {state}" for state, number in count.items()) or "no trial yet"]
    said += [
        f"trial {trial.number}: {trial.state}, {trial.reason}"
        for trial in outcome.trials
        if trial.state in ("failed", "diverged")
    ]
    if outcome.ranked:
        best = outcome.ranked[0]
        said.append(
            f"Trial {best.number} is the best with {shown(best.score or 0.0)}. The best of a "
            "search is partly lucky: its score and interval are optimistic."
        )
        said.append(f"Confirm it with fresh seeds: mviq study run {place / BEST}")
    return said


def confirmation(outcome: SearchOutcome) -> str:
    """Return a study file that compares the best trial with untuned settings on fresh seeds."""
    search, best = outcome.search, outcome.ranked[0]
    first, count = max(search.study.seeds) + 1, max(len(search.study.seeds), CONFIRMING)
    tuned, plain = (search.with_values(*it) for it in (("best", best.chosen), (UNTUNED, {})))
    differ = [run.run for run in expand(tuned).runs] != [run.run for run in expand(plain).runs]
    study = replace(
        tuned,
        name=f"{search.study.name}-best",
        description=f"Trial {best.number} of {search.study.name}, with seeds it has not seen",
        baseline=UNTUNED if differ else None,
        entries=tuned.entries + plain.entries * differ,
        seeds=tuple(range(first, first + count)),
        budget=Budget(),
    )
    return study_yaml(study)
