"""Save and load replay buffers as safetensors files, which cannot contain code."""

import json
import os
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import safetensors.numpy
from gymnasium import spaces
from safetensors import SafetensorError, safe_open
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer
from torch import Tensor

from mviq.agents.archive import Target, located, with_suffix
from mviq.agents.codec import Arrays, Decoder, Encoder
from mviq.storage import appearing

Bounds = dict[str, tuple[int, int]]
CHUNK_BYTES = 2**26  # read at a time, so that loading needs little memory besides the buffer


def write_buffer(path: Target, buffer: ReplayBuffer) -> None:
    """Write a replay buffer to a file."""
    arrays, numbers = buffer_state(buffer)
    if _keeps_infos(buffer):
        arrays["infos"] = _infos_of(buffer)
    metadata = {"kind": type(buffer).__name__, "numbers": json.dumps(numbers)}
    if isinstance(path, str | os.PathLike):
        with appearing(with_suffix(path, ".safetensors")) as partial:
            safetensors.numpy.save_file(arrays, partial, metadata)
    else:
        path.write(safetensors.numpy.save(arrays, metadata))


@contextmanager
def as_file(path: Target) -> Iterator[str | os.PathLike[str]]:
    """Yield a path; a stream is copied to a temporary file, which can be read in parts."""
    if isinstance(path, str | os.PathLike):
        yield path
        return
    with NamedTemporaryFile(suffix=".safetensors") as file:
        shutil.copyfileobj(path, file)
        file.flush()
        yield file.name


def stored_rows(path: str | os.PathLike[str], n_envs: int) -> int:
    """Return the capacity of the buffer in a file, in steps of ``n_envs`` environments."""
    try:
        with safe_open(located(path, ".safetensors"), "numpy") as stored:
            shape = tuple(stored.get_slice("dones").get_shape())
    except SafetensorError as error:
        raise ValueError(f"{path} is not a replay buffer saved by mviq: {error}") from error
    if len(shape) != 2 or shape[1] != n_envs:
        raise ValueError(f"{path} must be of {n_envs} environments, its dones have shape {shape}")
    return int(shape[0])


def read_buffer(path: str | os.PathLike[str], buffer: ReplayBuffer) -> None:
    """Load a replay buffer of the same class and size; an invalid file changes nothing."""
    arrays, _ = buffer_state(buffer)
    try:
        with safe_open(located(path, ".safetensors"), "numpy") as stored:
            numbers = _checked_numbers(path, buffer, stored.metadata() or {})
            kept = ["infos"] if _keeps_infos(buffer) else []
            check_arrays(path, stored, arrays, bounds_of(buffer), kept)
            infos = [_read_infos(path, stored.get_tensor(name), buffer) for name in kept]
            for name, array in arrays.items():
                for part in _parts(array):
                    array[part] = stored.get_slice(name)[part]
    except SafetensorError as error:
        raise ValueError(f"{path} is not a replay buffer saved by mviq: {error}") from error
    for name, value in [*numbers.items(), *zip(kept, infos, strict=True)]:
        setattr(buffer, name, value)


def buffer_state(buffer: ReplayBuffer) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a buffer and the numbers that change as it fills."""
    own = getattr(buffer, "state", None)
    if own is not None:
        arrays, numbers = own()
        return arrays, numbers
    return _arrays_of(buffer), {"pos": int(buffer.pos), "full": bool(buffer.full)}


def _arrays_of(buffer: ReplayBuffer) -> Arrays:
    """Return the arrays of one of Stable-Baselines3's buffers, by name."""
    arrays: Arrays = {}
    for name, value in vars(buffer).items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        arrays |= {f"{name}.{k}".rstrip("."): v for k, v in parts if isinstance(v, np.ndarray)}
    for name in [name for name, array in arrays.items() if array.dtype.hasobject]:
        if any(arrays.pop(name).flat) and not (name == "infos" and _keeps_infos(buffer)):
            raise ValueError(f"{name} of the replay buffer holds objects, so it cannot be saved")
    return arrays


class _InfoEncoder(Encoder):
    """Stores arrays in the JSON tree: info dictionaries have many small ones."""

    def _array(self, value: Any, path: str) -> Any:
        ((tag, _),) = super()._array(value, path).items()
        self.arrays.clear()
        array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value)
        return {tag: [array.dtype.str, list(array.shape), array.tobytes().hex()]}


class _InfoDecoder(Decoder):
    def _array(self, tag: str, content: Any, path: str) -> Any:
        name, shape, digits = content
        self.arrays = {path: np.frombuffer(bytes.fromhex(digits), np.uint8)}
        return super()._array(tag, [name, shape], path)


