"""Settings, versions and hardware: common to all runs of a study, or different between them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Any

from mviq.progress import duration
from mviq.reports.reading import StudyData
from mviq.runs.settings import FIELDS
from mviq.studies.plan import format_value

_OF_THE_RUN = ("env", "seed", "given")
NOT_BEGUN = "not begun"


def settings_by_label(study: StudyData) -> dict[str, list[str]]:
    """Return each setting as one text per label, from the runs that have started, if any."""
    begun = [run for run in study.runs if run.status != "not begun"] or study.runs
    labels = [[run.settings for run in begun if run.label == label] for label in study.labels]
    names = [name for name in FIELDS if any(name in own for runs in labels for own in runs)]
    return {
        name: [
            _all(own[name] for own in runs if name in own) if runs else NOT_BEGUN for runs in labels
        ]
        for name in names
        if name not in _OF_THE_RUN
    }


def _all(values: Iterable[Any]) -> str:
    """Join the distinct values of a setting; there are several if it depends on the environment."""
    return " / ".join(dict.fromkeys(map(format_value, values))) or "–"


def systems(study: StudyData) -> dict[str, str]:
    """Return versions and hardware; if runs differ, each value with its number of runs."""
    flat = [_flat(run.system) for run in study.runs if run.system]
    names = dict.fromkeys(name for system in flat for name in system)
    return {name: _counted([system.get(name) for system in flat]) for name in names}


def hardware(study: StudyData) -> str:
    """Return a short description of the hardware; empty if no run recorded it."""
    found = systems(study)
    parts = {"cpu": "{}", "processor": "{}", "blas": "{}", "cores": "{} cores", "gpus": "GPU {}"}
    said = {name: found.get(name, "") for name in parts}
    known = {name: value for name, value in said.items() if value not in ("", "none", "None")}
    return ", ".join(parts[name].format(value) for name, value in known.items())


def run_times(study: StudyData) -> dict[str, str]:
    """Return the median training time of finished runs by label, for labels that have any."""
    runs = [run for run in study.runs if run.status == "finished"]
    times = {label: [run.seconds for run in runs if run.label == label] for label in study.labels}
    known = {label: [time for time in own if time is not None] for label, own in times.items()}
    return {label: duration(median(own)) for label, own in known.items() if own}


def _flat(system: Mapping[str, Any]) -> dict[str, Any]:
    versions = {name: number for name, number in system.get("versions", {}).items() if number}
    return {**versions, **{name: own for name, own in system.items() if name != "versions"}}


def _counted(values: list[Any]) -> str:
    counts = Counter(format_value(value) for value in values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({number} runs)" for value, number in counts.items())
