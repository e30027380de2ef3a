"""The state of an object as data, and back into an object built the same way.

Environments have no common way to give their state, but they are made of Python objects. A
snapshot walks through them: numbers, text, containers and arrays are copied; random generators
and the Arcade Learning Environment give their own state; other Python objects are entered. What
is reached twice is stored once, so that shared things stay shared. Code, spaces and
specifications are taken to be the same in an object built the same way. Anything else, such as a
simulator in C++, cannot be captured, and ``CannotCapture`` says where it is.

The result is a tree for JSON and named arrays for safetensors: reading it runs no code.
"""

import enum
import functools
import math
import random
import types
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import VecEnvWrapper

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]

_CONSTANTS = (
    *(type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType),
    *(functools.partial, enum.Enum, np.dtype, np.ufunc, EnvSpec, range),
)
_NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)))
_NUMBERS += ("float16", "float32", "float64")
_SEQUENCES: dict[str, Any] = {kind.__name__: kind for kind in (list, tuple, set, deque)}
_MAPPINGS: dict[str, Any] = {kind.__name__: kind for kind in (dict, OrderedDict)}
_BIT_GENERATORS = {
    name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
}


class CannotCapture(Exception):  # noqa: N818 - a fact about an object, not a failure
    """An object holds something whose state cannot be read."""


def capture(value: Any, name: str) -> tuple[Any, Arrays]:
    """Return the state of a value as a JSON tree and arrays, whose names begin with ``name``."""
    writer = _Writer()
    tree = writer.describe(value, name)
    _refuse_overlaps(writer.sources)
    return tree, writer.arrays


