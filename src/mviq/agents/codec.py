"""Encode values as a JSON tree and named arrays, and decode them without running code.

None, booleans, integers, finite floats, strings and lists are stored as plain JSON. Any other
value is a JSON object with one key, its tag, such as ``{"tuple": [1, 2]}``. The elements of an
array are stored outside the tree, in a safetensors file, under the path of the array. A class is
stored by its name, and must have been registered with ``register``. Other values cannot be saved.
"""

import inspect
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common import torch_layers
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule
from stable_baselines3.her.goal_selection_strategy import GoalSelectionStrategy
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

Arrays = dict[str, np.ndarray[Any, Any]]
Known = TypeVar("Known", bound=Callable[..., Any])

MOST_BITS = 1000  # of an integer, so that it can be converted to a float
LARGEST = 2**23  # elements of an observation; a colour image of 1080 lines has fewer
_CLASSES: dict[str, Callable[..., Any]] = {}
_MAPPINGS: dict[str, Any] = {"dict": dict, "OrderedDict": OrderedDict}
_NUMBERS = {"bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))}
_NUMBERS |= {"float16", "float32", "float64"}


class CannotEncode(ValueError):  # noqa: N818 - a property of the value, not a failure
    """A value cannot be represented as plain data."""


def register(known: Known) -> Known:
    """Allow agents that use a custom class to be saved and loaded; usable as a decorator.

    Also for functions, such as schedules. Both the program that saves and the one that loads must
    register them: a file can name a class or a function, but neither contain nor import one.

    >>> @register
    ... class MyFeatures(torch_layers.FlattenExtractor): ...
    """
    _CLASSES[known.__name__] = known
    return known


for _known in (
    *(getattr(torch.nn, name) for name in torch.nn.modules.activation.__all__),
    *(getattr(torch.optim, name) for name in ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "SGD")),
    *(torch.optim.Adagrad, torch.optim.Adamax, RMSpropTFLike),
    torch_layers.FlattenExtractor,
    torch_layers.NatureCNN,
    torch_layers.CombinedExtractor,
    ReplayBuffer,
    NStepReplayBuffer,
    DictReplayBuffer,
    HerReplayBuffer,
):
    register(_known)


class Encoder:
    """Turns values into JSON trees, and collects their arrays."""

    def __init__(self) -> None:
        self.arrays: Arrays = {}

    def encode(self, value: Any, path: str) -> Any:
        """Return the tree of a value; ``path`` names its arrays, and appears in errors."""
        return self.describe(value, path)

    def describe(self, value: Any, path: str) -> Any:
        """Return the tree of a value, calling ``encode`` for nested values."""
        kind = type(value)
        if kind is int and value.bit_length() > MOST_BITS:
            raise CannotEncode(f"{path} cannot be saved: it has more than {MOST_BITS} bits")
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is list:
            return [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]
        if isinstance(value, np.ndarray | np.generic | torch.Tensor):
            return self._array(value, path)
        if kind in _MAPPINGS.values():
            return {kind.__name__: self._items(value, path)}
        value = _as_schedule(value)
        kind = type(value)
        if isinstance(value, spaces.Space):  # a subclass is stored as its base class
            kind = next((base for base in kind.__mro__ if base in _KINDS), kind)
        if kind in _KINDS:
            parts, _ = _KINDS[kind]
            return {kind.__name__: self.describe(parts(value), path)}
        name = getattr(value, "__name__", "")
        if name in _CLASSES and _CLASSES[name] is value:
            return {"class": name}
        return self.other(value, path)

    def other(self, value: Any, path: str) -> Any:
        """Return the tree of a value that is not plain data."""
        hint = " (mviq.agents.register makes a class known)" if isinstance(value, type) else ""
        raise CannotEncode(
            f"{path} cannot be described without code, so it cannot be saved: {value!r}{hint}"
        )

    def _array(self, value: Any, path: str) -> Any:
        array = np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value)
        if array.dtype.hasobject or array.dtype.names:
            raise CannotEncode(f"{path} cannot be saved: it is an array of {array.dtype}")
        if path in self.arrays:
            raise CannotEncode(f"{path} cannot be saved: another array has this name")
        tag = "Tensor" if isinstance(value, torch.Tensor) else "ndarray"
        tag = "generic" if isinstance(value, np.generic) else tag
        if array.dtype.name in _NUMBERS and array.dtype.isnative:
            self.arrays[path] = np.array(array, copy=True, order="C")
            return {tag: None}
        self.arrays[path] = np.frombuffer(array.tobytes(), np.uint8)  # safetensors lacks this type
        return {tag: [array.dtype.str, list(array.shape)]}

    def _items(self, value: dict[Any, Any], path: str) -> Any:
        """Return the items of a dictionary: an object if all keys are strings, else pairs."""
        if not all(key is None or type(key) in (str, int) for key in value):
            raise CannotEncode(f"{path} cannot be saved: its keys must be names, got {list(value)}")
        pairs = [(key, self.encode(item, f"{path}.{key}")) for key, item in value.items()]
        return dict(pairs) if all(type(key) is str for key in value) else [*map(list, pairs)]


