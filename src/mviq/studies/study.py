"""A study as data: what a study file says, checked and normalised. Nothing here loads torch.

Settings are looked up from the general to the particular: those of the study, of the environment,
of the algorithm, of the grid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """One algorithm of a study, or one item of its list of runs."""

    label: str | None
    settings: Settings
    """What is the same in all its runs; in a list of runs also ``env`` and ``seed``."""
    grid: Mapping[str, tuple[Any, ...]]
    """What takes several values."""


class LimitError(ValueError):
    """A study needs more than its budget, or than the machine has."""


@dataclass(frozen=True)
class Budget:
    """What a study may cost; None is no limit."""

    steps: int | None = None
    hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a study file says."""

    name: str
    description: str = ""
    baseline: str | None = None
    environments: tuple[Settings, ...] = ()
    """Each with ``env`` and what is set for this environment only."""
    entries: tuple[Entry, ...] = (Entry(None, {}, {}),)
    explicit: bool = False
    """Whether the entries are a list of runs, not algorithms."""
    seeds: tuple[int, ...] = (0,)
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    budget: Budget = Budget()


def as_yaml(study: Study) -> str:
    """Return the study file that describes the study, normalised."""
    import yaml

    return yaml.safe_dump(_content(study), sort_keys=False, allow_unicode=True, width=100)


def _content(study: Study) -> dict[str, Any]:
    key = "runs" if study.explicit else "algorithms"
    content: dict[str, Any] = {
        "name": study.name,
        "description": study.description,
        "baseline": study.baseline,
        "environments": [
            env["env"] if len(env) == 1 else _plain_settings(env) for env in study.environments
        ],
        key: [_plain_entry(entry) for entry in study.entries],
        "seeds": list(study.seeds),
        "settings": _plain_settings(study.settings),
        "grid": {name: [plain(value) for value in vs] for name, vs in study.grid.items()},
        "budget": {name: x for name, x in vars(study.budget).items() if x is not None},
    }
    return {name: value for name, value in content.items() if value not in ("", None, [], {})}


def _plain_entry(entry: Entry) -> dict[str, Any]:
    label = {} if entry.label is None else {"label": entry.label}
    grid = {name: [plain(value) for value in values] for name, values in entry.grid.items()}
    return {**label, **_plain_settings(entry.settings), **grid}


def _plain_settings(settings: Settings) -> dict[str, Any]:
    return {name: plain(value) for name, value in settings.items()}


def plain(value: Any) -> Any:
    """Return a value as a file holds it."""
    return list(value) if isinstance(value, tuple) else value
