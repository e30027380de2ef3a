"""Values as JSON and back, without ever running code named by the file.

Pickle can describe everything, by executing it. Here a value is described by what it is: a
number, a container, a Gymnasium space, a known schedule, or a class by its name in a fixed list
that only ``register`` extends. What cannot be described is refused when saving.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common import torch_layers
from stable_baselines3.common.buffers import DictReplayBuffer, NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import TrainFreq, TrainFrequencyUnit
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule

Class = TypeVar("Class", bound=type)

_CLASSES: dict[str, type] = {}
LARGEST = 2**25  # numbers in an observation; four colour pictures of 1080 lines are fewer


def register(known: Class) -> Class:
    """Allow agents that use a class of yours to be saved and loaded; usable as a decorator.

    Both the program that saves and the one that loads must have registered it: a file can name
    a class, never bring or import one.

    >>> @register
    ... class MyFeatures(torch_layers.FlattenExtractor): ...
    """
    _CLASSES[known.__name__] = known
    return known


for _known in (
    *(getattr(torch.nn, name) for name in torch.nn.modules.activation.__all__),
    *(getattr(torch.optim, name) for name in ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "SGD")),
    torch_layers.FlattenExtractor,
    torch_layers.NatureCNN,
    torch_layers.CombinedExtractor,
    ReplayBuffer,
    NStepReplayBuffer,
    DictReplayBuffer,
):
    register(_known)


def describe(value: Any, name: str) -> Any:
    """Return the JSON form of a value; ``name`` is for the error where there is none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [describe(item, f"{name}[{i}]") for i, item in enumerate(value)]
    for kind, to_json, _ in _KINDS:
        if type(value) is kind:
            return to_json(value, name)
    if isinstance(value, type) and _CLASSES.get(value.__name__) is value:
        return {"class": value.__name__}
    hint = " (mviq.agents.register makes a class known)" if isinstance(value, type) else ""
    raise ValueError(
        f"{name} cannot be described without code, so it cannot be saved: {value!r}{hint}; "
        f"exclude it when saving and pass it again when loading"
    )


def restore(described: Any) -> Any:
    """Return the value that ``describe`` described, or raise a ``ValueError``."""
    if isinstance(described, list):
        return [restore(item) for item in described]
    if not isinstance(described, dict):
        return described
    if len(described) != 1:
        raise ValueError(f"not a description of a value: {described!r:.60}")
    ((tag, content),) = described.items()
    if tag == "class":
        return _known_class(content)
    for kind, _, from_json in _KINDS:
        if kind.__name__ == tag:
            try:
                return from_json(content)
            except ValueError:
                raise
            except Exception as error:  # spaces and schedules answer wrong data in many ways
                raise ValueError(f"not a description of a {tag}: {content!r:.60}") from error
    raise ValueError(f"not a description of a value: {described!r:.60}")


def _known_class(name: Any) -> type:
    if not isinstance(name, str) or name not in _CLASSES:
        raise ValueError(f"class {name!r:.60} is not known here; mviq.agents.register it first")
    return _CLASSES[name]


def _tag(kind: type, content: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    return lambda value, name: {kind.__name__: content(value, name)}


def _plain(*fields: str) -> Callable[[Any, str], Any]:
    """Describe an object by some of its attributes."""
    return lambda value, name: [describe(getattr(value, field), name) for field in fields]


def _dict(value: dict[Any, Any], name: str) -> dict[str, Any]:
    if not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} cannot be saved: its keys must be strings, got {list(value)}")
    return {key: describe(item, f"{name}[{key!r}]") for key, item in value.items()}


def _array(value: Any, name: str) -> dict[str, Any]:
    """Describe an array; a bound that is the same everywhere, as most are, by one number."""
    array = np.asarray(value)
    same = array.size > 0 and bool((array == array.flat[0]).all())
    content = [array.flat[0]] if same else array.ravel().tolist()
    return {
        "shape": list(array.shape),
        "dtype": array.dtype.str,
        "values": describe([*content], name),
    }


