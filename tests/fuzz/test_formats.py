"""Every format that is read, damaged at random: read all the same, or refused in one line.

A new format is one row of ``FORMATS``. ``make fuzz`` tries thousands of times, continuous
integration a few.
"""

import io
import json
import random
import re
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy

from fuzz.mutations import Change, bits, text, tree, tries
from mviq.agents import MVI
from mviq.reports.reading import load_study
from mviq.runs.directory import RunError
from mviq.runs.settings import config_yaml, read_file
from mviq.runs.training import train
from mviq.storage import digest
from mviq.studies.study_file import read_study
from mviq.studies.tuning.search_file import read_search
from mviq.tabular import garnet, load_mdp, save_mdp
from small_runs import atari, cartpole, crash, minatar
from small_studies import write_study
from stored_runs import write_run

SMALL = {"policy_kwargs": {"net_arch": [4]}, "buffer_size": 20, "seed": 0, "device": "cpu"}
SPACE = {"gamma": {"low": 0.9, "high": 0.99}, "hidden": {"choices": [[4], [8]]}}
TOML = 'name = "tiny"\nenvironments = ["CartPole-v1"]\nseeds = 2\n[grid]\nq = [1, 2]\n'
RUN = cartpole(total_steps=60, learning_starts=20, eval_every=20, checkpoint_every=20)
BOARD = minatar(total_steps=60, learning_starts=20, eval_every=0, checkpoint_every=20)
GAME = atari(total_steps=60, learning_starts=50, checkpoint_every=20)


class Format(NamedTuple):
    """Where a good file is made, under which name, what reads it, and how it is damaged."""

    file: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    change: Change
    cost: int = 1  # a file that takes so much longer is tried so much less often


def agent() -> MVI:
    return MVI("MlpPolicy", "CartPole-v1", **SMALL).learn(25)


def part(name: str, change: Change) -> Change:
    """Damage one part of an archive."""

    def changed(content: bytes, rng: random.Random) -> bytes:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = {part: archive.read(part) for part in archive.namelist()}
        parts[name] = change(parts[name], rng)
        with io.BytesIO() as buffer:
            with zipfile.ZipFile(buffer, "w") as archive:
                for part, data in parts.items():
                    archive.writestr(part, data)
            return buffer.getvalue()

    return changed


def numbers(content: bytes, rng: random.Random) -> bytes:
    """Replace, reshape or rename an array of a safetensors file."""
    arrays = safetensors.numpy.load(content)
    with np.errstate(all="ignore"):
        return safetensors.numpy.save(_changed(arrays, rng))


