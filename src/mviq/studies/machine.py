"""What this machine has to give: cores, memory and disk, as far as this process may use them."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Return how many processors this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quotas = [_words(group, "cpu.max") for group in _groups()]
    limits = [int(quota[0]) // int(quota[1]) for quota in quotas if quota[:1] not in ([], ["max"])]
    return max(1, min([allowed or 1, *limits]))


def available_memory() -> int | None:
    """Return how many bytes can still be used without swapping, None if that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return min([free, *_left_in_groups()])


def free_disk(path: Path) -> int:
    """Return how many bytes can be written where a directory is, or will be."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free


def _left_in_groups() -> Iterator[int]:
    """Return the memory that each control group leaves; files kept in it can be let go of."""
    for group in _groups():
        limit, used = _words(group, "memory.max"), _words(group, "memory.current")
        if limit and used and limit[0].isdigit():
            words = _words(group, "memory.stat")
            kept = dict(zip(words[::2], words[1::2], strict=False)).get("inactive_file", "0")
            yield int(limit[0]) - int(used[0]) + int(kept)


def _groups() -> list[Path]:
    """Return the control group (version 2) of this process and those it is in."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = [Path(line.removeprefix("0::")) for line in lines if line.startswith("0::")]
    return [_CGROUPS / place.relative_to("/") for one in own for place in (one, *one.parents)]


def _words(group: Path, name: str) -> list[str]:
    """Return what a control group says, or nothing."""
    try:
        return (group / name).read_text().split()
    except OSError:
        return []
