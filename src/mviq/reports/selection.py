"""What the reader wants to see of a study: which runs, and against which baseline."""

from collections.abc import Sequence
from dataclasses import replace

from mviq.reports.reading import Run, StudyData
from mviq.studies.plan import is_like


def restricted(study: StudyData, only: Sequence[str], without: Sequence[str]) -> StudyData:
    """Return the runs whose label or environment is like one of ``only``, none of ``without``."""
    for pattern in (*only, *without):
        if not any(_is_like(run, pattern) for run in study.runs):
            names = ", ".join((*study.labels, *study.envs))
            raise ValueError(f"no label or environment is like {pattern!r}: there are {names}")
    wanted = [run for run in study.runs if not only or any(_is_like(run, one) for one in only)]
    kept = tuple(run for run in wanted if not any(_is_like(run, one) for one in without))
    if not kept:
        raise ValueError("no run is left: --without takes all that --only leaves")
    gone = set(study.labels) - {run.label for run in kept}
    return replace(study, runs=kept, baseline=None if study.baseline in gone else study.baseline)


def _is_like(run: Run, pattern: str) -> bool:
    """Return whether the label or environment is this name, or matches a pattern like MVI*."""
    return is_like((run.label, run.env), pattern)


def wishes(only: Sequence[str], without: Sequence[str]) -> list[str]:
    """Say what was left out by choice: the page must not look like that of all runs."""
    patterns = {"only": only, "without": without}
    return [f"by choice {word} {', '.join(names)}" for word, names in patterns.items() if names]


def baseline_of(study: StudyData, wanted: str | None, labels: Sequence[str]) -> str | None:
    """Return what others are compared with: what is wanted, the study's, DQN, the first."""
    chosen, origin = study.baseline, "the study file"
    if wanted is not None:
        alike = [label for label in study.labels if label.casefold() == wanted.casefold()]
        chosen, origin = alike[0] if len(alike) == 1 else wanted, "--baseline"
    if chosen is not None and chosen not in study.labels:
        names = ", ".join(study.labels)
        raise ValueError(f"baseline must be one of {names}, got {chosen!r} from {origin}")
    if chosen is not None or len(labels) < 2:
        return chosen
    plain = [run.label for run in study.runs if run.settings.get("algorithm") == "vi"]
    return next((label for label in plain if label in labels), labels[0])
