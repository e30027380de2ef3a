"""Labels for runs without a study: algorithm, q, and the settings in which they differ."""

from collections.abc import Sequence

from mviq.runs.config import CRITICS
from mviq.runs.presets import defaults
from mviq.runs.settings import FIELDS
from mviq.studies.definition import Settings
from mviq.studies.plan import format_value

_NAMES = {
    "mvi": "MVI({q})",
    "tsallis-vi": "Tsallis-VI({q})",
    "m-vi": "M-DQN",
    "soft-vi": "soft DQN",
    "advantage-learning": "AL",
    "vi": "DQN",
}
_NAMED = {"env", "seed", "algorithm", "critic"}
_COMPARED = [n for n, field in FIELDS.items() if field.metadata["identity"] and n not in _NAMED]


def labels_of(runs: Sequence[Settings]) -> list[str]:
    """Return a label for each run; only runs that differ in environment or seed alone share one.

    >>> dqn = {"algorithm": "vi", "critic": "scalar", "env": "CartPole-v1", "q": float("inf")}
    >>> mvi = {**dqn, "algorithm": "mvi", "q": 2.0}
    >>> labels_of([dqn, {**mvi, "temperature": 0.1}, {**mvi, "temperature": 0.03}])
    ['DQN', 'MVI(2) temperature=0.1', 'MVI(2) temperature=0.03']
    """
    names = [_name(run) for run in runs]
    apart = {name: _differing([r for r, n in zip(runs, names, strict=True) if n == name])
             for name in names}  # fmt: skip
    return [
        " ".join([name, *(f"{field}={format_value(run.get(field))}" for field in apart[name])])
        for run, name in zip(runs, names, strict=True)
    ]


def _name(run: Settings) -> str:
    name = str(_NAMES.get(run["algorithm"], run["algorithm"]))
    critic = CRITICS.get(run.get("critic", ""))
    return (critic.prefix if critic else "") + name.replace("{q}", format_value(run.get("q")))


def _differing(runs: Sequence[Settings]) -> list[str]:
    """Return the settings that differ between runs in the same environment.

    Defaults that depend on ``total_steps`` are not listed: ``total_steps`` itself is.
    """
    groups: dict[str, list[dict[str, str]]] = {}
    for run in runs:
        groups.setdefault(run["env"], []).append(_chosen(run))
    return [
        field
        for field in _COMPARED
        if any(len({own.get(field) for own in group}) > 1 for group in groups.values())
    ]


def _chosen(run: Settings) -> dict[str, str]:
    """Return the settings that are not the defaults of a run of this length."""
    try:
        usual = defaults(run["env"], run["algorithm"], run["preset"], run["total_steps"])
    except (KeyError, TypeError, ValueError):  # a run of a version with other presets
        usual = {}
    given = {field: format_value(run.get(field)) for field in _COMPARED}
    same = {field for field in usual if given.get(field) == format_value(usual[field].value)}
    return {field: value for field, value in given.items() if field not in same}
