"""Save and load agents with Stable-Baselines3's interface, to files that contain no code."""

import io
import math
import pathlib
import warnings
from collections.abc import Collection, Iterable
from typing import Any, Self, cast

import torch
from stable_baselines3.common.base_class import maybe_make_env
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.preprocessing import get_obs_shape
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback
from stable_baselines3.common.utils import check_for_correct_spaces, get_system_info
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from mviq.agents.archive import Target, blaming, read_archive, write_archive
from mviq.agents.arguments import argument_names, arguments_of, whole
from mviq.agents.codec import Arrays, CannotEncode, Decoder, Encoder
from mviq.agents.parameters import (
    check_moments,
    check_weights,
    lay_out_moments,
    no_more_weights_than,
)
from mviq.agents.replay import FrameReplayBuffer
from mviq.agents.replay_files import as_file, read_buffer, stored_rows, write_buffer
from mviq.agents.state import LAST
from mviq.processor import machine_memory

SPACES = ("observation_space", "action_space")


class SafeFiles(OffPolicyAlgorithm):
    """Replaces the pickles of Stable-Baselines3 by files that cannot contain code."""

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save the agent, without its replay buffer, to a file that contains data and no code.

        Arguments in ``exclude``, unless also in ``include``, are not saved and have their default
        values after ``load``. Those that cannot be described without code, such as a learning
        rate that is a function, are not saved either: a warning says to pass them to ``load``.
        """
        arguments, excluded = arguments_of(self), set(exclude or ()) - set(include or ())
        beyond = set(include or ()) - arguments.keys()
        if beyond:
            raise ValueError(
                f"include may name {', '.join(sorted(arguments))}; got {', '.join(beyond)}. "
                "For the replay buffer there is save_replay_buffer"
            )
        encoder, state = Encoder(), cast(Any, self).get_state()
        content = {
            "class": type(self).__name__,
            "system": get_system_info(print_info=False)[1],
            "n_envs": self.n_envs,
            "excluded": sorted(arguments.keys() & excluded),
            "arguments": {
                name: encoder.encode(arguments[name], name)
                for name in _describable(arguments, excluded)
            },
            "spaces": {name: encoder.encode(getattr(self, name), name) for name in SPACES},
            "state": {
                name: encoder.encode(value, f"state.{name}") for name, value in state.items()
            },
        }
        write_archive(path, content, encoder.arrays)

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        """Warn at the start about arguments that cannot be saved, if a callback saves the agent."""
        made = super()._init_callback(callback, progress_bar)
        if _saves(made):
            _describable(arguments_of(self), set())
        return made

    @classmethod
    def load(
        cls,
        path: str | pathlib.Path | io.BufferedIOBase,
        env: GymEnv | None = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Load an agent from a file, or raise a ``ValueError`` that says what is wrong with it.

        ``custom_objects`` and ``kwargs`` replace saved arguments. With ``force_reset=False`` and
        ``learn(…, reset_num_timesteps=False)`` learning continues in the middle of an episode of
        ``env``, which must be in the state that it had when the agent was saved.
        """
        known = argument_names(cls)
        custom = {name: value for name, value in (custom_objects or {}).items() if name in known}
        changes = custom | kwargs  # like Stable-Baselines3, which ignores other custom objects
        content, arrays = read_archive(path)
        if print_system_info:
            print(f"== CURRENT SYSTEM INFO ==\n{get_system_info(print_info=False)[1]}")
            print(f"== SAVED MODEL SYSTEM INFO ==\n{content.get('system')}")
        with blaming(path):
            arguments, saved_spaces, state = _decoded(cls, content, arrays, set(changes))
            excluded = set(content.get("excluded", ()))
        arguments |= _checked_changes(cls, path, changes, arguments.keys() | excluded)
        n_envs = content["n_envs"]
        if env is not None:
            env = cast(VecEnv, cast(Any, cls)._wrap_env(maybe_make_env(env, 0), 0))
            check_for_correct_spaces(env, *(saved_spaces[name] for name in SPACES))
            if force_reset:
                state |= dict.fromkeys(LAST)
            elif env.num_envs != n_envs:
                raise ValueError(
                    f"force_reset=False needs the {n_envs} environments of {path}, "
                    f"got {env.num_envs}"
                )
            n_envs = env.num_envs
        with blaming(path):
            model = cast(Any, cls)(env=env, device=device, _init_setup_model=False, **arguments)
            vars(model).update(saved_spaces, n_envs=n_envs)
            _check_room(model)
            with no_more_weights_than(sum(tensor.numel() for tensor in state["policy"].values())):
                model._setup_model()
            model.set_state(state)
        return cast(Self, model)

    def set_parameters(
        self,
        load_path_or_dict: Any,
        exact_match: bool = True,
        device: torch.device | str = "auto",
    ) -> None:
        """Set weights and optimiser state, from a saved agent or a dictionary."""
        parameters = load_path_or_dict
        if not isinstance(parameters, dict):
            content, arrays = read_archive(load_path_or_dict)
            with blaming(load_path_or_dict):
                state = _decoded_part(Decoder(arrays), content, "state", "state.")
                moments = self.policy.optimizer.state_dict() | {"state": state["optimizer"]}
                parameters = {"policy": state["policy"], "policy.optimizer": moments}
                self._check_parameters(parameters)
        elif exact_match:
            try:
                self._check_parameters(parameters)
            except ValueError as error:
                raise RuntimeError(str(error)) from None  # as load_state_dict does
        super().set_parameters(parameters, exact_match, device)
        lay_out_moments(self.policy.optimizer)

    def _check_parameters(self, parameters: dict[str, Any]) -> None:
        if "policy" in parameters:
            check_weights(self.policy, parameters["policy"])
        if "policy.optimizer" in parameters:
            check_moments(self.policy.optimizer, parameters["policy.optimizer"]["state"])

    def save_replay_buffer(self, path: str | pathlib.Path | io.BufferedIOBase) -> None:
        """Save the replay buffer to a safetensors file."""
        assert self.replay_buffer is not None, "The replay buffer is not defined"
        write_buffer(path, self.replay_buffer)

    def load_replay_buffer(
        self, path: str | pathlib.Path | io.BufferedIOBase, truncate_last_traj: bool = True
    ) -> None:
        """Replace the replay buffer by a saved one of the same class.

        ``truncate_last_traj`` only affects a ``HerReplayBuffer``, which learns from whole
        episodes: True ends the last episode, False continues it.
        """
        with as_file(path) as file:
            buffer, rows = self.replay_buffer, stored_rows(file, self.n_envs)
            if buffer is None or buffer.buffer_size != rows:
                buffer = self._make_buffer(rows * self.n_envs)
            read_buffer(file, buffer)
        buffer.device = self.device
        self.replay_buffer = buffer
        if truncate_last_traj and isinstance(self.replay_buffer, HerReplayBuffer):
            self.replay_buffer.truncate_last_trajectory()

    def _make_buffer(self, size: int) -> ReplayBuffer:
        """Return an empty replay buffer of this size, with the agent's other arguments."""
        kind: Any = self.replay_buffer_class
        options = dict(self.replay_buffer_kwargs)
        if issubclass(kind, HerReplayBuffer):
            options["env"] = self.env
        buffer: ReplayBuffer = kind(
            size,
            self.observation_space,
            self.action_space,
            device=self.device,
            n_envs=self.n_envs,
            optimize_memory_usage=self.optimize_memory_usage,
            **options,
        )
        return buffer


