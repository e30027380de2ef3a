"""Experiment trackers: Weights & Biases, MLflow and Trackio.

Where the data go is set by the tracker's own settings, such as WANDB_MODE=offline or
MLFLOW_TRACKING_URI. A resumed run continues the same run there, without duplicate rows.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from filelock import FileLock
from stable_baselines3.common.logger import KVWriter

from mviq.runs.checkpoint import made
from mviq.runs.config import Config
from mviq.runs.directory import RunDirectory, RunError, read_json
from mviq.runs.tracking import logged_rows, only_numbers
from mviq.storage import json_bytes, write_durably

PROJECT = "mviq"
_LONGEST_TAG = 64  # characters that Weights & Biases takes


class About(NamedTuple):
    """The study that a run belongs to, and its label there."""

    study: str = ""
    label: str = ""


NOTHING = About()


@dataclass
class Sent:
    """What has been sent to a tracker, as stored in a file of the run's directory."""

    id: str = ""
    """The tracker's id of the run."""
    step: int = -1
    """The step of the last row."""
    study: str = ""
    label: str = ""


class Backend(Protocol):
    """A run at a tracker."""

    id: str

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Send a row."""

    def finish(self) -> None:
        """End the session."""


class _RunObject:
    """The methods that runs of Weights & Biases and of Trackio share."""

    _run: Any

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def finish(self) -> None:
        self._run.finish()


class WandbRun(_RunObject):
    """A run of Weights & Biases: the study is its group, label and seed are tags."""

    def __init__(self, directory: RunDirectory, config: Config, sent: Sent) -> None:
        import wandb

        self.id = sent.id or uuid4().hex[:12]
        tags = [tag[:_LONGEST_TAG] for tag in (sent.label, f"seed {config.seed}") if tag]
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=self.id,
            name=config.name,
            group=sent.study or None,
            tags=tags,
            config=asdict(config),
            dir=directory.path,
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(silent=True, console="off"),
        )


class TrackioRun(_RunObject):
    """A run of Trackio: the study is its group, label and seed are settings."""

    def __init__(self, directory: RunDirectory, config: Config, sent: Sent) -> None:
        import trackio

        self.id = sent.id or f"{config.name}_{uuid4().hex[:6]}"
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=self.id,
            group=sent.study or None,
            config={**asdict(config), "label": sent.label},
            resume="allow",
            embed=False,
        )


class MlflowRun:
    """A run of MLflow: the study is its experiment, study, label and seed are tags."""

    def __init__(self, directory: RunDirectory, config: Config, sent: Sent) -> None:
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._directory, self.id = directory, sent.id
        # Without a lock, each of the first runs of a study would create database and experiment.
        with FileLock(directory.path.parent / ".mlflow.lock"):
            self._client = MlflowClient()
            experiment = self._experiment(sent.study or PROJECT)
        if self.id:
            self._client.update_run(self.id, status="RUNNING")
        else:
            tags = {"study": sent.study, "label": sent.label, "seed": str(config.seed)}
            run = self._client.create_run(experiment, tags=tags, run_name=config.name)
            self.id = run.info.run_id
            settings = [Param(name, str(value)) for name, value in asdict(config).items()]
            self._client.log_batch(self.id, params=settings)

    def _experiment(self, name: str) -> str:
        known = self._client.get_experiment_by_name(name)
        return str(self._client.create_experiment(name) if known is None else known.experiment_id)

    def log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        rows = [Metric(name, value, now, step) for name, value in values.items()]
        self._client.log_batch(self.id, metrics=rows)

    def finish(self) -> None:
        ended = self._directory.result is not None
        self._client.set_terminated(self.id, "FINISHED" if ended else "KILLED")


TRACKERS: dict[str, Callable[[RunDirectory, Config, Sent], Backend]] = {
    "wandb": WandbRun,
    "mlflow": MlflowRun,
    "trackio": TrackioRun,
}


def check_tracker(name: str) -> None:
    """Raise ``RunError`` with what to install if a tracker is missing."""
    if name in TRACKERS and find_spec(name) is None:
        raise RunError(f"--track {name} needs an extra: pip install 'mviq[{name}]'")


class TrackerWriter(KVWriter):
    """Sends logged values to a tracker, each step once."""

    def __init__(self, name: str, directory: RunDirectory, config: Config, about: About) -> None:
        check_tracker(name)
        self._file = directory.path / f"{name}.json"
        self._sent = Sent(study=about.study, label=about.label)
        if self._file.is_file():
            try:
                self._sent = made(Sent, read_json(self._file))
            except TypeError as error:
                raise ValueError(f"{self._file} is damaged: {error}") from None
        self._run = TRACKERS[name](directory, config, self._sent)
        self._sent.id = self._run.id
        self._keep()
        for step, _, values in logged_rows(directory):  # rows not sent before a crash
            self._send(values, step)

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        self._send(only_numbers(key_values), step)

    def _send(self, values: Mapping[str, Any], step: int) -> None:
        if step > self._sent.step:
            numbers = {name: float(value) for name, value in values.items()}
            self._run.log(numbers, step)
            self._sent.step = step
            self._keep()

    def _keep(self) -> None:
        write_durably(self._file, json_bytes(asdict(self._sent), indent=1))

    def close(self) -> None:
        self._run.finish()
