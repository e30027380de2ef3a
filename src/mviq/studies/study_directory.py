"""The directory of a study: its plan, its runs, their failures and its lock.

Reports use it, so nothing here imports torch.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mviq.runs.directory import LockedDirectory, RunDirectory
from mviq.runs.presets import check_names
from mviq.runs.settings import convert
from mviq.storage import json_bytes, write_durably
from mviq.studies.definition import Settings, returns_from

FORMAT = 1


@dataclass(frozen=True)
class PlannedRun:
    """A run of a study."""

    run: str
    """The name of its directory."""
    label: str
    env: str
    seed: int
    settings: Settings
    """The settings given by the study, apart from environment and seed."""

    @property
    def title(self) -> str:
        """The name of the run in messages."""
        return f"{self.label} {self.env} seed {self.seed}"


@dataclass(frozen=True)
class Plan:
    """The runs of a study."""

    name: str
    description: str
    baseline: str | None
    """The label that improvements are measured against."""
    runs: tuple[PlannedRun, ...]
    returns: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The lowest and highest possible return of environments, where the study gives them."""


@dataclass(frozen=True)
class Failure:
    """Why a run ended without a result."""

    reason: str
    attempts: int
    when: int | None
    """The step it had reached, if known."""
    killed: bool = False
    """Whether it was killed from outside, in which case it is retried."""


class OtherStudyError(ValueError):
    """The directory contains runs that are not part of the study."""


class StudyDirectory(LockedDirectory):
    """The paths of a study's files, and access to them."""

    study_file = property(lambda self: self.path / "study.yaml")
    plan_file = property(lambda self: self.path / "plan.json")
    runs = property(lambda self: self.path / "runs")
    logs = property(lambda self: self.path / "logs")
    measured = property(lambda self: self.path / ".measured.json")
    journal = property(lambda self: self.path / "trials.jsonl")

    @property
    def is_search(self) -> bool:
        """Whether the runs belong to a search."""
        return bool(self.journal.is_file())

    def plan(self) -> Plan:
        """Return the stored plan."""
        if not self.plan_file.is_file():
            raise ValueError(f"{self.path} is not the directory of a study: it has no plan.json")
        try:
            return _read_plan(json.loads(self.plan_file.read_text(encoding="utf-8")))
        except ValueError as error:  # including errors of JSON
            raise ValueError(f"{self.plan_file} cannot be read: {error}") from None

    def run(self, name: str) -> RunDirectory:
        """Return the directory of a run."""
        return RunDirectory(self.runs / name)

    def log(self, name: str) -> Path:
        """Return the log file of a run."""
        return Path(self.logs / f"{name}.log")

    def failure(self, name: str) -> Failure | None:
        """Return the failure of a run, None if it did not fail or has finished since."""
        file = self._failure_file(name)
        if not file.is_file() or self.run(name).result_file.is_file():
            return None
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            kinds = {"reason": str, "attempts": int, "when": int | None, "killed": bool}
            return Failure(**_fields(content, **kinds))
        except ValueError as error:  # the run has failed in any case; the others go on
            return Failure(f"{file} cannot be read: {error}", attempts=1, when=None)

    def note_failure(self, name: str, failure: Failure) -> None:
        """Store the failure of a run."""
        write_durably(self._failure_file(name), json_bytes(asdict(failure), indent=1))

    def forget_failure(self, name: str) -> None:
        """Remove the failure of a run that has finished or is retried."""
        self._failure_file(name).unlink(missing_ok=True)

    def _failure_file(self, name: str) -> Path:
        return Path(self.runs / name / "failure.json")

    def check_owner(self, plan: Plan, drop: bool = False) -> None:
        """Refuse a plan that lacks stored runs, unless they are to be dropped."""
        if not self.plan_file.is_file():
            there = {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()
            if any(not name.startswith(".") for name in there - {self.study_file.name}):
                raise ValueError(f"{self.path} has something in it that is not a study")
            return
        planned, wanted = self.plan().runs, {run.run for run in plan.runs}
        missing = [run for run in planned if run.run not in wanted]
        if missing and not drop:
            raise OtherStudyError(
                f"{self.path} belongs to another study: {_lacking(missing[0], plan)} "
                f"({len(missing)} of {len(planned)} runs); give it another name"
            )

    def settle(self, study_file: str, plan: Plan, drop: bool = False) -> None:
        """Store the study and its plan."""
        self.check_owner(plan, drop)
        content = json_bytes({"format": FORMAT, **asdict(plan)}, indent=1)
        self.remove_unfinished()
        write_durably(self.study_file, study_file.encode())
        write_durably(self.plan_file, content)


def _lacking(run: PlannedRun, plan: Plan) -> str:
    """Explain why a stored run is missing in a plan."""
    for twin in plan.runs:
        if twin.title == run.title:
            now, before = twin.settings, run.settings
            names = sorted(x for x in now.keys() | before.keys() if now.get(x) != before.get(x))
            what = ", ".join(names) or "default, which has changed since,"
            return f"{run.title!r} has another {what} there"
    return f"{run.title!r} of it is not in this one"


def _read_plan(content: Any) -> Plan:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"format must be {FORMAT}")
    plan = _fields(content, name=str, description=str, baseline=str | None, runs=list)
    returns = returns_from(content.get("returns", {}))
    return Plan(**{**plan, "runs": tuple(map(_read_run, plan["runs"])), "returns": returns})


def _read_run(content: Any) -> PlannedRun:
    run = _fields(content, run=str, label=str, env=str, seed=int, settings=dict)
    if Path(run["run"]).name != run["run"]:
        raise ValueError(f"run must be the name of a directory, got {run['run']!r}")
    check_names(run["settings"])
    settings = {name: convert(name, value) for name, value in run["settings"].items()}
    return PlannedRun(**{**run, "settings": settings})


def _fields(content: Any, **kinds: Any) -> dict[str, Any]:
    """Return the fields of a JSON object; raise ``ValueError`` if one has the wrong type."""
    fields = {}
    for name, kind in kinds.items():
        value = fields[name] = content.get(name) if isinstance(content, dict) else None
        if not isinstance(value, kind):
            raise ValueError(f"{name} must be {getattr(kind, '__name__', kind)}, got {value!r}")
    return fields
