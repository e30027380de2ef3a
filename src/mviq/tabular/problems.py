"""Problems by name: a toy-text environment, a generator with its numbers, or a file."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mviq.tabular.generators import chain, deep_sea, garnet, grid_world, lock_in_chain
from mviq.tabular.gym import from_gym
from mviq.tabular.mdp import MDP
from mviq.tabular.mdp_files import load_mdp


class Generator(NamedTuple):
    """A function that makes MDPs, and one line about it."""

    make: Callable[..., MDP]
    summary: str

    @property
    def settings(self) -> dict[str, Any]:
        """The numbers it takes, with their defaults."""
        parameters = inspect.signature(self.make).parameters
        return {name: parameter.default for name, parameter in parameters.items()}


GENERATORS: Mapping[str, Generator] = {
    "garnet": Generator(garnet, "random MDP with a few successors per action"),
    "chain": Generator(chain, "walk left or right, only the right end pays"),
    "lock-in": Generator(lock_in_chain, "stay for 0.1, or walk to where 1 is paid"),
    "grid": Generator(grid_world, "slippery grid with random walls and one goal"),
    "deep-sea": Generator(deep_sea, "one way in 2^size leads to the treasure"),
}

TOY_TEXT: Mapping[str, str] = {
    "FrozenLake-v1": "4×4 slippery ice with holes; try :map_name=8x8,is_slippery=false",
    "CliffWalking-v1": "4×12 grid, the short way runs along a cliff",
    "Taxi-v4": "pick up a passenger and bring them to one of four places",
}
"""The environments of Gymnasium that are known to be tabular; others with a table work as well."""


def problem(text: str, discount: float | None = None) -> MDP:
    """Return the MDP that a text names, with another discount if one is given.

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
    if name in GENERATORS:
        return _generate(name, settings)
    if not name or name[0].islower():
        raise ValueError(
            f"no problem {name!r}: expected {', '.join([*TOY_TEXT, *GENERATORS])}, "
            "another Gymnasium name, or a .npz file"
        )
    if "environment" in settings:  # the name of the argument that is not an option
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
    known = GENERATORS[name].settings
    for setting, value in settings.items():
        if setting not in known:
            raise ValueError(f"{name} has no {setting!r}, it has {', '.join(known)}")
        if isinstance(value, str | bool):
            raise ValueError(f"{setting} of {name} must be a number, got {value!r}")
        if isinstance(known[setting], int) and not isinstance(value, int):
            raise ValueError(f"{setting} of {name} must be a whole number, got {value!r}")
        if setting == "seed" and value < 0:
            raise ValueError(f"seed of {name} must be ≥ 0, got {value!r}")
    return GENERATORS[name].make(**settings)
