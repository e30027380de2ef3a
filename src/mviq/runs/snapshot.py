"""Captures the state of an object as data, and restores it in an object built the same way.

Gymnasium has no common method to read the state of an environment, but most are Python objects. A
snapshot extends the codec of plain data to them: it stores the states that random generators and
the Arcade Learning Environment return, the random generators of spaces, and the attributes of other
Python objects. An object that is referenced twice is stored once, so that it stays shared. Classes,
functions and specifications are not stored: an object built the same way has the same ones.
Anything else, such as a simulator in C++, cannot be captured, and ``CannotEncode`` says where it
is; such an environment repeats its episode instead (``RepeatingEpisodes``).
"""

import enum
import functools
import random
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import VecEnvWrapper

from mviq.agents.codec import Arrays, CannotEncode, Decoder, Encoder
from mviq.messages import one_line
from mviq.runs.repeating import RepeatingEpisodes

_CONSTANTS = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
    *(functools.partial, enum.Enum, np.dtype, np.ufunc, EnvSpec, range),
)
_SCALARS = (type(None), bool, int, float, str)
_PLAIN = (*_SCALARS, list, tuple, dict, set, deque, bytes, np.ndarray, np.generic, torch.Tensor)
_LIBRARIES = ("stable_baselines3.", "gymnasium.", "mviq.")


def capture(value: Any, name: str) -> tuple[Any, Arrays]:
    """Return the state of a value as a JSON tree and arrays, whose names begin with ``name``."""
    writer = _Writer()
    tree = writer.encode(value, name)
    _refuse_overlaps(writer.values)
    return tree, writer.arrays


def restore(target: Any, tree: Any, arrays: Arrays, name: str) -> Any:
    """Return the value captured under a name; objects are updated in place, not created.

    ``target`` is an object built the same way as the one captured, or None for plain data.
    """
    value, put_in_place = prepare(target, tree, arrays, name)
    put_in_place()
    return value


def prepare(target: Any, tree: Any, arrays: Arrays, name: str) -> tuple[Any, Callable[[], None]]:
    """Check a captured value; return it, and a function that updates the objects in it."""
    reader = _Reader(arrays)
    value = reader.decode(tree, name, target)

    def put_in_place() -> None:
        for part, state in reader.states:
            _set_state(part, state)

    return value, put_in_place


