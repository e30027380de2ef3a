"""Saving and loading as Stable-Baselines3 has it, to files that hold data and no code."""

import io
import os
import pathlib
from collections.abc import Iterable
from typing import Any, Self

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv

from mviq.agents import saving


class SafeFiles(OffPolicyAlgorithm):
    """Puts safe files in the place of Stable-Baselines3's pickles."""

    def save(
        self,
        path: str | pathlib.Path | io.BufferedIOBase,
        exclude: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
    ) -> None:
        """Save the agent, without its replay buffer, to a file that holds data and no code.

        ``exclude`` names arguments that cannot be described, such as a learning rate that is
        a function; they must be passed to ``load``.
        """
        if include:
            raise ValueError(f"include is not supported, got {list(include)}")
        saving.save_agent(self, path, set(exclude or ()))

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
        """Return the agent of a file; ``custom_objects`` and ``kwargs`` replace its arguments."""
        return saving.load_agent(cls, path, env, device, {**(custom_objects or {}), **kwargs})

    def set_parameters(
        self,
        load_path_or_dict: Any,
        exact_match: bool = True,
        device: torch.device | str = "auto",
    ) -> None:
        """Put weights and optimiser state in place, from a saved agent or a dictionary."""
        if not isinstance(load_path_or_dict, dict):
            _, policy, optimizer = saving.read_archive(load_path_or_dict)
            load_path_or_dict = {"policy": policy, "policy.optimizer": optimizer}
        super().set_parameters(load_path_or_dict, exact_match, device)

    def save_replay_buffer(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Save the replay buffer as arrays."""
        assert self.replay_buffer is not None
        saving.write_buffer(path, self.replay_buffer)

    def load_replay_buffer(  # type: ignore[override]
        self, path: str | os.PathLike[str], truncate_last_traj: bool = True
    ) -> None:
        """Fill the replay buffer, which must have the kind and size of the one saved."""
        assert self.replay_buffer is not None
        saving.read_buffer(path, self.replay_buffer)
