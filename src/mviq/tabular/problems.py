"""Problems by name: a toy-text environment, a generator with its settings, or a file."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from mviq.choices import GENERATORS, TOY_TEXT
from mviq.tabular.generators import chain, deep_sea, garnet, grid_world, lock_in_chain
from mviq.tabular.gym import from_gym
from mviq.tabular.mdp import MDP
from mviq.tabular.mdp_files import load_mdp

MAKERS: Mapping[str, Callable[..., MDP]] = {
    "garnet": garnet,
    "chain": chain,
    "lock-in": lock_in_chain,
    "grid": grid_world,
    "deep-sea": deep_sea,
}
"""The generator functions, by their names in ``choices``."""


def problem(text: str, discount: float | None = None) -> MDP:
    """Return the MDP that ``text`` describes, with another discount if one is given.

    >>> problem("garnet:states=1000,actions=2,seed=1")
    MDP(name='garnet(1000×2)', states=1000, actions=2, transitions=10000, discount=0.9)
    >>> problem("FrozenLake-v1:is_slippery=false", discount=0.5).discount
    0.5
    """
    if Path(text).suffix == ".npz":
        return _from_file(Path(text), discount)
    name, _, rest = text.partition(":")
    settings = _settings(text, rest)
    if discount is not None:
        settings["discount"] = discount
    if name in MAKERS:
        return _generate(name, settings)
    if not name or name[0].islower():
        raise ValueError(
            f"no problem {name!r}: expected {', '.join([*TOY_TEXT, *GENERATORS])}, "
            "another Gymnasium name, or a .npz file"
        )
    if "environment" in settings:  # a parameter of from_gym, not of the environment
        raise ValueError(f"{name} has no setting 'environment'")
    return from_gym(name, **settings)


def _from_file(path: Path, discount: float | None) -> MDP:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    mdp = load_mdp(path)
    return mdp if discount is None else replace(mdp, discount=discount)


def _settings(text: str, rest: str) -> dict[str, Any]:
    settings = {}
    for item in filter(None, rest.split(",")):
        name, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"expected name=value after the colon of {text!r}, got {item!r}")
        settings[name.strip()] = _parse(value.strip())
    return settings


def _parse(value: str) -> Any:
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value


def _generate(name: str, settings: dict[str, Any]) -> MDP:
    parameters = inspect.signature(MAKERS[name]).parameters
    known = {setting: parameter.default for setting, parameter in parameters.items()}
    for setting, value in settings.items():
        if setting not in known:
            raise ValueError(f"{name} has no {setting!r}, it has {', '.join(known)}")
        if isinstance(value, str | bool):
            raise ValueError(f"{setting} of {name} must be a number, got {value!r}")
        if isinstance(known[setting], int) and not isinstance(value, int):
            raise ValueError(f"{setting} of {name} must be a whole number, got {value!r}")
        if setting == "seed" and value < 0:
            raise ValueError(f"seed of {name} must be ≥ 0, got {value!r}")
    return MAKERS[name](**settings)