class _Writer:
    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self.sources: Arrays = {}
        self.seen: dict[int, str] = {}
        self.alive: list[Any] = []  # an id belongs to one object only while that lives

    def describe(self, value: Any, path: str) -> Any:
        if isinstance(value, _CONSTANTS):
            return {"constant": type(value).__name__}
        if type(value) in (type(None), bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if id(value) in self.seen:
            return {"same": self.seen[id(value)]}
        self.seen[id(value)] = path
        self.alive.append(value)
        return {"kind": type(value).__name__, "path": path, "state": self._state(value, path)}

    def _state(self, value: Any, path: str) -> Any:
        if isinstance(value, np.ndarray | np.generic | torch.Tensor):
            return self._array(value, path)
        if type(value) is bytes:
            return value.hex()
        if type(value) in _SEQUENCES.values():
            items = [self.describe(item, f"{path}.{i}") for i, item in enumerate(value)]
            return [items, value.maxlen] if type(value) is deque else items
        if type(value) in _MAPPINGS.values():
            return self._pairs(value, path)
        if isinstance(value, spaces.Space):
            return [self.describe(x, f"{path}.{i}") for i, x in enumerate(_random_parts(value))]
        if _gives_its_own(value):
            return self.describe(_own_state(value), f"{path}.own")
        if not _is_python(value):
            raise CannotCapture(f"{path} is a {type(value).__name__}")
        return self._pairs(_attributes(value), path)

    def _array(self, value: Any, path: str) -> Any:
        """Keep a copy of an array; return None, or what it is if safetensors does not know it."""
        array = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
        if array.dtype.hasobject or array.dtype.names:
            raise CannotCapture(f"{path} is an array of {array.dtype}")
        if isinstance(value, np.ndarray):
            self.sources[path] = array
        if array.dtype.name in _NUMBERS and array.dtype.isnative:
            self.arrays[path] = np.array(array, copy=True, order="C")
            return None
        self.arrays[path] = np.frombuffer(array.tobytes(), np.uint8)
        return [array.dtype.str, list(array.shape)]

    def _pairs(self, value: dict[Any, Any], path: str) -> Any:
        if not all(key is None or type(key) in (str, int) for key in value):
            raise CannotCapture(f"{path} has keys that are neither names nor numbers")
        return [[key, self.describe(item, f"{path}.{key}")] for key, item in value.items()]


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object; a wrapper of SB3's also lists those of its class."""
    listed = {"class_attributes"} if isinstance(value, VecEnvWrapper) else set()
    return {name: item for name, item in vars(value).items() if name not in listed}


def _is_python(value: Any) -> bool:
    """Return whether an object's attributes are all there is to it."""
    kind = type(value)
    new: Any = kind.__new__
    made_by_python = new is object.__new__ or isinstance(new, types.FunctionType)
    slots = any(vars(parent).get("__slots__") for parent in kind.__mro__)
    return made_by_python and not slots and hasattr(value, "__dict__")


def _random_parts(space: spaces.Space[Any]) -> list[Any]:
    """Return what can change in a space: its random generator, and its parts."""
    parts = getattr(space, "spaces", ())
    return [space._np_random, *(parts.values() if isinstance(parts, dict) else parts)]


def _gives_its_own(value: Any) -> bool:
    generators = (np.random.Generator, np.random.RandomState, random.Random)
    return isinstance(value, generators) or type(value).__name__ == "ALEInterface"


def _own_state(value: Any) -> Any:
    """Return the state of an object that is not made of Python attributes."""
    if isinstance(value, np.random.Generator):
        return value.bit_generator.state
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    if isinstance(value, random.Random):
        return value.getstate()
    if value.getFloat("repeat_action_probability") > 0:
        raise CannotCapture("the emulator repeats actions by itself, and hides which comes next")
    return value.cloneState(include_rng=True).serialize()


def _put_own_state(value: Any, state: Any) -> None:
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = state
    elif isinstance(value, np.random.RandomState):
        value.set_state(state)
    elif isinstance(value, random.Random):
        value.setstate(state)
    else:
        from ale_py import ALEState

        value.restoreState(ALEState(state))


def _refuse_overlaps(sources: Arrays) -> None:
    """Refuse arrays that are views of one another: restored, they would be so no more."""
    items = list(sources.items())
    for i, (path, array) in enumerate(items):
        for other_path, other in items[:i]:
            if np.may_share_memory(array, other):
                raise CannotCapture(f"{path} and {other_path} share memory")


def restore(target: Any, tree: Any, arrays: Arrays) -> Any:
    """Return the value of a tree; an object is not made but changed, so it must be built already.

    ``target`` is the object built the same way as the one captured, or None for plain data.
    """
    return _Reader(arrays).read(tree, target)


class _Reader:
    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays
        self.made: dict[str, Any] = {}
        self.changed: dict[int, str] = {}

    def read(self, tree: Any, current: Any) -> Any:
        if not isinstance(tree, dict):
            return tree
        if "constant" in tree:
            return current
        if "float" in tree:
            return float(tree["float"])
        if "same" in tree:
            return self.made[tree["same"]]
        path = tree["path"]
        self.made[path] = self._value(tree["kind"], path, tree["state"], current)
        return self.made[path]

    def _value(self, kind: str, path: str, state: Any, current: Any) -> Any:
        if path in self.arrays:
            array = self.arrays[path].copy()
            if state is not None:
                dtype, shape = state
                array = array.view(dtype).reshape(shape)
            if kind == "Tensor":
                return torch.from_numpy(array)
            return array if kind == "ndarray" else array[()]
        if kind == "bytes":
            return bytes.fromhex(state)
        if kind in _SEQUENCES:
            return self._sequence(kind, state, current)
        if kind in _MAPPINGS:
            now = current if isinstance(current, dict) else {}
            return _MAPPINGS[kind]((key, self.read(item, now.get(key))) for key, item in state)
        return self._object(kind, path, state, current)

    def _sequence(self, kind: str, state: Any, current: Any) -> Any:
        items, length = state if kind == "deque" else (state, None)
        now = list(current) if isinstance(current, _SEQUENCES[kind]) else []
        now += [None] * (len(items) - len(now))
        values = [self.read(item, before) for item, before in zip(items, now, strict=False)]
        return deque(values, length) if kind == "deque" else _SEQUENCES[kind](values)

    def _object(self, kind: str, path: str, state: Any, current: Any) -> Any:
        if kind == "Generator" and current is None:
            current = _generator(state)  # a space makes its own when it first needs it
        if type(current).__name__ != kind:
            raise ValueError(f"{path} is a {type(current).__name__} here, but was a {kind}")
        if self.changed.setdefault(id(current), path) != path:
            raise ValueError(f"{path} and {self.changed[id(current)]} are one here, but were two")
        self.made[path] = current
        if isinstance(current, spaces.Space):
            parts = _random_parts(current)
            current._np_random, *_ = map(self.read, state, parts)
        elif _gives_its_own(current):
            _put_own_state(current, self.read(state, None))
        else:
            now = vars(current)
            now.update({key: self.read(item, now.get(key)) for key, item in state})
        return current


def _generator(state: Any) -> np.random.Generator:
    name = dict(state["state"])["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise ValueError(f"the random generator {name!r} is not known here")
    return np.random.Generator(_BIT_GENERATORS[name]())
