"""The cores, memory and disk of this machine that the process may use."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Return the number of cores this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quotas = [_words(group, "cpu.max") for group in _groups()]
    limits = [int(quota[0]) // int(quota[1]) for quota in quotas if quota[:1] not in ([], ["max"])]
    return max(1, min([allowed or 1, *limits]))


def available_memory() -> int | None:
    """Return the bytes that can be used without swapping, None if unknown."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    return min([free, *_left_in_groups()])


def free_disk(path: Path) -> int:
    """Return the free bytes of the disk of a directory that may not exist yet."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free


def _left_in_groups() -> Iterator[int]:
    """Yield the memory left in each control group, counting cached files as free."""
    for group in _groups():
        limit, used = _words(group, "memory.max"), _words(group, "memory.current")
        if limit and used and limit[0].isdigit():
            words = _words(group, "memory.stat")
            kept = dict(zip(words[::2], words[1::2], strict=False)).get("inactive_file", "0")
            yield int(limit[0]) - int(used[0]) + int(kept)


def _groups() -> list[Path]:
    """Return the control group (version 2) of this process and its parents."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    own = [Path(line.removeprefix("0::")) for line in lines if line.startswith("0::")]
    return [_CGROUPS / place.relative_to("/") for one in own for place in (one, *one.parents)]


def _words(group: Path, name: str) -> list[str]:
    """Return the words of a file of a control group, none if it cannot be read."""
    try:
        return (group / name).read_text().split()
    except OSError:
        return []
