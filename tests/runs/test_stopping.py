"""Asked to stop, by whom and whenever: what was learnt is saved, and the rest is left undone."""

import io
import os
import signal

import pytest
from rich.console import Console

from comparing import assert_same_run
from mviq.runs import session
from mviq.runs.directory import RunDirectory
from mviq.runs.evaluation import evaluate
from mviq.runs.records import saved_step
from mviq.runs.reporter import DisplayReporter, Reporter
from mviq.runs.stopping import Stopped, asked_to_stop
from mviq.runs.training import resume, train
from small_runs import Crashing, cartpole

pytestmark = pytest.mark.skipif(os.name != "posix", reason="sends signals")
CONFIG = cartpole()


class Asking(Reporter):
    """A reporter that sends a signal at a step."""

    def __init__(self, number):
        self.number = number

    def update(self, step, mean_return):
        if step == 332:
            os.kill(os.getpid(), self.number)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    train(CONFIG, root)
    return root


@pytest.fixture
def hangup():
    """Let SIGHUP be heard, also where the tests were started by nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_being_asked_to_stop_loses_nothing_and_leaves_no_trace(number, whole, tmp_path, hangup):
    with pytest.raises(Stopped, match="step 336"):  # the next boundary, not a checkpoint's
        train(CONFIG, tmp_path, Asking(number))
    reporter = Crashing()
    resume(tmp_path / CONFIG.name, reporter)
    assert "continuing at step 336" in reporter.said
    assert_same_run(CONFIG, whole, tmp_path)


@pytest.mark.parametrize("at", [500, 1000], ids=["amid", "at the end"])
def test_an_evaluation_does_not_delay_a_stop_and_is_made_later(at, whole, tmp_path, monkeypatch):
    def asked_meanwhile(agent, *arguments, tell, **options):
        def told(finished):
            if agent.num_timesteps == at:
                os.kill(os.getpid(), signal.SIGTERM)
            tell(finished)

        return evaluate(agent, *arguments, tell=told, **options)

    with monkeypatch.context() as patch:
        patch.setattr(session, "evaluate", asked_meanwhile)
        with pytest.raises(Stopped, match=f"step {at}"):
            train(CONFIG, tmp_path)
    directory = RunDirectory(tmp_path / CONFIG.name)
    assert saved_step(directory) == at
    assert f"\n{at}," not in directory.evaluations.read_text()
    train(CONFIG, tmp_path)
    assert_same_run(CONFIG, whole, tmp_path)


def test_a_stop_in_the_last_evaluation_of_a_run_that_a_callback_ended(tmp_path, monkeypatch):
    config = cartpole(callbacks=("own_parts:Impatient",))
    train(config, tmp_path / "whole")

    def asked_meanwhile(agent, *arguments, tell, **options):
        if agent.num_timesteps == 300:
            os.kill(os.getpid(), signal.SIGTERM)
        return evaluate(agent, *arguments, tell=tell, **options)

    with monkeypatch.context() as patch:
        patch.setattr(session, "evaluate", asked_meanwhile)
        with pytest.raises(Stopped):
            train(config, tmp_path / "stopped")
    train(config, tmp_path / "stopped")
    assert_same_run(config, tmp_path / "whole", tmp_path / "stopped")


def test_only_ctrl_c_twice_is_at_once():
    """A terminal that is closed may send its signal several times."""
    with asked_to_stop() as asked:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_nohup_outlives_its_terminal():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with asked_to_stop() as asked:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not asked.is_set()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_run_does_not_end_with_its_terminal(tmp_path):
    class Gone(io.StringIO):
        def write(self, text):
            raise OSError(5, "Input/output error")

    config = cartpole(total_steps=300)
    assert train(config, tmp_path, DisplayReporter(Console(file=Gone()))).status == "finished"
