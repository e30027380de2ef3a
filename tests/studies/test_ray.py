"""Studies on a real Ray cluster: a head and two nodes, one of which is lost on the way."""

import importlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from comparing import assert_same_run
from mviq.cli.main import main
from mviq.runs.records import saved_step
from mviq.runs.training import train
from mviq.studies import ray_engine
from mviq.studies.engine import EngineLost
from mviq.studies.plan import config_of, expand
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import read_study
from ray_nodes import Node, cluster
from small_studies import CLOCK, wait_until, workers_of, write_study


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_stopped_then_a_node_is_lost_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # whether or not this machine has a token
    settings = {"total_steps": 12_000, "eval_every": 3000}  # long enough to be caught in the middle
    file = write_study(tmp_path, algorithms=["mvi"], seeds=[0, 5], settings=settings)
    directory = StudyDirectory(tmp_path / "tiny")
    plan = expand(read_study(file))
    with cluster(tmp_path, workers=2) as (address, (head, *nodes)):
        with started(file, address) as study:
            wait_until(lambda: half_done(directory, nodes), "a run in the middle")
            study.send_signal(signal.SIGINT)
            out, err = (text.decode() for text in study.communicate(timeout=2 * CLOCK))
        assert study.returncode == 130, err
        assert "continue with: mviq study run" in out
        assert workers_of(directory) == []
        with started(file, address) as study:
            lost, run = wait_until(lambda: half_done(directory, nodes), "a run in the middle")
            kill_mailbox(head)  # it is started again
            lost.lose()
            out, err = (text.decode() for text in study.communicate(timeout=2 * CLOCK))
        assert study.returncode == 0, err
        endless = {**settings, "total_steps": 1_000_000}  # or it ends before the loss is noticed
        other = write_study(tmp_path, name="other", algorithms=["mvi"], settings=endless)
        with started(other, address) as last:
            rest = StudyDirectory(tmp_path / "other")
            wait_until(lambda: half_done(rest, nodes), "a run in the middle")
            head.lose()
            out_of_last, err_of_last = (x.decode() for x in last.communicate(timeout=2 * CLOCK))
    assert last.returncode == 1, err_of_last
    assert "Traceback" not in err_of_last
    assert "the Ray cluster is lost" in err_of_last
    assert f"'mviq study run {rest.path}' continues" in err_of_last
    assert f"{rest.path}: 1 " in out_of_last  # running until it notices, then interrupted
    assert out == f"{directory.path}: 2 finished\n"
    assert "the node it was running on is dead" in err
    assert "arning" not in err

    for one in plan.runs:
        sessions = directory.log(one.run).read_text()
        if one.run == run:
            assert "continuing at step" in sessions
        else:
            assert sessions.count("evaluation") == 4, "something was done twice"
        train(config_of(one), tmp_path / "alone")
        assert_same_run(config_of(one), tmp_path / "alone", directory.runs)


def kill_mailbox(head: Node) -> None:
    """Kill the actor that carries messages, which is where the study is."""
    for pid in head.processes():
        if b"ray::Mailbox" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
            return
    raise AssertionError("there is no mailbox")


@contextmanager
def started(file: Path, address: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "mviq", "study", "run", str(file), "--no-estimate"]
    command += ["--out", str(file.parent), "--engine", "ray", "--address", address]
    study = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield study
    finally:
        study.kill()
        study.communicate()


def half_done(directory: StudyDirectory, nodes: list[Node]) -> tuple[Node, str] | None:
    """Return a node and the run it is working on, when that has a checkpoint but no end."""
    for node in nodes:
        for pid in set(node.processes()) & set(workers_of(directory)):
            run = directory.run(_run_of(pid))
            if saved_step(run) >= 100 and not run.model.exists():
                return node, run.path.name
    return None


def _run_of(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    return os.fsdecode(words[-2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--address", "127.0.0.1:6379"], "--address is for --engine ray"),
        (["--gpus", "1"], "--gpus is for --engine ray"),
        (["--engine", "ray", "--cpus", "-1"], "--cpus must be a number ≥ 0, got -1.0"),
        (["--engine", "ray", "--cpus", "0"], "--cpus must be above 0"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster at 127.0.0.1:1: "),
    ],
)
def test_wrong_options(options, message, tmp_path, capsys):
    file = write_study(tmp_path)
    assert main(["study", "run", str(file), *options]) == 2
    assert message in capsys.readouterr().err


def test_the_missing_extra_is_named(tmp_path, monkeypatch, capsys):
    engine = importlib.import_module("mviq.studies.ray_engine")
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "ray", raising=False)  # another test may have imported it
    assert main(["study", "run", str(write_study(tmp_path)), "--engine", "ray"]) == 2
    assert capsys.readouterr().err.endswith("needs an extra: pip install 'mviq[ray]'\n")
    assert "ray" not in sys.modules


def test_a_head_that_does_not_answer_is_lost(monkeypatch):
    """The mailbox, on the node of the study, answers all the same."""
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = "{}:{}".format(*head.getsockname())
        ray = MagicMock()
        ray.exceptions.RayError = RuntimeError
        ray.get_runtime_context().gcs_address = address
        ray.wait.return_value, ray.get.return_value = ([], []), ([], {})
        engine = ray_engine.RayEngine(
            ray, ray_engine.CapturedOutput(), ray_engine.Resources(), None
        )
        vars(engine)["_mailbox"] = MagicMock()
        monkeypatch.setattr(ray_engine, "LOOK", 0.0)
        assert engine.events() == []
    assert engine.events() == []  # it may come back
    monkeypatch.setattr(ray_engine, "SILENCE", 0.0)
    with pytest.raises(EngineLost, match=r"the Ray cluster is lost: .*refused"):
        engine.events()
