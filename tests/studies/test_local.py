"""Studies as they are typed, in real processes that are killed."""

import fcntl
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest

from comparing import assert_same_run
from mviq.cli.main import main
from mviq.runs import resolve
from mviq.runs.records import logged_step
from mviq.runs.settings import config_yaml
from mviq.runs.training import train
from mviq.studies import estimate, measuring
from mviq.studies.measuring import Measured, Meter
from mviq.studies.plan import config_of, expand
from mviq.studies.study_directory import StudyDirectory
from mviq.studies.study_file import read_study
from small_runs import cartpole
from small_studies import wait_until, workers_of, write_study

LONGER = {"total_steps": 3000, "eval_every": 1000}


def run(file: Path, *options: str) -> int:
    return main(["study", "run", str(file), "--out", str(file.parent), "--no-estimate", *options])


def test_a_run_that_fails_or_diverges_does_not_stop_the_others(tmp_path, capsys):
    algorithms = [
        {"label": "good"},
        {"label": "bad", "q": 3},
        {"label": "wild", "value_limit": 0.1},
    ]
    file = write_study(tmp_path, algorithms=algorithms)
    directory = StudyDirectory(tmp_path / "tiny")
    plan = expand(read_study(file))
    good, bad, _ = plan.runs
    directory.settle(file.read_text(), plan)
    config_file = directory.run(bad.run).config_file
    config_file.parent.mkdir(parents=True)
    config_file.write_text(config_yaml(config_of(good)))
    assert run(file) == 1
    shown = capsys.readouterr()
    assert f"bad CartPole-v1 seed 0: failed, {config_file} was changed" in shown.err
    assert "wild CartPole-v1 seed 0: learning diverged at step" in shown.out
    assert f"{directory.path}: 1 finished, 1 diverged, 1 failed\n" in shown.out
    assert "good CartPole-v1 seed 0: finished" in shown.err
    assert "RunError" in directory.log(bad.run).read_text()
    failure = directory.failure(bad.run)
    assert failure is not None
    assert (failure.attempts, failure.when) == (1, None)

    again = f"mviq study run {directory.path} --retry-failed"
    assert f"logs: {directory.logs}; to retry the failed runs: {again}\n" in shown.out

    config_file.unlink()
    assert run(file) == 1  # not by itself
    assert "failed" not in capsys.readouterr().err
    assert run(file, "--only", "bad", "--dry-run") == 0
    assert "good" not in capsys.readouterr().out
    assert run(file, "--only", "bad", "--retry-failed", "--quiet") == 0
    assert capsys.readouterr().err == ""
    assert not list(directory.runs.glob("*/failure.json"))
    train(config_of(good), tmp_path / "alone")
    assert_same_run(config_of(good), tmp_path / "alone", directory.runs)
    assert main(["study", "status", str(directory.path)]) == 0
    assert "2 finished, 1 diverged" in capsys.readouterr().out


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_kill_a_run_stop_the_study_kill_the_study_and_go_on(tmp_path, capsys):
    """The end is, bit for bit, that of runs that were never interrupted."""
    file = write_study(tmp_path, settings=LONGER)
    directory = StudyDirectory(tmp_path / "tiny")
    plan = expand(read_study(file))

    study = started(file)
    wait_until(lambda: checkpoints(directory), "a first checkpoint")
    os.kill(workers_of(directory)[0], signal.SIGKILL)
    wait_until(lambda: list(directory.runs.glob("*/failure.json")), "the failure")
    study.send_signal(signal.SIGINT)
    out, err = (text.decode() for text in study.communicate())
    assert study.returncode == 130, err
    assert "killed by SIGKILL, probably out of memory" in err
    assert "stopping: the runs save where they are; once more to stop at once" in err
    assert "continue with: mviq study run" in out
    assert workers_of(directory) == []

    before = checkpoints(directory)
    study = started(file)
    wait_until(lambda: checkpoints(directory) - before, "another checkpoint")
    assert run(file) == 2
    assert "another process is running" in capsys.readouterr().err
    study.kill()
    study.communicate()
    wait_until(lambda: not workers_of(directory), "the end of the orphans")
    assert not all(directory.run(one.run).result for one in plan.runs)

    assert run(file) == 0
    for one in plan.runs:
        train(config_of(one), tmp_path / "alone")
        assert_same_run(config_of(one), tmp_path / "alone", directory.runs)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_terminal_that_is_closed_leaves_a_study_that_can_go_on(tmp_path):
    file = write_study(tmp_path, settings={**LONGER, "checkpoint_every": 3000})
    directory = StudyDirectory(tmp_path / "tiny")
    ours, theirs = os.openpty()
    study = started(file, stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=take_terminal)
    os.close(theirs)
    names = [run.run for run in expand(read_study(file)).runs]
    wait_until(lambda: all(logged_step(directory.run(name)) for name in names), "both runs")
    os.close(ours)
    assert study.wait() == 130
    assert workers_of(directory) == []
    assert len({place.parent.parent for place in checkpoints(directory)}) == 2