def _keeps_infos(buffer: ReplayBuffer) -> bool:
    return isinstance(buffer, HerReplayBuffer) and buffer.copy_info_dict


def _infos_of(buffer: Any) -> np.ndarray[Any, Any]:
    """Return the info dictionaries of a ``HerReplayBuffer`` as the bytes of a JSON text."""
    tree = _InfoEncoder().encode(buffer.infos.tolist(), "infos")
    return np.frombuffer(json.dumps(tree, allow_nan=False).encode(), np.uint8)


def _read_infos(path: Any, text: np.ndarray[Any, Any], buffer: Any) -> np.ndarray[Any, Any]:
    """Return the info dictionaries of a file, or raise a ``ValueError``."""
    infos = np.empty(buffer.infos.shape, object)
    try:
        rows = _InfoDecoder({}).decode(json.loads(text.tobytes()), "infos")
        for i, j in np.ndindex(infos.shape):
            infos[i, j] = rows[i][j]
        good = len(rows) == len(infos) and all(type(info) is dict for info in infos.flat)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"{path}: infos cannot be read: {error!s:.80}") from error
    if not good:
        raise ValueError(f"{path}: infos must be one dictionary for each step")
    return infos


def _checked_numbers(
    path: Any, buffer: ReplayBuffer, metadata: dict[str, str]
) -> dict[str, int | bool]:
    kind, own = metadata.get("kind"), type(buffer).__name__
    if kind != own:
        raise ValueError(f"{path} holds a {kind}, the agent has a {own}")
    try:
        numbers = json.loads(metadata["numbers"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} does not say how full the replay buffer is") from error
    check_numbers(path, buffer, numbers)
    return {name: numbers[name] for name in buffer_state(buffer)[1]}


def check_numbers(path: Any, buffer: ReplayBuffer, numbers: Any) -> None:
    """Check the numbers that say how full a buffer is."""
    try:
        pos, full, forgotten = numbers["pos"], numbers["full"], numbers.get("forgotten", 0)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} does not say how full the replay buffer is") from error
    size = buffer.buffer_size
    if type(pos) is not int or type(full) is not bool or not 0 <= pos < size:
        raise ValueError(f"{path}: pos must be below {size}, got {pos!r:.20}, full {full!r:.20}")
    most = max((size if full else pos) - 1, 0)
    if type(forgotten) is not int or not 0 <= forgotten <= most:
        raise ValueError(f"{path}: forgotten must be at most {most}, got {forgotten!r:.20}")


def check_arrays(
    path: Any, stored: Any, arrays: Arrays, bounds: Bounds, others: Collection[str] = ()
) -> None:
    """Check names, shapes, types and bounds of the arrays in a file; of ``others`` only names."""
    odd = sorted({*arrays, *others} ^ set(stored.keys()))
    if odd:
        raise ValueError(f"{path}: {', '.join(odd)} missing or unknown")
    for name, array in arrays.items():
        part = stored.get_slice(name)
        shape, kind = tuple(part.get_shape()), part[0:0].dtype
        if shape != array.shape or kind != array.dtype:
            raise ValueError(
                f"{path}: {name} is {shape} of {kind}, expected {array.shape} of {array.dtype}"
            )
    for name in bounds.keys() & arrays.keys():
        for part in _parts(arrays[name]):
            check_bounds(f"{path}: {name}", stored.get_slice(name)[part], *bounds[name])


def check_bounds(what: str, values: Any, low: int, high: int) -> None:
    """Check that all values are between two bounds."""
    if not ((low <= values) & (values <= high)).all():
        raise ValueError(f"{what} must be between {low} and {high}")


def bounds_of(buffer: ReplayBuffer) -> Bounds:
    """Return the valid ranges of the arrays that hold indices or flags."""
    last = buffer.buffer_size - 1
    bounds: Bounds = {"dones": (0, 1), "timeouts": (0, 1)}
    bounds |= {"ep_start": (0, last), "ep_length": (0, last + 1), "_current_ep_start": (0, last)}
    if isinstance(buffer.action_space, spaces.Discrete):
        bounds["actions"] = (0, int(buffer.action_space.n) - 1)
    return bounds | getattr(buffer, "bounds", dict)()


def _parts(array: np.ndarray[Any, Any]) -> list[slice]:
    rows = max(1, CHUNK_BYTES * len(array) // max(array.nbytes, 1))
    starts = range(0, len(array), rows)
    return [slice(start, min(start + rows, len(array))) for start in starts]