def _restore_array(content: Any) -> np.ndarray[Any, Any]:
    shape = tuple(_sizes(content["shape"]))
    values = np.asarray(restore(content["values"]), dtype=_number_type(content["dtype"]))
    return np.broadcast_to(values, shape).copy() if values.size == 1 else values.reshape(shape)


def _sizes(shape: Any) -> list[int]:
    """Return the shape of an array, if it is one and the array not huge."""
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) > LARGEST:
        raise ValueError(f"a space must have at most {LARGEST} numbers, its shape is {shape!r:.60}")
    return list(shape)


def _number_type(name: Any) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(name)
    if dtype.kind not in "biuf":
        raise ValueError(f"an array must be of numbers, not {name!r:.60}")
    return dtype


def _restore_box(content: Any) -> spaces.Box:
    low, high, dtype = content
    return spaces.Box(_restore_array(low), _restore_array(high), dtype=_number_type(dtype).type)


def _restore_discrete(content: Any) -> spaces.Discrete:
    n, start = content
    if type(n) is not int or type(start) is not int or not 1 <= n <= LARGEST:
        raise ValueError(f"a Discrete space must have 1 to {LARGEST} values, got {content!r:.60}")
    return spaces.Discrete(n, start=start)


def _restore_multibinary(content: Any) -> spaces.MultiBinary:
    sizes = restore(content)
    _sizes([sizes] if isinstance(sizes, int) else sizes)
    return spaces.MultiBinary(sizes)


def _restore_float(content: Any) -> float:
    if content not in ("inf", "-inf", "nan"):
        raise ValueError(f"not a special number: {content!r:.60}")
    return float(content)


def _restore_tuple(content: Any) -> tuple[Any, ...]:
    if not isinstance(content, list):
        raise ValueError(f"not a tuple: {content!r:.60}")
    return tuple(restore(content))


def _numbers(content: Any) -> list[float]:
    if not all(isinstance(number, int | float) for number in content):
        raise ValueError(f"a schedule must be of numbers, got {content!r:.60}")
    return list(content)


_KINDS: list[tuple[type, Callable[[Any, str], Any], Callable[[Any], Any]]] = [
    (kind, _tag(kind, to_json), from_json)
    for kind, to_json, from_json in (
        (float, lambda value, name: str(value), _restore_float),
        (
            tuple,
            lambda value, name: describe(list(value), name),
            _restore_tuple,
        ),
        (dict, _dict, lambda content: {key: restore(item) for key, item in content.items()}),
        (
            TrainFreq,
            lambda value, name: [value.frequency, value.unit.value],
            lambda content: TrainFreq(content[0], TrainFrequencyUnit(content[1])),
        ),
        (ConstantSchedule, _plain("val"), lambda content: ConstantSchedule(*_numbers(content))),
        (
            LinearSchedule,
            _plain("start", "end", "end_fraction"),
            lambda content: LinearSchedule(*_numbers(content)),
        ),
        (
            FloatSchedule,
            _plain("value_schedule"),
            lambda content: FloatSchedule(restore(content[0])),
        ),
        (
            spaces.Box,
            lambda value, name: [
                _array(value.low, name),
                _array(value.high, name),
                value.dtype.str,
            ],
            _restore_box,
        ),
        (
            spaces.Discrete,
            lambda value, name: [int(value.n), int(value.start)],
            _restore_discrete,
        ),
        (
            spaces.MultiDiscrete,
            lambda value, name: _array(value.nvec, name),
            lambda content: spaces.MultiDiscrete(_restore_array(content)),
        ),
        (
            spaces.MultiBinary,
            lambda value, name: describe(value.n, name),
            _restore_multibinary,
        ),
        (
            spaces.Dict,
            lambda value, name: _dict(dict(value.spaces), name),
            lambda content: spaces.Dict({key: restore(item) for key, item in content.items()}),
        ),
    )
]
