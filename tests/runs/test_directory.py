"""The directory of a run: found by its name, kept whole, and never taken for what it is not."""

import shutil

import pytest

from mviq.runs import run_state
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.directory import LockedDirectory, RunDirectory, RunError, find_run
from mviq.runs.records import saved_step
from mviq.runs.tables import Table
from mviq.runs.training import resume, train
from small_runs import CrashError, Crashing, cartpole, crash

CONFIG = cartpole(total_steps=300)


def made(root, *configs):
    for config in configs:
        (root / config.name).mkdir()
        RunDirectory(root / config.name).settle(config)


def test_a_run_is_found_by_the_beginning_of_its_name(tmp_path):
    one, other, tenth = (cartpole(seed=seed) for seed in (1, 2, 10))
    made(tmp_path, one, other, tenth)
    assert find_run(tmp_path / "CartPole-v1_mvi_q2_seed1").path.name == one.name
    assert find_run(tmp_path / "CartPole-v1_mvi_q2_seed10").path.name == tenth.name
    with pytest.raises(ValueError, match="is the beginning of 3 runs"):
        find_run(tmp_path / "CartPole")
    with pytest.raises(ValueError, match="is not the directory of a run, but holds 3 runs: Cart"):
        find_run(tmp_path).config()
    assert not find_run(tmp_path / "[").config_file.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("result.json", "{"),
        ("result.json", '{"steps": 3}'),
        ("result.json", "[]"),
        ("system.json", "\xff"),
        ("config.yaml", "q: 2\n"),
        ("config.yaml", "3: 4\n"),
    ],
)
def test_a_damaged_file_is_named(name, content, tmp_path):
    made(tmp_path, CONFIG)
    (tmp_path / CONFIG.name / name).write_text(content, encoding="latin-1")
    with pytest.raises((RunError, ValueError), match=name):
        resume(tmp_path / CONFIG.name)


@pytest.mark.parametrize("removed", ["", "progress.csv", "evaluations.csv"])
def test_what_is_removed_meanwhile_stays_removed(removed, tmp_path):
    place = tmp_path / CONFIG.name

    class Removing(Crashing):
        def update(self, step, mean_return):
            if step == 152:
                (place / removed).unlink() if removed else shutil.rmtree(place)

    with pytest.raises(RunError, match="removed while the run went on"):
        train(CONFIG, tmp_path, Removing())
    assert not (place / removed).exists()


def test_a_finished_run_needs_neither_lock_nor_environment(tmp_path, monkeypatch):
    """It may be in a place that cannot be written to, or on another machine."""
    first = train(CONFIG, tmp_path)
    monkeypatch.delattr(LockedDirectory, "locked")
    monkeypatch.setattr("mviq.runs.training.build", None)
    assert train(CONFIG, tmp_path) == resume(tmp_path / CONFIG.name) == first


def test_checkpoints_left_by_a_run_that_was_killed_at_its_very_end_are_removed(
    tmp_path, monkeypatch
):
    config = cartpole(total_steps=300, keep_checkpoint=False)
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "remove", lambda self: (_ for _ in ()).throw(CrashError))
        with pytest.raises(CrashError):
            train(config, tmp_path)
    assert RunDirectory(tmp_path / config.name).checkpoints.exists()
    assert train(config, tmp_path).status == "finished"
    assert not RunDirectory(tmp_path / config.name).checkpoints.exists()


def test_files_that_were_being_written_when_a_session_was_killed_are_removed(tmp_path):
    crash(CONFIG, tmp_path, 150)
    place = tmp_path / CONFIG.name
    (place / ".model.123.partial.zip").touch()
    (place / "checkpoints" / "step_000000000148.partial").mkdir()
    train(CONFIG, tmp_path)
    assert not list(place.rglob("*.partial*"))


def test_rows_are_on_disk_before_the_run_is_called_finished(tmp_path, monkeypatch):
    done = []
    mark, finish = Table.mark, RunDirectory.finish
    monkeypatch.setattr(Table, "mark", lambda self: (done.append(self.path.name), mark(self))[1])
    monkeypatch.setattr(
        RunDirectory, "finish", lambda self, result: (done.append("result"), finish(self, result))
    )
    train(cartpole(total_steps=150, keep_checkpoint=False, checkpoint_every=1000), tmp_path)
    assert done == ["progress.csv", "timing.csv", "evaluations.csv", "result"]


def test_the_best_model_of_a_run_that_cannot_be_repeated_is_saved_with_a_checkpoint(
    tmp_path, monkeypatch
):
    """Otherwise it could stem from a future that a crash has undone."""
    monkeypatch.setattr(run_state, "hidden_in", lambda env: "a simulator hides its state")
    said = crash(cartpole(checkpoint_every=10_000), tmp_path, 300)
    assert any("a resumed run will begin a new episode" in text for text in said)
    directory = RunDirectory(tmp_path / cartpole().name)
    assert directory.best_model.is_file()
    assert saved_step(directory) == 252
