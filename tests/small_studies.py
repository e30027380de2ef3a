"""Studies so small that their runs take seconds, and what tests do with them."""

import os
import time
from pathlib import Path

import yaml

from mviq.studies.study_directory import StudyDirectory
from small_runs import COMMON

TINY = {**COMMON, "hidden": [16]}
CLOCK = 240.0  # seconds after which a test gives up waiting; a busy machine starts slowly


def write_study(place: Path, **content) -> Path:
    """Write a study file: two algorithms on CartPole, unless something else is said."""
    settings = {**TINY, **content.pop("settings", {})}
    content = {
        "name": "tiny",
        "environments": ["CartPole-v1"],
        "algorithms": [{"label": "MVI(2)", "q": 2}, {"label": "DQN", "algorithm": "vi"}],
        **content,
        "settings": settings,
    }
    file = place / f"{content['name']}.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


def wait_until(condition, what: str):
    """Wait until a condition holds, and return what it returned."""
    began = time.monotonic()
    while not (found := condition()):
        assert time.monotonic() - began < CLOCK, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


def workers_of(directory: StudyDirectory) -> list[int]:
    """Return the processes that do runs of a study, whoever started them."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            words = (place / "cmdline").read_bytes().split(b"\0") if place.name.isdigit() else []
        except OSError:
            continue
        if b"mviq.studies.worker" in words and os.fsencode(directory.path) in words:
            found.append(int(place.name))
    return found
