"""Trackers without a network: every row arrives once, in one run, however often it was resumed."""

import json
import struct

import pytest
from filelock import FileLock, Timeout

from mviq.runs.building import check_config
from mviq.runs.directory import Result, RunDirectory, RunError
from mviq.runs.tables import read_rows
from mviq.runs.trackers import TRACKERS, About, Sent, TrackerWriter
from mviq.runs.training import train
from small_runs import CrashError, Crashing, cartpole
from small_studies import wait_until

ABOUT = About("tiny", "MVI(2)")


def tracked_with_a_crash(tracker, place):
    """Return a run that was tracked in two sessions, the steps it logged, and its returns."""
    config = cartpole(track=tracker, total_steps=600, seed=3)
    with pytest.raises(CrashError):
        train(config, place, Crashing(350), ABOUT)  # the rows after the checkpoint are lost
    train(config, place)  # as mviq resume, which does not know the study
    run = RunDirectory(place / config.name)
    rows = read_rows(run.progress)
    steps = [int(row["time/total_timesteps"]) for row in rows]
    evaluations = [float(row["eval/mean_reward"]) for row in rows if "eval/mean_reward" in row]
    return run, steps, evaluations


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # MLflow's, of its own dependencies
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'store'}")
    _, steps, evaluations = tracked_with_a_crash("mlflow", tmp_path / "runs")
    client = mlflow.MlflowClient()
    experiment = client.get_experiment_by_name("tiny")
    (run,) = client.search_runs([experiment.experiment_id])
    told = {"study": "tiny", "label": "MVI(2)", "seed": "3"}
    assert told.items() <= run.data.tags.items()
    assert (run.data.params["q"], run.info.status) == ("2.0", "FINISHED")
    logged = client.get_metric_history(run.info.run_id, "rollout/exploration_rate")
    assert [metric.step for metric in logged] == steps
    returns = client.get_metric_history(run.info.run_id, "eval/mean_reward")
    assert [metric.value for metric in returns] == evaluations


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_interrupted_run_is_not_finished_for_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path / 'store'}")
    directory, sent = RunDirectory(tmp_path / "run"), Sent()
    directory.path.mkdir()

    def status():
        return mlflow.MlflowClient().get_run(sent.id).info.status

    for _ in range(2):  # in the second session it runs again
        session = TRACKERS["mlflow"](directory, cartpole(), sent)
        sent.id = session.id
        assert status() == "RUNNING"
        session.finish()
        assert status() == "KILLED"
    directory.finish(Result("finished", 1000, ""))
    session.finish()
    assert status() == "FINISHED"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_runs_that_start_together_do_not_make_the_store_of_mlflow_together(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")

    def client():
        with pytest.raises(Timeout):  # whoever holds the lock works alone
            FileLock(tmp_path / ".mlflow.lock", timeout=0).acquire()
        raise CrashError

    monkeypatch.setattr(mlflow, "MlflowClient", client)
    config = cartpole(track="mlflow")
    with pytest.raises(CrashError):
        TRACKERS["mlflow"](RunDirectory(tmp_path / config.name), config, Sent())


def leveldb_records(content: bytes) -> list[bytes]:
    """Return the records of a log in the format of LevelDB, after wandb's header."""
    records, place, block = [], 7, 2**15
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block
            continue
        _, size, kind = struct.unpack_from("<IHB", content, place)
        part = content[place + 7 : place + 7 + size]
        if kind in (1, 2):  # whole, or the first part
            records.append(part)
        else:
            records[-1] += part
        place += 7 + size
    return records


def wandb_records(run):
    """Return the records that wandb has written, in the order of the sessions."""
    from wandb.proto.wandb_internal_pb2 import Record

    files = sorted(run.path.glob("wandb/offline-run-*/*.wandb"))
    return [Record.FromString(x) for file in files for x in leveldb_records(file.read_bytes())]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # those of its own dependencies
def test_wandb_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run, steps, _ = tracked_with_a_crash("wandb", tmp_path)

    def both_ended():  # which a process of wandb's own writes
        records = wandb_records(run)
        return records if sum(record.HasField("exit") for record in records) == 2 else None

    records = wait_until(both_ended, "wandb to write its files")
    told = [record.run for record in records if record.HasField("run")]
    assert {(one.run_group, *one.tags) for one in told} == {("tiny", "MVI(2)", "seed 3")}
    assert len({one.run_id for one in told}) == 1
    assert [x.history.step.num for x in records if x.HasField("history")] == steps


def test_trackio(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "store"))
    pytest.importorskip("trackio", reason="it does not install beside the newest Pillow")
    run, steps, _ = tracked_with_a_crash("trackio", tmp_path / "runs")
    assert json.loads((run.path / "trackio.json").read_text())["step"] == steps[-1]


@pytest.mark.parametrize("name", TRACKERS)
def test_a_tracker_that_is_not_installed_is_named_before_anything_starts(name, monkeypatch):
    monkeypatch.setattr("mviq.runs.trackers.find_spec", lambda module: None)
    with pytest.raises(
        RunError, match=rf"--track {name} needs an extra: pip install 'mviq\[{name}"
    ):
        check_config(cartpole(track=name))


@pytest.fixture
def shown(monkeypatch):
    """A tracker that keeps what it is told."""
    rows = []

    class Kept:
        id = "one"

        def log(self, values, step):
            rows.append((step, values))

    monkeypatch.setattr("mviq.runs.trackers.check_tracker", lambda name: None)
    monkeypatch.setitem(TRACKERS, "wandb", lambda *arguments: Kept())
    return rows


@pytest.mark.parametrize("content", ["{", "[]", '{"id": 3}', '{"nope": 1}', '{"step": "x"}'])
def test_a_damaged_file_of_what_was_sent_is_named(content, shown, tmp_path):
    (tmp_path / "wandb.json").write_text(content)
    with pytest.raises(ValueError, match=r"wandb\.json is damaged"):
        TrackerWriter("wandb", RunDirectory(tmp_path), cartpole(), ABOUT)


def test_text_that_a_callback_logs_is_no_curve(shown, tmp_path):
    writer = TrackerWriter("wandb", RunDirectory(tmp_path), cartpole(), ABOUT)
    writer.write({"own/stage": "late", "train/loss": 0.5}, {}, 7)
    assert shown == [(7, {"train/loss": 0.5})]