def _saves(callback: Any) -> bool:
    """Return whether a callback of SB3 or W&B, or one inside it, saves agents."""
    places = ("save_path", "best_model_save_path", "model_save_path")
    inside = [*getattr(callback, "callbacks", ()), getattr(callback, "callback", None)]
    named = any(getattr(callback, name, None) for name in places)
    return named or any(_saves(part) for part in inside if part is not None)


def _check_room(model: Any) -> None:
    """Raise a ``ValueError`` if the replay buffer needs more memory than the machine has."""
    space = model.observation_space
    shapes = get_obs_shape(space)
    parts = shapes.values() if isinstance(shapes, dict) else [shapes]
    numbers = sum(math.prod(shape) for shape in parts)
    kind = model.replay_buffer_class or ReplayBuffer
    if issubclass(kind, FrameReplayBuffer):  # stores every frame once
        numbers //= max(space.shape[0], 1)
    size = getattr(space.dtype, "itemsize", 1)  # a dictionary space has no dtype
    needed = model.buffer_size * numbers * size
    if needed > machine_memory():
        raise ValueError(
            f"its replay buffer of {model.buffer_size} needs {needed / 1e9:.3g} GB, this machine "
            f"has {machine_memory() / 1e9:.3g}; pass a smaller buffer_size to load"
        )


