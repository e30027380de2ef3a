"""Saving and loading as Stable-Baselines3 has it, to files that hold data and no code."""

import io
import os
import pathlib
from collections.abc import Iterable
from typing import Any, Self

import torch
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.her.her_replay_buffer import HerReplayBuffer

from mviq.agents import saving
from mviq.agents.archive import blaming, read_archive
from mviq.agents.parameters import check_parameters
from mviq.agents.replay_files import read_buffer, write_buffer


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
        """Return the agent of a file, or raise a ``ValueError`` that says what is wrong with it.

        ``custom_objects`` and ``kwargs`` replace arguments. With ``force_reset=False`` and
        ``learn(…, reset_num_timesteps=False)`` learning goes on in the middle of an episode of
        ``env``, which must be where it was when the agent was saved.
        """
        changes = {**(custom_objects or {}), **kwargs}
        return saving.load_agent(
            cls,
            path,
            env,
            device,
            changes,
            force_reset=force_reset,
            print_system_info=print_system_info,
        )

    def set_parameters(
        self,
        load_path_or_dict: Any,
        exact_match: bool = True,
        device: torch.device | str = "auto",
    ) -> None:
        """Put weights and optimiser state in place, from a saved agent or a dictionary."""
        if not isinstance(load_path_or_dict, dict):
            archive = read_archive(load_path_or_dict)
            with blaming(load_path_or_dict):
                load_path_or_dict = saving.parameters_for(self, archive)
        elif exact_match:
            check_parameters(self, load_path_or_dict)
        super().set_parameters(load_path_or_dict, exact_match, device)

    def save_replay_buffer(self, path: str | os.PathLike[str]) -> None:  # type: ignore[override]
        """Save the replay buffer as arrays."""
        assert self.replay_buffer is not None
        write_buffer(path, self.replay_buffer)

    def load_replay_buffer(  # type: ignore[override]
        self, path: str | os.PathLike[str], truncate_last_traj: bool = True
    ) -> None:
        """Fill the replay buffer, which must have the kind and size of the one saved.

        ``truncate_last_traj`` matters to a ``HerReplayBuffer`` only, which learns from whole
        episodes: True ends the last one, False lets it go on.
        """
        assert self.replay_buffer is not None
        read_buffer(path, self.replay_buffer)
        if truncate_last_traj and isinstance(self.replay_buffer, HerReplayBuffer):
            self.replay_buffer.truncate_last_trajectory()
