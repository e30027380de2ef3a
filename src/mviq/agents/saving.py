"""Agents and replay buffers as files that hold data only.

An agent is a zip archive of ``agent.json`` (what to build), ``policy.safetensors`` and
``optimizer.safetensors`` (its numbers). A replay buffer is one safetensors file. Neither format
can carry code; Stable-Baselines3's own files can, and are refused.
"""

import inspect
import io
import json
import os
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.utils import check_for_correct_spaces
from torch import Tensor

from mviq.agents.description import describe, restore
from mviq.storage import appearing, write_durably

FORMAT, VERSION = "mviq-agent", 1
SPACES = ("observation_space", "action_space")
COUNTERS = (
    "n_envs",
    "num_timesteps",
    "exploration_rate",
    "status",
    "_total_timesteps",
    "_num_timesteps_at_start",
    "_current_progress_remaining",
    "_episode_num",
    "_n_calls",
    "_n_updates",
)
Agent = TypeVar("Agent")
_BROKEN = (zipfile.BadZipFile, KeyError, json.JSONDecodeError, UnicodeDecodeError, SafetensorError)
Target = str | os.PathLike[str] | IO[bytes] | io.BufferedIOBase
Arrays = dict[str, np.ndarray[Any, Any]]


def save_agent(agent: Any, path: Target, exclude: set[str]) -> None:
    """Write an agent: the arguments that build it, its counters and its numbers."""
    arguments = _arguments(agent)
    unknown = exclude - arguments.keys()
    if unknown:
        raise ValueError(f"exclude may name {sorted(arguments)}, got {sorted(unknown)}")
    content = {
        "class": type(agent).__name__,
        "arguments": {k: describe(v, k) for k, v in arguments.items() if k not in exclude},
        "counters": {name: describe(getattr(agent, name), name) for name in COUNTERS},
        "spaces": {name: describe(getattr(agent, name), name) for name in SPACES},
    }
    parameters = agent.get_parameters()
    write_archive(path, content, parameters["policy"], parameters["policy.optimizer"])


def load_agent(
    cls: type[Agent], path: Target, env: Any, device: Any, changes: dict[str, Any]
) -> Agent:
    """Build an agent again, for another environment or with other arguments if so wished."""
    content, policy, optimizer = read_archive(path)
    if content["class"] != cls.__name__:
        raise ValueError(f"{path} holds an agent of class {content['class']}, not {cls.__name__}")
    described = {k: v for k, v in content["arguments"].items() if k not in changes}
    arguments = {name: restore(value) for name, value in described.items()} | changes
    model = cast(Any, cls)(env=env, device=device, _init_setup_model=False, **arguments)
    spaces = {name: restore(content["spaces"][name]) for name in SPACES}
    if env is None:
        vars(model).update(spaces, n_envs=content["counters"]["n_envs"])
    else:
        check_for_correct_spaces(model.env, spaces["observation_space"], spaces["action_space"])
        content["counters"]["n_envs"] = model.n_envs
    model._setup_model()
    vars(model).update({name: restore(content["counters"][name]) for name in COUNTERS})
    model.set_parameters({"policy": policy, "policy.optimizer": optimizer})
    return cast(Agent, model)


def _arguments(agent: Any) -> dict[str, Any]:
    """Return the arguments with which an agent like this one is built."""
    names = set(inspect.signature(agent.base.__init__).parameters)
    names -= {"self", "policy", "env", "device", "stats_window_size", "_init_setup_model"}
    buffer_class, buffer_kwargs = agent._chosen_buffer
    return {
        "policy": _alias(agent),
        "stats_window_size": agent._stats_window_size,
        **{name: getattr(agent, name) for name in sorted(names)},
        "replay_buffer_class": buffer_class,
        "replay_buffer_kwargs": buffer_kwargs,
        **asdict(agent.family),
        "acting": agent.acting,
        "value_limit": agent.value_limit,
    }


def _alias(agent: Any) -> Any:
    aliases = [name for name, kind in agent.policy_aliases.items() if kind is agent.policy_class]
    return aliases[0] if aliases else agent.policy_class


def write_archive(
    path: Target, content: dict[str, Any], policy: dict[str, Tensor], optimizer: dict[str, Any]
) -> None:
    """Write an agent; a file appears whole or not at all."""
    groups = [describe(group, "optimizer") for group in optimizer["param_groups"]]
    content = {"format": FORMAT, "version": VERSION, **content, "optimizer": groups}
    moments = {
        f"{index}.{name}": value
        for index, state in optimizer["state"].items()
        for name, value in state.items()
    }
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("agent.json", json.dumps(content, allow_nan=False, indent=1))
            for name, tensors in (("policy", policy), ("optimizer", moments)):
                independent = {key: _alone(value) for key, value in tensors.items()}
                archive.writestr(f"{name}.safetensors", safetensors.torch.save(independent))
        _write(path, buffer.getvalue(), ".zip")


