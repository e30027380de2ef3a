"""The content of a study file as dataclasses. Nothing here imports torch.

The settings of the study are overridden by those of the environment, these by those of the
algorithm, and these by the grid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mviq.runs.settings import convert

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
    returns: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and highest possible return of environments that are not known to mviq."""


def returns_from(content: Any) -> dict[str, Any]:
    """Return the bounds of returns by environment; raise ``ValueError`` for anything else."""
    if not isinstance(content, Mapping):
        raise ValueError(f"returns must be as 'CartPole-v1: [0, 500]', got {content!r}")
    found = {}
    for env, ends in content.items():
        pair = ends if isinstance(ends, list | tuple) else ()
        found[str(env)] = tuple(convert(f"returns: {env}", end, float) for end in pair)
        if len(pair) != 2 or not found[str(env)][0] < found[str(env)][1]:
            raise ValueError(f"returns: {env} must be [lowest, highest], got {ends!r}")
    return found


def study_yaml(study: Study) -> str:
    """Return the study as a normalised study file."""
    import yaml

    labels = [{} if entry.label is None else {"label": entry.label} for entry in study.entries]
    content = {
        "name": study.name,
        "description": study.description,
        "baseline": study.baseline,
        "environments": [env["env"] if len(env) == 1 else env for env in study.environments],
        "runs" if study.explicit else "algorithms": [
            {**label, **entry.settings, **entry.grid}
            for label, entry in zip(labels, study.entries, strict=True)
        ],
        "seeds": study.seeds,
        "settings": study.settings,
        "grid": study.grid,
        "returns": study.returns,
        "budget": {name: x for name, x in vars(study.budget).items() if x is not None},
    }
    given = {name: plain(value) for name, value in content.items() if value not in ("", None)}
    given = {name: value for name, value in given.items() if value not in ([], {})}
    return yaml.safe_dump(given, sort_keys=False, allow_unicode=True, width=100)


def plain(value: Any) -> Any:
    """Return a value for YAML or JSON, which have no tuples."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value
