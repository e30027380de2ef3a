"""The directory of a run: its files, its lock and its result."""

import errno
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mviq.env_families import FAMILIES
from mviq.messages import counted
from mviq.runs.config import Config
from mviq.runs.presets import resolve
from mviq.runs.settings import config_yaml, read_file
from mviq.storage import json_bytes, write_durably

PACKAGES = (
    *("mviq", "torch", "numpy", "gymnasium", "stable-baselines3", "sb3-contrib", "numba"),
    *(name for family in FAMILIES for name in family.modules.values()),
)


class RunError(Exception):
    """A run cannot continue for an external reason; the message is one line for the user."""


class BusyError(RunError):
    """Another process is working on the run."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    status: str
    """finished or diverged."""
    steps: int
    message: str = ""


@dataclass(frozen=True)
class LockedDirectory:
    """A directory in which one process works at a time."""

    path: Path

    def remove_unfinished(self) -> None:
        """Remove the temporary files of an earlier session that was killed."""
        for file in self.path.glob(".*.partial*"):
            file.unlink()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold an exclusive lock, which the operating system releases when the process ends."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise BusyError(f"another process is working on {self.path}") from None
        try:
            yield
        finally:
            lock.release()

    @property
    def busy(self) -> bool:
        """Whether another process holds the lock, found out by trying to acquire it."""
        if not (self.path / ".lock").is_file():
            return False
        try:
            with self.locked():
                return False
        except BusyError:
            return True
        except OSError as error:
            if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                return False  # whoever can only read cannot find out
            raise

    def check_idle(self) -> None:
        """Raise ``BusyError`` if another process holds the lock."""
        if self.busy:
            raise BusyError(f"another process is running {self.path}")


class RunDirectory(LockedDirectory):
    """The paths of a run's files, and access to them."""

    config_file = property(lambda self: self.path / "config.yaml")
    system_file = property(lambda self: self.path / "system.json")
    result_file = property(lambda self: self.path / "result.json")
    progress = property(lambda self: self.path / "progress.csv")
    evaluations = property(lambda self: self.path / "evaluations.csv")
    own_metrics = property(lambda self: self.path / "own.csv")
    timing = property(lambda self: self.path / "timing.csv")
    checkpoints = property(lambda self: self.path / "checkpoints")
    tensorboard = property(lambda self: self.path / "tensorboard")
    videos = property(lambda self: self.path / "videos")
    model = property(lambda self: self.path / "model.zip")
    best_model = property(lambda self: self.path / "best_model.zip")

    @property
    def result(self) -> Result | None:
        """Return how the run ended, None if it has not."""
        if not self.result_file.is_file():
            return None
        content = read_json(self.result_file)
        try:
            return Result(**content)
        except TypeError:
            raise ValueError(f"{self.result_file} is damaged: it does not hold a result") from None

    def finish(self, result: Result) -> None:
        """Write result.json."""
        write_durably(self.result_file, json_bytes(asdict(result), indent=2))

    def config(self) -> Config:
        """Return the configuration the run was made with."""
        if not self.config_file.is_file():
            if not self.path.exists():
                raise ValueError(f"there is no run {self.path}")
            inside = _runs_among(self.path.iterdir()) if self.path.is_dir() else []
            instead = f", but holds {_listed(inside)}" if inside else ": it has no config.yaml"
            raise ValueError(f"{self.path} is not the directory of a run{instead}")
        settings = read_file(self.config_file)
        needed = [f.name for f in fields(Config) if not f.metadata["optional"]]
        if missing := [name for name in needed if name not in settings]:
            raise ValueError(
                f"{self.config_file} does not say {missing[0]}: it is damaged, or of another "
                "version of mviq, whose runs this one cannot continue"
            )
        return resolve(**settings)

    def settle(self, config: Config) -> None:
        """Write config.yaml; raise ``RunError`` if the directory belongs to another run."""
        if self.config_file.is_file() and self.config().hash != config.hash:
            raise RunError(f"{self.config_file} was changed: it is not the run of this name")
        write_durably(self.config_file, config_yaml(config).encode())


def find_run(path: Path) -> RunDirectory:
    """Return the run at a path, or the only run whose path begins with it."""
    directory = RunDirectory(path)
    if directory.config_file.is_file():
        return directory
    name = path.name
    if not name or not path.parent.is_dir():
        return directory
    beginning = [p for p in path.parent.iterdir() if p.name.startswith(name)]
    whole_parts = [p for p in beginning if p.name.startswith(name + "_")]  # seed1, not seed10
    for places in (whole_parts, beginning):
        runs = _runs_among(places)
        if len(runs) > 1:
            raise ValueError(f"{path} is the beginning of {_listed(runs)}")
        if runs:
            return runs[0]
    return directory


def _runs_among(places: Iterable[Path]) -> list[RunDirectory]:
    return [run for run in map(RunDirectory, sorted(places)) if run.config_file.is_file()]


def _listed(runs: list[RunDirectory]) -> str:
    names = ", ".join(run.path.name for run in runs[:3]) + ", …" * (len(runs) > 3)
    return f"{counted(len(runs), 'run')}: {names}"


def system() -> dict[str, Any]:
    """Return the versions and the hardware that results can depend on."""
    from mviq.processor import arithmetic

    return {
        "commit": _commit(),
        "versions": {name: _version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        **arithmetic(),
    }


def _commit() -> str | None:
    """Return the commit of mviq's source, with -dirty if it was changed; None if installed."""
    source = Path(__file__).parents[3]
    if not (source / ".git").exists():
        return None
    describe = ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    command = ["git", "-C", str(source), *describe]
    with suppress(OSError, subprocess.CalledProcessError):  # git may be missing
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        return told.stdout.strip()
    return None


def _cpu_model() -> str:
    """Return the name of the processor: others may round matrix products differently."""
    with suppress(OSError):  # only Linux has this file
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a run."""
    try:
        content = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} is damaged: it holds a {type(content).__name__}")
    return content


def write_system(directory: RunDirectory) -> list[str]:
    """Write system.json, and return what has changed since the previous session."""
    now, file = system(), directory.system_file
    before = _that_matters(read_json(file)) if file.is_file() else _that_matters(now)
    write_durably(file, json_bytes(now, indent=2))
    new = _that_matters(now)
    return [f"{x} {before[x]} → {new[x]}" for x in new if x in before and before[x] != new[x]]


def _that_matters(system: dict[str, Any]) -> dict[str, Any]:
    """Return the versions and hardware that can change the last bits of results."""
    names = ("processor", "cpu", "blas", "python")
    return {**system.get("versions", {}), **{x: system[x] for x in names if x in system}}
