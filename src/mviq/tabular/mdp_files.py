"""MDP files: a NumPy archive of plain arrays, which is loaded without executing any code."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mviq.storage import appearing
from mviq.tabular.mdp import MDP, Grid

FORMAT = 1
_FIELDS = {
    "format", "probabilities", "next_states", "row_ends", "rewards", "discount", "start",
    "terminal", "name",
}  # fmt: skip


def save_mdp(mdp: MDP, path: str | os.PathLike[str]) -> None:
    """Write an MDP to a new file.

    The fields: ``probabilities``, ``next_states`` and ``row_ends`` are the three arrays of
    a compressed sparse row matrix; ``rewards``, ``discount``, ``start``, ``terminal`` and
    ``name`` are those of ``MDP``; ``tiles`` and ``moves`` are stored if it has a map.
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    fields: dict[str, Any] = {
        "format": FORMAT,
        "probabilities": mdp.transitions.data,
        "next_states": mdp.transitions.indices,
        "row_ends": mdp.transitions.indptr,
        "rewards": mdp.rewards,
        "discount": mdp.discount,
        "start": mdp.start,
        "terminal": mdp.terminal,
        "name": mdp.name,
    }
    if mdp.grid is not None:
        fields |= {"tiles": np.array(mdp.grid.tiles), "moves": np.array(mdp.grid.moves)}
    with appearing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, **fields)


def load_mdp(path: str | os.PathLike[str]) -> MDP:
    """Load an MDP from a file; pickles are refused, and every field is checked."""
    try:
        with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            fields = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except Exception as reason:  # NumPy and zipfile raise many types for damaged files
        raise ValueError(f"{path} is not an MDP file: {reason}") from None
    if missing := sorted(_FIELDS - fields.keys()):
        raise ValueError(f"{path} is not an MDP file: it has no {', '.join(missing)}")
    if fields["format"] != FORMAT:
        raise ValueError(f"{path} has format {fields['format']}, expected {FORMAT}")
    try:
        return _mdp(fields)
    except (ValueError, TypeError, IndexError, OverflowError, MemoryError) as reason:
        raise ValueError(f"{path}: {reason}") from None


def _mdp(fields: dict[str, Any]) -> MDP:
    rewards = np.ascontiguousarray(fields["rewards"], dtype=np.float64)
    if rewards.ndim != 2:
        raise ValueError(f"rewards must have shape (states, actions), got {rewards.shape}")
    ends, data = fields["row_ends"], np.asarray(fields["probabilities"], dtype=np.float64)
    if ends.size != rewards.size + 1 or (np.diff(ends) < 0).any() or ends[-1] != data.size:
        raise ValueError("row_ends must grow from 0 to the number of probabilities")
    if np.asarray(fields["next_states"]).dtype.kind not in "iu":
        raise ValueError(f"next_states must be integers, got {fields['next_states'].dtype}")
    matrix = sparse.csr_array(
        (data, fields["next_states"], ends), shape=(rewards.size, rewards.shape[0])
    )
    grid = None
    if "tiles" in fields and "moves" in fields:
        moves = tuple((int(down), int(right)) for down, right in fields["moves"])
        grid = Grid(tuple(str(row) for row in fields["tiles"]), moves)
    return MDP(
        matrix,
        rewards,
        float(fields["discount"]),
        np.asarray(fields["start"], dtype=np.float64),
        np.asarray(fields["terminal"], dtype=bool),
        str(fields["name"]),
        grid,
    )
