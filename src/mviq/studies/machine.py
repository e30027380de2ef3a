"""What this machine has to give: cores, memory and disk, as far as this process may use them."""

import math
import os
import shutil
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def cores() -> int:
    """Return how many processors this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota, _, period = _limit("cpu.max").partition(" ")
    limit = int(quota) / int(period) if quota.isdigit() else math.inf
    return max(1, min(allowed or 1, math.floor(limit) if limit < math.inf else allowed or 1))


def available_memory() -> int | None:
    """Return how many bytes can still be used without swapping, None if that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit, used = _limit("memory.max"), _limit("memory.current")
    return min(free, int(limit) - int(used)) if limit.isdigit() and used.isdigit() else free


def free_disk(path: Path) -> int:
    """Return how many bytes can be written where a directory is, or will be."""
    there = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free


def _limit(name: str) -> str:
    """Return what the control group of this process says, or nothing."""
    try:
        own = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2]
        return (_CGROUPS / own.lstrip("/") / name).read_text().strip()
    except (OSError, IndexError):
        return ""
