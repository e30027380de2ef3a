"""Training sessions in processes of their own, to be killed."""

import multiprocessing
import random
import time
from pathlib import Path

from mviq.runs import Config
from mviq.runs.training import train

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["mviq.runs.training"])  # so that torch is imported once


def session(config: Config, root: Path, ready) -> None:
    ready.set()
    train(config, root)


def train_with_kills(config: Config, root: Path, kills: int, seed: int) -> set[str]:
    """Kill -9 at random moments, so often; then train to the end.

    Every other time the moment is counted from when a new checkpoint appears, so that the run
    gets on. Returns the checkpoints from which killed sessions were continued.
    """
    moments = random.Random(seed)
    places: set[str] = set()
    for number in range(kills):
        process = _started(config, root)
        while number % 2 and process.is_alive() and _newest(root) in places | {""}:
            time.sleep(0.005)
        process.join(moments.uniform(0.0, 0.25))
        assert process.exitcode is None, "the run ended before it could be killed"
        process.kill()
        process.join()
        places |= {_newest(root)} - {""}
    last = _started(config, root)
    last.join()
    assert last.exitcode == 0
    return places


def _started(config: Config, root: Path):
    ready = _SERVER.Event()
    process = _SERVER.Process(target=session, args=(config, root, ready))
    process.start()
    ready.wait()
    return process


def _newest(root: Path) -> str:
    return max((path.name for path in root.glob("*/checkpoints/step_*[0-9]")), default="")
