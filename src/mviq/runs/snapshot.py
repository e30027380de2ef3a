"""The state of an object as data, and back into an object built the same way.

Environments have no common way to give their state, but they are made of Python objects. A
snapshot extends the codec of plain data to them: random generators and the Arcade Learning
Environment give their own state, of a space the random generator is stored, and of other Python
objects the attributes. What is reached twice is stored once, so that shared things stay shared.
Code and specifications are taken to be the same in an object built the same way. Anything else,
such as a simulator in C++, cannot be captured, and ``CannotEncode`` says where it is.
"""

import enum
import functools
import random
import types
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import VecEnvWrapper

from mviq.agents.codec import Arrays, CannotEncode, Decoder, Encoder

_CONSTANTS = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
    *(functools.partial, enum.Enum, np.dtype, np.ufunc, EnvSpec, range),
)
_SCALARS = (type(None), bool, int, float, str)


def capture(value: Any, name: str) -> tuple[Any, Arrays]:
    """Return the state of a value as a JSON tree and arrays, whose names begin with ``name``."""
    writer = _Writer()
    tree = writer.encode(value, name)
    _refuse_overlaps(writer.values)
    return tree, writer.arrays


def restore(target: Any, tree: Any, arrays: Arrays, name: str) -> Any:
    """Return the value captured with a name; an object is not made but changed.

    ``target`` is an object built the same way as the one captured, or None for plain data.
    """
    return _Reader(arrays).decode(tree, name, target)


class _Writer(Encoder):
    def __init__(self) -> None:
        super().__init__()
        self.paths: dict[int, str] = {}
        self.values: dict[str, Any] = {}  # kept, as an id belongs to one object while that lives

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

    def decode(self, tree: Any, path: str, current: Any = None) -> Any:
        if isinstance(tree, dict) and "constant" in tree:
            return current
        if isinstance(tree, dict) and "same" in tree:
            return self.made[tree["same"]]
        self.made[path] = self.make(tree, path, current)
        return self.made[path]

    def tagged(self, tag: str, content: Any, path: str, current: Any) -> Any:
        if tag != "object":
            return super().tagged(tag, content, path, current)
        kind, state = content
        if kind == "Generator" and current is None:
            current = np.random.default_rng()  # a space makes its own when it first needs it
        if type(current).__name__ != kind:
            raise ValueError(f"{path} is a {type(current).__name__} here, but was a {kind}")
        if self.changed.setdefault(id(current), path) != path:
            raise ValueError(f"{path} and {self.changed[id(current)]} are one here, but were two")
        self.made[path] = current
        _set_state(current, self.make(state, path, _state(current)))
        return current


def _state(value: Any) -> Any:
    """Return what can change in an object, as far as it is not inside another."""
    if isinstance(value, spaces.Space):
        parts = getattr(value, "spaces", ())
        return [value._np_random, *(parts.values() if isinstance(parts, dict) else parts)]
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, random.Random):
        return value.getstate()
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
    elif not _gives_its_own(value):
        vars(value).update(state)
    else:
        from ale_py import ALEState

        value.restoreState(ALEState(state))


def _gives_its_own(value: Any) -> bool:
    generators = (np.random.Generator, np.random.RandomState, random.Random)
    return isinstance(value, generators) or type(value).__name__ == "ALEInterface"


def _is_python(value: Any) -> bool:
    """Return whether an object's attributes are all there is to it."""
    kind = type(value)
    new: Any = kind.__new__
    made_by_python = new is object.__new__ or isinstance(new, types.FunctionType)
    slots = any(vars(parent).get("__slots__") for parent in kind.__mro__)
    return made_by_python and not slots and hasattr(value, "__dict__")


def _refuse_overlaps(values: dict[str, Any]) -> None:
    """Refuse arrays that are views of one another: restored, they would be so no more."""
    arrays = [(path, value) for path, value in values.items() if isinstance(value, np.ndarray)]
    for i, (path, array) in enumerate(arrays):
        for other_path, other in arrays[:i]:
            if np.may_share_memory(array, other):
                raise CannotEncode(f"{path} and {other_path} share memory")
