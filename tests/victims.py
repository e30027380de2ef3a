"""Training sessions in processes of their own, to be killed."""

import multiprocessing
import random
from pathlib import Path

from mviq.runs import Config
from mviq.runs.training import train

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["mviq.runs.training"])  # so that torch is imported once


def session(config: Config, root: Path, ready) -> None:
    ready.set()
    train(config, root)


def train_with_kills(config: Config, root: Path, kills: int, longest: float, seed: int) -> int:
    """Kill -9 at random moments, so often; then train to the end. Returns how often it hit."""
    moments = random.Random(seed)
    hit = 0
    for last in [False] * kills + [True]:
        ready = _SERVER.Event()
        process = _SERVER.Process(target=session, args=(config, root, ready))
        process.start()
        ready.wait()
        process.join(None if last else moments.uniform(0.0, longest))
        hit += process.is_alive()
        process.kill()
        process.join()
    assert process.exitcode == 0
    return hit
