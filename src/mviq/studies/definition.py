"""The content of a study file as dataclasses. Nothing here imports torch.

The settings of the study are overridden by those of the environment, these by those of the
algorithm, and these by the grid.
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
    """The settings of all its runs; in a list of runs also ``env`` and ``seed``."""
    grid: Mapping[str, tuple[Any, ...]]
    """Settings with several values."""


class LimitError(ValueError):
    """A study needs more than its budget or the machine allows."""


@dataclass(frozen=True)
class Budget:
    """Limits on the cost of a study; None is no limit."""

    steps: int | None = None
    hours: float | None = None


@dataclass(frozen=True, kw_only=True)
class Study:
    """The content of a study file."""

    name: str
    description: str = ""
    baseline: str | None = None
    environments: tuple[Settings, ...] = ()
    """Each with ``env`` and the settings of this environment."""
    entries: tuple[Entry, ...] = (Entry(None, {}, {}),)
    explicit: bool = False
    """Whether the entries are single runs instead of algorithms."""
    seeds: tuple[int, ...] = (0,)
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    budget: Budget = Budget()


def study_yaml(study: Study) -> str:
    """Return the study as a normalised study file."""
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
    """Return a value for YAML or JSON, which have no tuples."""
    return list(value) if isinstance(value, tuple) else value
