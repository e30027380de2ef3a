"""Reads study files. A mistake is a ``ValueError`` of one line that names the key."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeVar

from mviq.messages import did_you_mean, error_line
from mviq.runs.config import fits
from mviq.runs.presets import check_names
from mviq.runs.settings import FIELDS, convert, load
from mviq.studies.definition import Budget, Entry, Settings, Study, returns_from
from mviq.studies.plan import expand

KEYS = (
    *("name", "description", "baseline", "environments", "algorithms", "seeds", "settings"),
    *("grid", "runs", "budget", "returns"),
)
MOST_RUNS = 100_000  # of a study: more is a typing error
T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def read_study(path: Path) -> Study:
    """Return the study of a YAML or TOML file; every run of it is valid."""
    return parse_file(path, _valid_study)


def parse_file(path: Path, parse: Callable[[Mapping[Any, Any]], T]) -> T:
    """Parse the content of a file; the message of a mistake starts with the file."""
    content = load(path)
    try:
        return parse({"name": path.stem, **content})
    except ValueError as error:
        raise ValueError(f"{path}: {error_line(error)}") from None


def name_from(content: Mapping[Any, Any]) -> str:
    """Return the name of the study or search that a mapping describes."""
    return _name(content["name"])


def _valid_study(content: Mapping[Any, Any]) -> Study:
    study = study_from(content)
    expand(study)  # here, so that error messages name the file
    return study


def study_from(content: Mapping[Any, Any]) -> Study:
    """Return the study that a mapping with the keys of a study file describes."""
    if "tune" in content:
        raise ValueError("it has a section tune: search with mviq study tune")
    check_keys("a study", content, KEYS)
    given = {key: value for key, value in content.items() if value is not None}
    explicit = bool(given.get("runs"))
    if explicit and (given.get("algorithms") or given.get("grid")):
        raise ValueError("runs must stand alone, without algorithms and grid")
    entries = tuple(map(_entry, *_numbered("runs" if explicit else "algorithms", given)))
    study = Study(
        name=_name(given.get("name")),
        description=_text("description", given.get("description", "")),
        baseline=_text("baseline", given["baseline"]) if "baseline" in given else None,
        environments=tuple(map(_environment, *_numbered("environments", given))),
        entries=entries or (Entry(None, {}, {}),),
        explicit=explicit,
        seeds=_seeds(given.get("seeds", 1)),
        settings=_settings("settings", given.get("settings", {})),
        grid=_grid(given.get("grid", {})),
        budget=_budget(given.get("budget", {})),
        returns=returns_from(given.get("returns", {})),
    )
    _check_together(study)
    return study


def _check_together(study: Study) -> None:
    _check_apart("settings", study.settings)
    for i, env in enumerate(study.environments):
        _check_apart(f"environments[{i}]", env.keys() - {"env"})
    places = (*study.environments, *(entry.settings for entry in study.entries))
    named_envs = [place["env"] for place in places if "env" in place]
    for name in study.returns.keys() - set(named_envs):
        raise ValueError(
            f"returns names {name!r}, which is not in the study{did_you_mean(name, named_envs)}"
        )
    if _count(study) > MOST_RUNS:
        raise ValueError(f"a study must have at most {MOST_RUNS:,} runs, got {_count(study):,}")
    named = all("env" in entry.settings for entry in study.entries)
    if not study.environments and not (study.explicit and named):
        raise ValueError("environments must list at least one, as CartPole-v1")
    for i, entry in enumerate(study.entries):
        place = f"{'runs' if study.explicit else 'algorithms'}[{i}]"
        for name in study.grid.keys() & (entry.settings.keys() | entry.grid.keys()):
            raise ValueError(f"{name} is set both in grid and in {place}: it can be in one only")
        if not study.explicit:
            _check_apart(place, entry.settings)


def _check_apart(place: str, settings: Collection[str]) -> None:
    """Refuse environment and seed where they would have no effect."""
    for name, where in {"env": "environments", "seed": "seeds"}.items():
        if name in settings:
            raise ValueError(f"{place} sets {name}, which belongs under {where}")


def _count(study: Study) -> int:
    """Return an upper bound of the number of runs; it is exact unless runs set their seed."""
    sizes = [prod(map(len, {**entry.grid, **study.grid}.values())) for entry in study.entries]
    return len(study.seeds) * max(1, len(study.environments)) * sum(sizes)


def _name(value: Any) -> str:
    text = _text("name", value)
    if not _NAME.fullmatch(text):
        raise ValueError(f"name must be letters, digits, '-', '_' and '.', got {text!r}")
    return text


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{key} must be text, got {value!r}")
    return value.strip()


def _numbered(key: str, content: Mapping[str, Any]) -> tuple[list[str], list[Any]]:
    """Return the names of the items of a list, for messages, and the items."""
    items = content.get(key, [])
    if not isinstance(items, list):
        raise ValueError(f"{key} must be a list, got {items!r}")
    return [f"{key}[{i}]" for i in range(len(items))], items


def _environment(place: str, value: Any) -> Settings:
    if isinstance(value, str):
        return {"env": value}
    settings = _settings(place, value)
    if "env" not in settings:
        raise ValueError(f"{place} must name its env, got {value!r}")
    return settings


def _entry(place: str, value: Any) -> Entry:
    if isinstance(value, str):
        value = {"algorithm": value}
    require_mapping(place, value)
    label = _text(f"{place}.label", value["label"]) if "label" in value else None
    if (label is not None and not label.isprintable()) or label == "":
        raise ValueError(f"{place}.label must be one line of text, got {label!r}")
    given = {name: item for name, item in value.items() if name != "label"}
    several = {name: item for name, item in given.items() if _is_several(name, item)}
    for name in {"env", "seed"} & several.keys():
        raise ValueError(f"{place}: {name} must be one, got {several[name]!r}")
    single = {name: item for name, item in given.items() if name not in several}
    grid = {name: _values(place, name, items) for name, items in several.items()}
    return Entry(label, _settings(place, single), grid)


def _is_several(name: Any, value: Any) -> bool:
    """Return whether a list is a grid of values, and not one value such as layer widths."""
    return isinstance(value, list) and not (
        name in FIELDS and fits(tuple(value), FIELDS[name].type)
    )


def _grid(value: Any) -> dict[str, tuple[Any, ...]]:
    require_mapping("grid", value)
    _check_apart("grid", value)
    return {name: _values("grid", name, items) for name, items in value.items()}


def _values(place: str, name: Any, items: Any) -> tuple[Any, ...]:
    if not isinstance(items, list) or not items:
        raise ValueError(f"{place}: {name} must be a list of values, got {items!r}")
    values = tuple(_settings(place, {name: item})[name] for item in items)
    if len(set(values)) < len(values):
        raise ValueError(f"{place}: {name} has a value twice, got {items!r}")
    return values


def _settings(place: str, value: Any) -> dict[str, Any]:
    require_mapping(place, value)
    try:
        check_names(value)
        return {name: convert(name, item) for name, item in value.items()}
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def _seeds(value: Any) -> tuple[int, ...]:
    if fits(value, int) and 1 <= value <= MOST_RUNS:
        return tuple(range(value))
    items = value if isinstance(value, list) else []
    good = all(fits(item, int) and item >= 0 for item in items)
    if not items or not good or len(set(items)) < len(items):
        wanted = f"a number of seeds up to {MOST_RUNS:,}, or a list of different seeds ≥ 0"
        raise ValueError(f"seeds must be {wanted}, got {value!r}")
    return tuple(items)


def _budget(value: Any) -> Budget:
    require_mapping("budget", value)
    check_keys("budget", value, ("steps", "hours"))
    kinds = {"steps": int, "hours": float}
    limits = {name: convert(f"budget.{name}", limit, kinds[name]) for name, limit in value.items()}
    for name, limit in limits.items():
        if not limit > 0:
            raise ValueError(f"budget.{name} must be above 0, got {limit!r}")
    return Budget(**limits)


def require_mapping(place: str, value: Any) -> None:
    """Raise ``ValueError`` if a value is not a mapping."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{place} must hold settings as 'name: value', got {value!r}")


def check_keys(what: str, given: Iterable[Any], known: Sequence[str]) -> None:
    """Raise ``ValueError`` for an unknown key, with the closest known one."""
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) or f", only {', '.join(known)}"
            raise ValueError(f"{what} has no key {key!r}{hint}")