def take_terminal() -> None:
    """Make standard input the terminal of a new session, which is hung up when it is closed."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the tests were started by nohup
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def started(file: Path, **streams) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mviq", "study", "run", str(file), "--no-estimate"]
    command += ["--out", str(file.parent), "--workers", "2"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **{**pipes, **streams})


def checkpoints(directory: StudyDirectory) -> set[Path]:
    return set(directory.runs.glob("*/checkpoints/step_*[0-9]"))


def test_measured_once_before_it_starts_and_refused_when_too_much(tmp_path, capsys, monkeypatch):
    """Also for an environment of a module, whose id begins with its name."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]), prepend=os.pathsep)
    here = {"environments": ["own_parts:Parts-v0"], "settings": {"n_steps": 1}}
    file = write_study(tmp_path, budget={"hours": 1e-5}, seeds=2, **here)
    command = ["study", "run", str(file), "--out", str(tmp_path)]
    assert main([*command, "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert "MVI(2)  own_parts:Parts-v0  0 1" in shown.out
    assert "left to do: 4 runs, 4,000 steps, about " in shown.out
    assert "budget.hours is 1e-05, the study needs about" in shown.err
    directory = StudyDirectory(tmp_path / "tiny")
    assert list(directory.path.iterdir()) == [directory.measured]

    def fail(*_):
        raise AssertionError("it was measured again")

    monkeypatch.setattr("mviq.studies.estimate._measure", fail)
    assert main(command) == 2
    assert "needs about" in capsys.readouterr().err


def test_compiling_is_not_part_of_what_a_step_costs(monkeypatch):
    now, stopped = iter([3.0, 90.0, 91.0, 92.0]), []
    monkeypatch.setattr("mviq.studies.measuring.time.perf_counter", lambda: next(now))
    monkeypatch.setattr("mviq.studies.measuring.signal.raise_signal", stopped.append)
    meter = Meter(warm_up=100)
    for step in (1, 100, 200, 500):
        meter.update(step, None)
    assert (meter.started, meter.step) == (3.0, 2.0 / 400)
    assert stopped == [signal.SIGTERM]


def test_compiling_is_not_part_of_what_an_evaluation_costs(tmp_path, monkeypatch):
    now, costs = [1.0], iter([90.0, *[0.25] * measuring.STEPS])

    def slow_at_first(agent, observations, generator, policy):
        now[0] += next(costs)
        return np.zeros(len(observations), int)

    monkeypatch.setattr("mviq.studies.measuring.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("mviq.runs.evaluation.choose_actions", slow_at_first)
    assert measuring.evaluation_cost(cartpole(), tmp_path / "model.zip")[0] == 0.25


def test_when_time_is_up_a_run_is_taken_to_cost_what_the_most_similar_does(tmp_path, monkeypatch):
    seconds = {"CartPole-v1": 1.0, "Acrobot-v1": 2.0}

    def cost(config, _):
        rest = {"start": 0, "evaluation_step": 0, "memory": 0, "transition": 0}
        return Measured(step=seconds[config.env], checkpoint=0, model=0, **rest)

    monkeypatch.setattr(estimate, "_measure", cost)
    monkeypatch.setattr(estimate, "LONGEST", -1.0)  # only what begins at once is measured
    wide = cartpole(batch_size=32)
    configs = [resolve("Acrobot-v1"), cartpole(), wide]
    costs = estimate.measured([wide], 1, tmp_path / "kept.json")
    costs = estimate.measured(configs[::-1], 1, tmp_path / "kept.json")
    estimate.measured([wide], 1, tmp_path / "kept.json", say=pytest.fail)  # it is known
    assert costs[estimate.cost_class(cartpole())].step == 1.0
    assert costs[estimate.cost_class(configs[0])].step == 2.0


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"budget": {"steps": 1999}}, [], "is 1,999, the study needs 2,000 (--force starts it"),
        ({"budget": {"hours": 1}}, [], "budget.hours needs the study to be measured"),
        ({"environments": ["CartPol-v1"]}, [], "there is no environment 'CartPol-v1'; did you"),
        ({"environments": ["Pendulum-v1"]}, [], "Pendulum-v1 must have discrete actions"),
        ({"settings": {"network": "nature"}}, [], "network nature needs pictures"),
        ({}, ["--only", "no*"], "no run is like 'no*'"),
        ({}, ["--workers", "0"], "--workers must be at least 1, got 0"),
        ({}, ["--out", "/dev/null/x"], "study: cannot use /dev/null/x/tiny: Not a directory"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(content, options, message, tmp_path, capsys):
    file = write_study(tmp_path, **content)
    assert run(file, *options) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert len(shown.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == [file]


def test_status_needs_a_study_and_no_torch(tmp_path, capsys):
    assert main(["study", "status", str(tmp_path)]) == 2
    assert "is not the directory of a study" in capsys.readouterr().err
    file = write_study(tmp_path)
    assert main(["study", "status", str(file), "--out", str(tmp_path)]) == 2
    assert f"tiny is not begun yet: mviq study run {file}" in capsys.readouterr().err
    directory = StudyDirectory(tmp_path / "tiny")
    directory.settle(file.read_text(), expand(read_study(file)))
    code = "import sys; from mviq.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", code, "study", "status", str(file), "--out", str(tmp_path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    *table, modules = shown.stdout.splitlines()
    assert table[-1] == f"{directory.path}: 2 waiting"
    assert "mviq.studies.run_status" in modules.split()
    assert "torch" not in modules.split()