def _changed(arrays: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    kind = rng.randrange(5)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = array.reshape(-1)[: rng.randrange(array.size + 1)].copy()
    elif kind == 2:
        arrays[name] = array.astype(rng.choice(("float64", "int8", "uint8", "bool")))
    elif kind == 3:
        arrays[f"{name}.more"] = array
    else:
        wrong = rng.choice((-1, 2**31 - 1, 255))
        arrays[name] = np.full(array.shape, wrong).astype(array.dtype)
    return arrays


def emulator(content: bytes, rng: random.Random) -> bytes:
    """Damage the emulator's state, which a checkpoint's tree holds as digits."""
    (state,) = re.findall(rb'"bytes": \["([0-9a-f]{9999,})', content)
    return content.replace(state, bits(bytes.fromhex(state.decode()), rng).hex().encode())


def load_agent(path: Path) -> None:
    MVI.load(path, device="cpu").predict([0.0, 0, 0, 0])


def load_replay(path: Path) -> None:
    MVI("MlpPolicy", "CartPole-v1", **SMALL).load_replay_buffer(path)


def interrupted(config: Any) -> Callable[[Path], Any]:
    return lambda path: crash(config, run_of(path).parent, 45)


def run_of(path: Path) -> Path:
    return next(place.parent for place in path.parents if place.name == "checkpoints")


def go_on(config: Any) -> Callable[[Path], Any]:
    def read(path: Path) -> None:
        _sign(path)
        train(config, run_of(path).parent)

    return read


def _sign(path: Path) -> None:
    """Make the digests right again: a checkpoint by intent, not by damage."""
    places = [path.parent] if path.suffix != ".safetensors" or "step" in path.parent.name else []
    for place in places or sorted(path.parents[1].glob("step_*")):
        file = place / "manifest.json"
        try:
            manifest = json.loads(file.read_bytes())["manifest"]
            for name in manifest["files"]:
                manifest["files"][name] = digest((place / name).read_bytes())
            for segment in manifest["segments"]:
                content = (path.parents[1] / "replay" / segment["file"]).read_bytes()
                segment["sha256"] = digest(content)
        except (ValueError, KeyError, TypeError, AttributeError, OSError):
            continue
        sha256 = digest(json.dumps(manifest, sort_keys=True).encode())
        file.write_text(json.dumps({"manifest": manifest, "sha256": sha256}))


FORMATS = {
    "agent": Format("a.zip", lambda p: agent().save(p), load_agent, bits),
    "agent.json": Format("a.zip", lambda p: agent().save(p), load_agent, part("agent.json", tree)),
    "agent arrays": Format(
        "a.zip", lambda p: agent().save(p), load_agent, part("arrays.safetensors", numbers)
    ),
    "replay": Format("r.safetensors", lambda p: agent().save_replay_buffer(p), load_replay, bits),
    "replay arrays": Format(
        "r.safetensors", lambda p: agent().save_replay_buffer(p), load_replay, numbers
    ),
    "mdp": Format("m.npz", lambda p: save_mdp(garnet(5), p), load_mdp, bits),
    "config.yaml": Format("c.yaml", lambda p: p.write_text(config_yaml(RUN)), read_file, text),
    "study.yaml": Format("tiny.yaml", lambda p: write_study(p.parent), read_study, text),
    "study.toml": Format("tiny.toml", lambda p: p.write_text(TOML), read_study, text),
    "tune.yaml": Format(
        "tiny.yaml",
        lambda p: write_study(p.parent, algorithms=["mvi"], tune={"trials": 3, "space": SPACE}),
        read_search,
        text,
    ),
    **{
        f"report of {name}": Format(
            f"run/{name}",
            lambda p: write_run(p.parent, [1, 2, 3, 4]),
            lambda p: load_study(p.parent),
            change,
        )
        for name, change in {
            "config.yaml": text,
            "system.json": tree,
            "result.json": tree,
            "progress.csv": bits,
            "evaluations.csv": bits,
        }.items()
    },
    **{
        f"checkpoint of {config.env}, {name} by {change.__name__}": Format(
            f"{config.name}/checkpoints/{name}", interrupted(config), go_on(config), change, cost=6
        )
        for config in (RUN, BOARD)
        for name, change in (
            ("step_000000000040/state.json", tree),
            ("step_000000000040/state.json", bits),
            ("step_000000000040/arrays.safetensors", numbers),
            ("step_000000000040/manifest.json", tree),
            ("replay/rows-000000000020-000000000040.safetensors", numbers),
        )
    },
    "checkpoint of an emulator": Format(
        f"{GAME.name}/checkpoints/step_000000000040/state.json",
        *(interrupted(GAME), go_on(GAME), emulator, 12),
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_it_is_read_or_refused_in_one_line(name, tmp_path):
    case = FORMATS[name]
    good = tmp_path / "good" / case.file
    (tmp_path / "good").mkdir()
    case.write(good)
    content, broken = good.read_bytes(), []
    for number, rng in enumerate(tries(name, case.cost)):
        place = tmp_path / str(number)
        shutil.copytree(tmp_path / "good", place)
        (place / case.file).write_bytes(case.change(content, rng))
        broken += complaint(case, place, number)
    assert not broken


def complaint(case: Format, place: Path, number: int) -> list[str]:
    """Return what is wrong with how a damaged file is answered, if anything."""
    try:
        case.read(place / case.file)
    except (ValueError, RunError, OSError) as error:
        message = str(error)
    except Exception as error:
        return [f"{number}: {error!r:.200}"]
    else:
        return []
    good = str(place) in message and len(message.splitlines()) == 1 and len(message) < 1500
    return [] if good else [f"{number}: {message:.200}"]