def _describable(arguments: dict[str, Any], excluded: set[str]) -> list[str]:
    """Return the names of the arguments that can be saved, and warn about the others."""
    names = []
    for name in arguments.keys() - excluded:
        try:
            Encoder().encode(arguments[name], name)
            names.append(name)
        except CannotEncode as error:
            said = f"saved without {name}, which must be passed to load: {error}"
            warnings.warn(said, stacklevel=3)
    return sorted(names)


def _decoded(
    cls: type, content: dict[str, Any], arrays: Arrays, replaced: set[str]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Decode the arguments, spaces and state of a file, except the arguments in ``replaced``."""
    if content.get("class") != cls.__name__:
        raise ValueError(
            f"it holds an agent of class {content.get('class')!r:.40}, not {cls.__name__}; "
            "load it with that class"
        )
    good, allowed = whole(1, 2**16)
    if not good(content.get("n_envs")):
        raise ValueError(f"n_envs must be {allowed}, got {content.get('n_envs')!r:.40}")
    decoder = Decoder(arrays)
    arguments = _decoded_part(decoder, content, "arguments", without=replaced)
    saved_spaces = _decoded_part(decoder, content, "spaces")
    state = _decoded_part(decoder, content, "state", "state.")
    known = argument_names(cls)
    _check_names("arguments", arguments.keys() - known, known)
    _check_names("spaces", saved_spaces.keys() ^ set(SPACES), SPACES)
    unread = {name for name in decoder.unread if name.partition(".")[0] not in replaced}
    _check_names("arrays", unread, arrays.keys() - unread)
    return arguments, saved_spaces, state


def _decoded_part(
    decoder: Decoder,
    content: dict[str, Any],
    part: str,
    prefix: str = "",
    without: Collection[str] = (),
) -> dict[str, Any]:
    trees = content.get(part)
    if not isinstance(trees, dict):
        raise ValueError(f"its {part} must be an object, got {trees!r:.40}")
    return {
        name: decoder.decode(tree, f"{prefix}{name}")
        for name, tree in trees.items()
        if name not in without
    }


def _check_names(what: str, odd: set[str], known: Iterable[str]) -> None:
    if odd:
        raise ValueError(f"its {what} must be {sorted(known)}, missing or unknown: {sorted(odd)}")


def _checked_changes(
    cls: type, path: Target, changes: dict[str, Any], told: set[str]
) -> dict[str, Any]:
    """Check that all changes are arguments, and that they supply those missing in the file."""
    known = argument_names(cls)
    unknown = sorted(changes.keys() - known)
    if unknown:
        raise ValueError(f"load can replace {', '.join(sorted(known))}; got {', '.join(unknown)}")
    for name in sorted(known - told - changes.keys()):
        raise ValueError(f"{path} was saved without {name}: pass it to load, as {name}=…")
    return changes