class Decoder:
    """Builds values from JSON trees and arrays, or raises a ``ValueError``."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays, self.unread = arrays, set(arrays)

    def decode(self, tree: Any, path: str, current: Any = None) -> Any:
        """Return the value that was encoded with this path.

        ``current`` is the value to be replaced, for subclasses that restore objects in place.
        """
        return self.make(tree, path, current)

    def make(self, tree: Any, path: str, current: Any = None) -> Any:
        """Return the value of a tree, calling ``decode`` for nested values."""
        if isinstance(tree, list):
            now = chain(current if isinstance(current, list) else (), repeat(None))
            items = enumerate(zip(tree, now, strict=False))
            return [self.decode(item, f"{path}.{i}", before) for i, (item, before) in items]
        if isinstance(tree, int) and tree.bit_length() > MOST_BITS:
            raise ValueError(f"{path} must have at most {MOST_BITS} bits, has {tree.bit_length()}")
        if not isinstance(tree, dict):
            return tree
        if len(tree) != 1:
            raise ValueError(f"not a description of a value: {tree!r:.60}")
        ((tag, content),) = tree.items()
        try:
            return self.tagged(tag, content, path, current)
        except ValueError:
            raise
        except Exception as error:  # spaces and schedules raise all kinds of errors
            raise ValueError(f"not a description of a {tag}: {content!r:.60}") from error

    def tagged(self, tag: str, content: Any, path: str, current: Any) -> Any:
        """Return the value of a tag and its content."""
        if tag in ("ndarray", "generic", "Tensor"):
            return self._array(tag, content, path)
        if tag in _MAPPINGS:
            before = current if isinstance(current, dict) else {}
            pairs = content if isinstance(content, list) else content.items()
            return _MAPPINGS[tag](
                (key, self.decode(item, f"{path}.{key}", before.get(key))) for key, item in pairs
            )
        if tag == "class":
            return _known_class(content)
        if tag not in _TAGS or not isinstance(content, list):
            raise ValueError(f"not a description of a value: { {tag: content}!r:.60}")
        parts, make = _KINDS[_TAGS[tag]]
        now = parts(current) if type(current) is _TAGS[tag] else None
        return make(*self.make(content, path, now))

    def _array(self, tag: str, content: Any, path: str) -> Any:
        if path not in self.arrays:
            raise ValueError(f"the array {path} is missing")
        self.unread.discard(path)
        array = self.arrays[path].copy()
        if content is not None:
            name, shape = content
            dtype: np.dtype[Any] = np.dtype(name)
            if dtype.hasobject:
                raise ValueError(f"an array cannot be of {name!r:.60}")
            array = array.view(dtype).reshape(shape)
        if tag == "Tensor":
            return torch.from_numpy(array)
        return array if tag == "ndarray" else array[()]


def _known_class(name: Any) -> Callable[..., Any]:
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(f"class {name!r:.60} is not known here; mviq.agents.register it first")
    return _CLASSES[name]


def _special_float(name: Any) -> float:
    if name not in ("inf", "-inf", "nan"):
        raise ValueError(f"not a special number: {name!r:.60}")
    return float(name)


def _schedule(kind: Callable[..., Any]) -> Callable[..., Any]:
    def make(*numbers: Any) -> Any:
        if not all(isinstance(number, Real) for number in numbers):
            raise ValueError(f"a schedule must be of numbers, got {numbers!r:.60}")
        return kind(*numbers)

    return make


def _as_schedule(value: Any) -> Any:
    """Convert linear functions of ``get_linear_fn`` and rl-baselines3-zoo to ``LinearSchedule``."""
    if getattr(value, "__qualname__", "") == "get_linear_fn.<locals>.func":
        parts = inspect.getclosurevars(value).nonlocals
        return LinearSchedule(parts["start"], parts["end"], parts["end_fraction"])
    if type(value).__name__ == "SimpleLinearSchedule" and hasattr(value, "initial_value"):
        linear = LinearSchedule(value.initial_value, 0.0, 1.0)
        if all(math.isclose(linear(left), value(left), abs_tol=1e-12) for left in (1, 0.3, 0)):
            return linear
    return value


def _box(low: Any, high: Any, name: Any) -> spaces.Box:
    dtype: np.dtype[Any] = np.dtype(name)
    if dtype.kind not in "biuf":
        raise ValueError(f"a Box must be of numbers, not {name!r:.60}")
    if max(np.size(low), np.size(high)) > LARGEST:
        raise ValueError(f"a Box must have at most {LARGEST} numbers, got {np.size(low)}")
    return spaces.Box(low, high, dtype=dtype.type)


def _discrete(n: Any, start: Any, name: Any) -> spaces.Discrete:
    if type(n) is not int or type(start) is not int or not 1 <= n <= LARGEST:
        raise ValueError(f"a Discrete space must have 1 to {LARGEST} values, got {n!r:.60}")
    return spaces.Discrete(n, start=start, dtype=_integers(name))


def _multi_discrete(sizes: Any, start: Any, name: Any) -> spaces.MultiDiscrete:
    if not 0 < float(np.sum(sizes, dtype=float)) <= LARGEST or np.min(sizes) < 1:
        raise ValueError(f"a MultiDiscrete space must have 1 to {LARGEST} values")
    return spaces.MultiDiscrete(sizes, dtype=_integers(name), start=start)


def _integers(name: Any) -> Any:
    dtype: np.dtype[Any] = np.dtype(name)
    if dtype.kind not in "iu":
        raise ValueError(f"a discrete space must be of integers, not {name!r:.60}")
    return dtype.type


def _partial(function: Any, arguments: Any, options: Any) -> Any:
    if not isinstance(function, type) or not issubclass(function, torch.nn.Module):
        raise ValueError(f"a partial must be of a module's class, got {function!r:.60}")
    return partial(function, *arguments, **options)


def _multi_binary(n: Any) -> spaces.MultiBinary:
    sizes = [n] if isinstance(n, int) else n
    if not all(type(size) is int and size >= 0 for size in sizes) or math.prod(sizes) > LARGEST:
        raise ValueError(f"a MultiBinary space must have at most {LARGEST} values, got {n!r:.60}")
    return spaces.MultiBinary(n)


# For every type: how to convert a value to plain data, and how to build it again.
_KINDS: dict[type, tuple[Callable[[Any], list[Any]], Callable[..., Any]]] = {
    float: (lambda value: [str(value)], _special_float),
    bytes: (lambda value: [value.hex()], bytes.fromhex),
    tuple: (list, lambda *items: items),
    set: (list, lambda *items: set(items)),
    deque: (lambda value: [value.maxlen, *value], lambda length, *items: deque(items, length)),
    TrainFreq: (
        lambda value: [value.frequency, value.unit.value],
        lambda frequency, unit: TrainFreq(frequency, TrainFrequencyUnit(unit)),
    ),
    ConstantSchedule: (lambda value: [value.val], _schedule(ConstantSchedule)),
    LinearSchedule: (
        lambda value: [value.start, value.end, value.end_fraction],
        _schedule(LinearSchedule),
    ),
    FloatSchedule: (lambda value: [value.value_schedule], FloatSchedule),
    spaces.Box: (lambda value: [value.low, value.high, value.dtype.str], _box),
    spaces.Discrete: (
        lambda value: [int(value.n), int(value.start), value.dtype.str],
        _discrete,
    ),
    spaces.MultiDiscrete: (
        lambda value: [value.nvec, value.start, value.dtype.str],
        _multi_discrete,
    ),
    spaces.MultiBinary: (lambda value: [value.n], _multi_binary),
    spaces.Dict: (lambda value: [dict(value.spaces)], spaces.Dict),
}
_KINDS[partial] = (lambda value: [value.func, list(value.args), value.keywords], _partial)
_KINDS[GoalSelectionStrategy] = (lambda value: [value.value], GoalSelectionStrategy)
_TAGS = {kind.__name__: kind for kind in _KINDS}
