"""The search space: ranges and choices, checked against the fields of a configuration."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from mviq.runs.presets import check_names
from mviq.runs.settings import FIELDS, convert
from mviq.studies.definition import plain
from mviq.studies.plan import combinations
from mviq.studies.study_file import check_keys, require_mapping

FIXED = {
    "env": "it belongs under environments",
    "seed": "it belongs under seeds",
    **dict.fromkeys(
        ("total_steps", "eval_every", "eval_episodes", "log_every"),
        "all trials must be measured alike",
    ),
}
"""Settings that cannot be searched, and why."""
CORNERS = 4096  # of a space that are all validated before anything starts


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, both included."""

    low: float
    high: float
    log: bool
    whole: bool

    @property
    def corners(self) -> tuple[Any, ...]:
        """The bounds."""
        return (self.low, self.high)

    def written(self) -> dict[str, Any]:
        """Return the range as in a file."""
        return {"low": self.low, "high": self.high, **({"log": True} if self.log else {})}


@dataclass(frozen=True)
class Choices:
    """A list of values."""

    values: tuple[Any, ...]

    @property
    def corners(self) -> tuple[Any, ...]:
        """All values."""
        return self.values

    @property
    def texts(self) -> dict[str, Any]:
        """The values by their text for Optuna."""
        return {as_text(value): value for value in self.values}

    def written(self) -> dict[str, Any]:
        """Return the choices as in a file."""
        return {"choices": plain(self.values)}


def as_text(value: Any) -> str:
    """Return a value as JSON: Optuna can store text, but not layer widths."""
    return json.dumps(plain(value))


Parameter = Range | Choices
Space = Mapping[str, Parameter]


def space_from(content: Any) -> dict[str, Parameter]:
    """Return the space that the section ``tune.space`` of a file describes."""
    require_mapping("tune.space", content)
    if not content:
        raise ValueError("tune.space must name at least one setting to search")
    try:
        check_names(content)
    except ValueError as error:
        raise ValueError(f"tune.space: {error}") from None
    return {name: _parameter(name, value) for name, value in content.items()}


def _parameter(name: str, value: Any) -> Parameter:
    place = f"tune.space.{name}"
    why = FIXED.get(name)
    if why is None and not FIELDS[name].metadata["identity"]:
        why = "it does not change what is learnt"
    if why is not None:
        raise ValueError(f"{place} cannot be searched: {why}")
    require_mapping(place, value)
    check_keys(place, value, ("low", "high", "log", "choices"))
    if "choices" in value:
        return _choices(place, name, value)
    return _range(place, name, value)


def _choices(place: str, name: str, value: Mapping[str, Any]) -> Choices:
    items = value["choices"]
    if len(value) > 1:
        raise ValueError(f"{place} must have either choices or low and high, got {dict(value)!r}")
    if not isinstance(items, list) or len(items) < 2:
        raise ValueError(f"{place}.choices must be a list of at least two values, got {items!r}")
    values = tuple(_converted(place, name, item) for item in items)
    if len(set(values)) < len(values):
        raise ValueError(f"{place}.choices has a value twice, got {items!r}")
    return Choices(values)


def _range(place: str, name: str, value: Mapping[str, Any]) -> Range:
    kind = FIELDS[name].type
    number = kind if kind in (int, float) else next(iter(get_args(kind)), None)
    if number not in (int, float) or tuple in (kind, getattr(kind, "__origin__", None)):
        raise ValueError(f"{place} is no number: it must have choices")
    if not {"low", "high"} <= value.keys():
        raise ValueError(f"{place} must have low and high, or choices, got {dict(value)!r}")
    low, high = (_bound(f"{place}.{end}", name, value[end]) for end in ("low", "high"))
    log = value.get("log", False)
    if not isinstance(log, bool):
        raise ValueError(f"{place}.log must be true or false, got {log!r}")
    if not low < high:
        raise ValueError(f"{place}.low must be below high = {high:g}, got {low:g}")
    if log and not low > 0:
        raise ValueError(f"{place}.low must be above 0 for a logarithmic range, got {low:g}")
    return Range(low, high, log, whole=number is int)


def _bound(place: str, name: str, value: Any) -> float:
    bound = _converted(place, name, value)
    if not isinstance(bound, int | float) or not math.isfinite(bound):
        raise ValueError(f"{place} must be a finite number, got {value!r}")
    return bound if FIELDS[name].type is int else float(bound)


def _converted(place: str, name: str, value: Any) -> Any:
    try:
        return convert(name, value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None


def corners(space: Space) -> Iterator[dict[str, Any]]:
    """Yield the corners of a space.

    If there are more than ``CORNERS``, only those that differ from the first or the last corner in
    one value.
    """
    sides = {name: parameter.corners for name, parameter in space.items()}
    if math.prod(map(len, sides.values())) <= CORNERS:
        yield from grid(space)
        return
    for end in (0, -1):
        usual = {name: side[end] for name, side in sides.items()}
        for name, side in sides.items():
            yield from ({**usual, name: value} for value in side)


def grid(space: Space) -> list[dict[str, Any]]:
    """Return all combinations of the choices, or bounds, of a space."""
    return combinations({name: parameter.corners for name, parameter in space.items()})
