"""Expands a study into its runs, each with a label and a valid configuration.

The seed varies slowest, so that a study that is stopped in the middle has compared all its
algorithms on the seeds it got to.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from fnmatch import fnmatchcase
from itertools import product
from operator import itemgetter
from typing import Any

from mviq.runs.config import Config
from mviq.runs.directory import RunError
from mviq.runs.presets import COMMON, resolve
from mviq.studies.definition import Entry, Settings, Study
from mviq.studies.study_directory import Plan, PlannedRun

_PLACE = re.compile(r"\{(\w+)\}")


def expand(study: Study) -> Plan:
    """Return the plan of a study; raise ``ValueError`` for invalid or duplicate runs."""
    numbered = [pair for entry in study.entries for pair in _runs(study, entry)]
    runs = tuple(run for _, run in sorted(numbered, key=itemgetter(0)))
    _check_distinct(runs)
    labels = list(dict.fromkeys(run.label for run in runs))
    if study.baseline is not None and study.baseline not in labels:
        raise ValueError(f"baseline must be one of {', '.join(labels)}, got {study.baseline!r}")
    return Plan(study.name, study.description, study.baseline, runs, study.returns)


def matching_runs(plan: Plan, patterns: Collection[str]) -> list[PlannedRun]:
    """Return the runs that match any of the patterns; all runs if there is no pattern."""
    for pattern in patterns:
        if not any(_matches(run, pattern) for run in plan.runs):
            titles = ", ".join(repr(run.title) for run in plan.runs[:3])
            raise ValueError(f"no run is like {pattern!r}; there are {titles}, …")
    return [run for run in plan.runs if not patterns or any(_matches(run, p) for p in patterns)]


def is_like(names: Collection[str], pattern: str) -> bool:
    """Return whether a pattern such as ``MVI*`` equals or matches one of the names.

    >>> is_like(["MVI(2)", "CartPole-v1"], "MVI*"), is_like(["a[1]"], "a[1]"), is_like(["a"], "b*")
    (True, True, False)
    """
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)


def _matches(run: PlannedRun, pattern: str) -> bool:
    names = (run.label, run.env, str(run.seed), f"seed {run.seed}", run.title, run.run)
    return is_like(names, pattern)


def config_of(run: PlannedRun) -> Config:
    """Return the configuration of a run."""
    return resolve(run.env, seed=run.seed, **run.settings)


def check_runs(runs: Iterable[PlannedRun], here: bool = True) -> None:
    """Raise ``ValueError`` for a run that cannot be built; check its device only if ``here``."""
    from mviq.runs.building import check_config

    checked: set[tuple[Any, ...]] = set()
    for run in runs:
        config = config_of(run) if here else replace(config_of(run), device="cpu")
        places = (config.env, config.network, config.observation_bounds, config.device)
        places += tuple(getattr(config, f.name) for f in fields(config) if f.metadata["optional"])
        kind = (*places, config.n_steps, config.protocol, config.backend, config.track)
        if kind in checked:
            continue
        checked.add(kind)
        try:
            check_config(config)
        except (RunError, ValueError) as error:
            raise ValueError(f"the run {run.label!r} on {run.env} cannot be: {error}") from None


def _runs(study: Study, entry: Entry) -> Iterator[tuple[int, PlannedRun]]:
    """Yield the runs of an entry, each with the index of its seed."""
    own = entry.settings.get("seed")
    for i, seed in enumerate(study.seeds if own is None else (own,)):
        for env in _environments(study, entry):
            for chosen in combinations({**entry.grid, **study.grid}):
                settings = {**study.settings, **env, **entry.settings, **chosen, "seed": seed}
                yield i, _run(_label(entry, study.grid, chosen), settings)


def _environments(study: Study, entry: Entry) -> tuple[Settings, ...]:
    own = entry.settings.get("env")
    if own is None:
        return study.environments
    return tuple(env for env in study.environments if env["env"] == own) or ({"env": own},)


def combinations(grid: Mapping[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Return all combinations of some settings with several values."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _run(label: str, settings: dict[str, Any]) -> PlannedRun:
    env, seed = settings.pop("env"), settings.pop("seed")
    try:
        name = resolve(env, seed=seed, **settings).name
    except ValueError as error:
        raise ValueError(f"the run {label!r} on {env} cannot be: {error}") from None
    return PlannedRun(name, label, env, seed, settings)


def _check_distinct(runs: tuple[PlannedRun, ...]) -> None:
    by_name: dict[str, PlannedRun] = {}
    by_title: dict[str, PlannedRun] = {}
    for run in runs:
        twin = by_name.setdefault(run.run, run)
        if twin is not run:
            raise ValueError(f"{twin.title!r} and {run.title!r} are the same run: remove one")
        other = by_title.setdefault(run.title, run)
        if other is not run:
            raise ValueError(f"{run.title!r} names two different runs; give them different labels")


def _label(entry: Entry, grid: Mapping[str, tuple[Any, ...]], chosen: Settings) -> str:
    """Return the label of a run: ``{name}`` is replaced by its value, what varies is appended."""
    label = entry.label
    values = {**entry.settings, **chosen}
    if label is None:
        label = values.get("algorithm", COMMON["algorithm"].value)
        apart = {"env", "seed", "algorithm"}
        named = [name for name in values if name not in apart and name not in grid]
    else:
        named = [name for name in entry.grid if len(entry.grid[name]) > 1]
    named += [name for name in grid if len(grid[name]) > 1]
    shown = {name: format_value(value) for name, value in values.items()}
    inside = set(_PLACE.findall(label))
    for name in inside - shown.keys():
        raise ValueError(f"label {label!r} names {name!r}, which its entry does not set")
    label = _PLACE.sub(lambda place: shown[place[1]], label)
    return " ".join([label, *(f"{name}={shown[name]}" for name in named if name not in inside)])


def format_value(value: Any) -> str:
    """Format a value for a label or a table of settings.

    >>> [format_value(value) for value in (2.0, (32, 32), float("inf"), [], None)]
    ['2', '32,32', 'inf', 'none', 'none']
    """
    if isinstance(value, list | tuple):
        return ",".join(map(format_value, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
