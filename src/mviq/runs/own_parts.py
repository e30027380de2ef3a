"""Users' own components of a run, such as wrappers and callbacks, given as import paths."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from mviq.agents import register
from mviq.envs.ids import import_for
from mviq.messages import did_you_mean
from mviq.runs.config import Config
from mviq.runs.snapshot import capture, check_attributes, prepare


class Kind(NamedTuple):
    """What a setting may name: a check, words for messages, and the arguments of its calls."""

    fits: Callable[[Any], bool]
    words: str
    arguments: tuple[str, ...]


def _subclass_of(base: type, *arguments: str) -> Kind:
    return Kind(
        lambda found: inspect.isclass(found) and issubclass(found, base),
        f"a subclass of {base.__module__.partition('.')[0]}'s {base.__name__}",
        arguments,
    )


_SCHEDULE = Kind(callable, "a function of the progress remaining, from 1 to 0", ("progress",))
KINDS = {
    "features_extractor": _subclass_of(BaseFeaturesExtractor, "observation_space"),
    "callbacks": _subclass_of(BaseCallback),
    "wrappers": _subclass_of(gym.Wrapper, "env"),
    "learning_rate_schedule": _SCHEDULE,
    "q_schedule": _SCHEDULE,
}
_OF_THE_RUN = {"model", "parent", "locals", "globals"}  # set by SB3, not a callback's state


def own(config: Config, setting: str) -> list[Any]:
    """Import the components that a setting names; raise ``ValueError`` if one is invalid."""
    given = getattr(config, setting)
    paths = given if isinstance(given, tuple) else () if given is None else (given,)
    return [_find(setting, path) for path in paths]


def check_own_parts(config: Config) -> None:
    """Import all components and register them for saved agents; raise ``ValueError`` if invalid."""
    for setting in KINDS:
        for part in own(config, setting):
            register(part)


def _find(setting: str, path: str) -> Any:
    module, _, name = path.partition(":")
    if not module or not name:
        raise ValueError(f"{setting} must be an import path as module:Name, got {path!r}")
    home = import_for(module, path)
    if not hasattr(home, name):
        raise ValueError(f"{setting}: {module} has no {name!r}{did_you_mean(name, dir(home))}")
    found, kind = getattr(home, name), KINDS[setting]
    if not kind.fits(found):
        raise ValueError(f"{setting} must name {kind.words}, {path!r} is {found!r:.60}")
    _check_call(found, kind.arguments, f"{setting}: {path!r}")
    return found


def _check_call(found: Any, arguments: tuple[str, ...], path: str) -> None:
    """Raise ``ValueError`` if a class is abstract, or cannot be called with these arguments."""
    if inspect.isabstract(found):
        raise ValueError(f"{path} is abstract: name a subclass of it")
    try:
        signature = inspect.signature(found)
    except ValueError:  # of some built-in functions
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        called = f"is called with {', '.join(arguments) or 'no arguments'}"
        raise ValueError(f"{path} {called}: {error}") from None


def callback_state(callbacks: list[Any]) -> tuple[Any, dict[str, Any]]:
    """Return the attributes of callbacks as a JSON tree and arrays."""
    return capture([_attributes(callback) for callback in callbacks], "callbacks")


def prepare_callbacks(
    callbacks: list[Any], tree: Any, arrays: dict[str, Any]
) -> Callable[[], None]:
    """Check a saved state, and return a function that loads it into the callbacks."""
    now = [_attributes(callback) for callback in callbacks]
    states, put_inside = prepare(now, tree, arrays, "callbacks")
    for callback, before, state in zip(callbacks, now, states, strict=True):
        check_attributes(type(callback), before, state)

    def put_in_place() -> None:
        put_inside()
        for callback, state in zip(callbacks, states, strict=True):
            vars(callback).update(state)

    return put_in_place


def _attributes(callback: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(callback).items() if name not in _OF_THE_RUN}