def read_archive(path: Target) -> tuple[dict[str, Any], dict[str, Tensor], dict[str, Any]]:
    """Return what ``write_archive`` wrote, or say why this is not an agent of ours."""
    try:
        with zipfile.ZipFile(_located(path, ".zip")) as archive:
            names = archive.namelist()
            if "agent.json" not in names:
                raise ValueError(_not_ours(path, names))
            content = json.loads(archive.read("agent.json"))
            policy = safetensors.torch.load(archive.read("policy.safetensors"))
            moments = safetensors.torch.load(archive.read("optimizer.safetensors"))
    except _BROKEN as error:
        raise ValueError(f"{path} is not a saved mviq agent: {error}") from error
    if content.get("format") != FORMAT or content.get("version") != VERSION:
        raise ValueError(f"{path} is not a saved mviq agent of format version {VERSION}")
    return content, policy, _optimizer_state(content.pop("optimizer"), moments)


def _optimizer_state(groups: list[Any], moments: dict[str, Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in moments.items():
        index, name = key.split(".", 1)
        state.setdefault(int(index), {})[name] = value
    return {"state": state, "param_groups": [restore(group) for group in groups]}


def _alone(tensor: Tensor) -> Tensor:
    """Return a tensor that shares no memory, in the order of its indices."""
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _not_ours(path: Target, names: list[str]) -> str:
    if "data" in names:
        return (
            f"{path} was saved by Stable-Baselines3: such files hold pickled code, which mviq does "
            "not run; load it with Stable-Baselines3 and copy its policy.state_dict()"
        )
    return f"{path} is not a saved mviq agent: it has no agent.json"


def write_buffer(path: str | os.PathLike[str], buffer: ReplayBuffer) -> None:
    """Write the arrays of a replay buffer."""
    arrays, numbers = _buffer_state(buffer)
    metadata = {"kind": type(buffer).__name__, "numbers": json.dumps(numbers)}
    with appearing(_named(path, ".safetensors")) as partial:
        safetensors.numpy.save_file(arrays, partial, metadata)


def read_buffer(path: str | os.PathLike[str], buffer: ReplayBuffer) -> None:
    """Fill a replay buffer of the same kind and size from a file."""
    arrays, numbers = _buffer_state(buffer)
    location = _located(path, ".safetensors")
    try:
        with safe_open(location, "numpy") as stored:
            metadata = stored.metadata() or {}
            kind = metadata.get("kind")
            if kind != type(buffer).__name__:
                raise ValueError(f"{path} holds a {kind}, the agent has a {type(buffer).__name__}")
            for name, array in arrays.items():
                found = stored.get_tensor(name)
                if found.shape != array.shape or found.dtype != array.dtype:
                    raise ValueError(f"{path}: {name} is {found.shape}, expected {array.shape}")
                array[...] = found
    except SafetensorError as error:
        raise ValueError(f"{path} is not a replay buffer saved by mviq: {error}") from error
    restored = json.loads(metadata["numbers"])
    for name in numbers:
        setattr(buffer, name, restored[name])


def _buffer_state(buffer: ReplayBuffer) -> tuple[Arrays, dict[str, Any]]:
    """Return the arrays of a buffer and the numbers that change as it fills."""
    own = getattr(buffer, "state", None)
    if own is not None:
        arrays, numbers = own()
        return arrays, numbers
    arrays = {}
    for name, value in vars(buffer).items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        arrays |= {
            f"{name}.{key}".rstrip("."): part for key, part in parts if isinstance(part, np.ndarray)
        }
    return arrays, {"pos": buffer.pos, "full": buffer.full}


def _named(path: str | os.PathLike[str], suffix: str) -> Path:
    path = Path(path)
    return path if path.suffix else path.with_suffix(suffix)


def _located(path: Target, suffix: str) -> Any:
    if not isinstance(path, str | os.PathLike):
        return path
    found = Path(path) if Path(path).is_file() else _named(path, suffix)
    if not found.is_file():
        raise FileNotFoundError(f"no such file: {found}")
    return found


def _write(path: Target, data: bytes, suffix: str) -> None:
    if not isinstance(path, str | os.PathLike):
        path.write(data)
        return
    write_durably(_named(path, suffix), data)