class _Writer(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[int, str] = {}
        self.values: dict[str, Any] = {}  # keeps the objects alive, so that ids stay unique

    def encode(self, value: Any, path: str) -> Any:
        if isinstance(value, _CONSTANTS):
            return {"constant": type(value).__name__}
        if type(value) in _SCALARS:
            return self.describe(value, path)
        if id(value) in self.paths:
            return {"same": self.paths[id(value)]}
        if path in self.values:
            raise CannotEncode(f"{path} is the name of two values")
        self.paths[id(value)], self.values[path] = path, value
        if isinstance(value, spaces.Space):
            return self.other(value, path)
        return self.describe(value, path)

    def other(self, value: Any, path: str) -> Any:
        if not (isinstance(value, spaces.Space) or _gives_its_own(value) or _is_python(value)):
            raise CannotEncode(f"{path} is a {type(value).__name__}")
        return {"object": [type(value).__name__, self.describe(_state(value), path)]}


class _Reader(Decoder):
    def __init__(self, arrays: Arrays) -> None:
        super().__init__(arrays)
        self.made: dict[str, Any] = {}
        self.changed: dict[int, str] = {}
        self.states: list[tuple[Any, Any]] = []

    def decode(self, tree: Any, path: str, current: Any = None) -> Any:
        tag = next(iter(tree), None) if isinstance(tree, dict) else None
        if tag == "constant":
            return current
        if tag == "same":
            return self.made[tree[tag]]
        if tree is not None and tag != "object" and not _is_plain(current):
            raise ValueError(f"{path} is a {type(current).__name__} here, but was {tree!r:.40}")
        self.made[path] = self.make(tree, path, current)
        return self.made[path]

    def tagged(self, tag: str, content: Any, path: str, current: Any) -> Any:
        if tag != "object":
            return super().tagged(tag, content, path, current)
        kind, state = content
        if kind == "Generator" and current is None:
            current = np.random.default_rng()  # a space creates its own on first use
        if type(current).__name__ != kind:
            raise ValueError(f"{path} is a {type(current).__name__} here, but was a {kind}")
        if self.changed.setdefault(id(current), path) != path:
            raise ValueError(f"{path} and {self.changed[id(current)]} are one here, but were two")
        self.made[path] = current
        given = self.make(state, path, _state(current))
        try:
            check_state(current, given)
        except Exception as error:  # generators and emulators raise many kinds of errors
            raise ValueError(f"{path} is not the state of a {kind}: {one_line(error)}") from error
        self.states.append((current, given))
        return current


def check_state(value: Any, state: Any) -> None:
    """Raise if a state is not valid for an object; the object is not changed."""
    if isinstance(value, spaces.Space):
        good = isinstance(state, list) and len(state) == len(_state(value))
        if not good or not isinstance(state[0], np.random.Generator | None):
            raise ValueError(f"it must be a generator and parts, got {state!r:.40}")
    elif isinstance(value, RepeatingEpisodes):
        pass  # only repeating the episode can tell
    elif _gives_its_own(value):
        _rehearse(value, state)
    else:
        check_attributes(type(value), _state(value), state)


def _rehearse(value: Any, state: Any) -> None:
    scratch, before = value, None
    if isinstance(value, np.random.Generator):
        scratch = np.random.Generator(type(value.bit_generator)())
    elif isinstance(value, np.random.RandomState | random.Random):
        scratch = type(value)()
    else:  # an emulator is expensive to create: reuse it, then restore it
        before = _state(value)
    try:
        _set_state(scratch, state)
        same = _comparable(_state(scratch)) == _comparable(state)
    finally:
        if before is not None:
            _set_state(value, before)
    if not same:
        raise ValueError("it is taken for another one")


def _comparable(state: Any) -> Any:
    tree, arrays = capture(state, "state")
    return tree, {name: (x.dtype, x.shape, x.tobytes()) for name, x in arrays.items()}


def check_attributes(kind: type, now: dict[str, Any], state: Any) -> None:
    """Raise ``ValueError`` for missing attributes, names of methods or wrong container types."""
    for name in now.keys() - state.keys():
        raise ValueError(f"{name} is missing")
    for name, item in state.items():
        own = getattr(kind, name, None)
        if name not in now and (callable(own) or isinstance(own, property)):
            raise ValueError(f"{name} is not an attribute")
        container = isinstance(now.get(name), list | dict | deque)
        if (
            container
            and kind.__module__.startswith(_LIBRARIES)
            and type(item) is not type(now[name])
        ):
            raise ValueError(f"{name} must be a {type(now[name]).__name__}, got {item!r:.40}")


def _state(value: Any) -> Any:
    """Return the mutable state of an object; objects inside it are captured by themselves."""
    if isinstance(value, spaces.Space):
        parts = getattr(value, "spaces", ())
        return [value._np_random, *(parts.values() if isinstance(parts, dict) else parts)]
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, RepeatingEpisodes):
        return value.get_state()
    if not _gives_its_own(value):
        listed = {"class_attributes"} if isinstance(value, VecEnvWrapper) else set()
        return {name: item for name, item in vars(value).items() if name not in listed}
    if value.getFloat("repeat_action_probability") > 0:
        raise CannotEncode("the emulator repeats actions by itself, and hides which comes next")
    return value.cloneState(include_rng=True).serialize()


def _set_state(value: Any, state: Any) -> None:
    if isinstance(value, spaces.Space):
        value._np_random = state[0]
    elif isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    elif isinstance(value, np.random.RandomState):
        value.set_state(state)
    elif isinstance(value, random.Random):
        value.setstate(state)
    elif isinstance(value, RepeatingEpisodes):
        value.set_state(state)
    elif not _gives_its_own(value):
        vars(value).update(state)
    else:
        from ale_py import ALEState

        value.restoreState(ALEState(state))


def _gives_its_own(value: Any) -> bool:
    own = (np.random.Generator, np.random.RandomState, random.Random, RepeatingEpisodes)
    return isinstance(value, own) or type(value).__name__ == "ALEInterface"


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) and not isinstance(value, _CONSTANTS)


def _is_python(value: Any) -> bool:
    """Return whether the attributes of an object are its whole state."""
    kind = type(value)
    new: Any = kind.__new__
    made_by_python = new is object.__new__ or isinstance(new, types.FunctionType)
    slots = any(vars(parent).get("__slots__") for parent in kind.__mro__)
    return made_by_python and not slots and hasattr(value, "__dict__")


def _refuse_overlaps(values: dict[str, Any]) -> None:
    """Raise ``CannotEncode`` for arrays that share memory: restored ones would not."""
    arrays = [(path, value) for path, value in values.items() if isinstance(value, np.ndarray)]
    for i, (path, array) in enumerate(arrays):
        for other_path, other in arrays[:i]:
            if np.may_share_memory(array, other):
                raise CannotEncode(f"{path} and {other_path} share memory")
