"""Files: what is written is read back, and nothing in a file is executed or trusted."""

import pickle
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from mviq.tabular import MDP, from_gym, garnet, load_mdp, save_mdp


@pytest.mark.parametrize("mdp", [garnet(20, seed=3), from_gym("FrozenLake-v1")], ids=str)
def test_round_trip(mdp: MDP, tmp_path: Path) -> None:
    save_mdp(mdp, str(tmp_path / "a.npz"))
    loaded = load_mdp(str(tmp_path / "a.npz"))
    assert (loaded.transitions != mdp.transitions).nnz == 0
    for name in ("rewards", "start", "terminal"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(mdp, name))
    assert (loaded.discount, loaded.name, loaded.grid) == (mdp.discount, mdp.name, mdp.grid)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]  # no temporary is left


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    save_mdp(garnet(5), tmp_path / "a.npz")
    with pytest.raises(FileExistsError, match=r"a\.npz"):
        save_mdp(garnet(6), tmp_path / "a.npz")


class Harmful:
    """Would be run by an unpickler."""

    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("a file was executed",)


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw.npz").write_bytes(pickle.dumps(Harmful()))
    np.savez(tmp_path / "inside.npz", rewards=np.array([Harmful()], dtype=object))
    for name in ("raw.npz", "inside.npz"):
        with pytest.raises(ValueError, match="is not an MDP file"):
            load_mdp(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2}, "has format 2, expected 1"),
        ({"discount": 1.5}, "discount"),
        ({"row_ends": np.arange(5)}, "row_ends must grow"),
        ({"next_states": np.full(100, 99, dtype=np.int32)}, "outside 0 … 4"),
        ({"rewards": np.zeros(20)}, "rewards must have shape"),
    ],
)
def test_a_broken_file_is_named(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    save_mdp(garnet(5), tmp_path / "good.npz")
    fields = dict(np.load(tmp_path / "good.npz"))
    np.savez(tmp_path / "bad.npz", **(fields | changes))
    with pytest.raises(ValueError, match=rf"bad\.npz.*{message}"):
        load_mdp(tmp_path / "bad.npz")


def test_missing_fields_and_other_files_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "part.npz", rewards=np.zeros((1, 1)))
    with pytest.raises(ValueError, match=r"has no discount"):
        load_mdp(tmp_path / "part.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(ValueError, match="is not an MDP file"):
        load_mdp(tmp_path / "text.npz")
    np.save(tmp_path / "array.npy", np.zeros(3))
    with pytest.raises(ValueError, match="is not an MDP file"):
        load_mdp(tmp_path / "array.npy")


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_byte_is_refused_or_harmless(seed, tmp_path):
    save_mdp(garnet(5), tmp_path / "good.npz")
    content = bytearray((tmp_path / "good.npz").read_bytes())
    place, other = np.random.default_rng(seed).integers((len(content), 256))
    content[place] = other
    (tmp_path / "bad.npz").write_bytes(bytes(content))
    with suppress(ValueError):
        load_mdp(tmp_path / "bad.npz")
