"""Checkpoints: atomic, checked, incremental, and nothing but data."""

import errno
import json
import os
from pathlib import Path

import pytest

from comparing import assert_same_run, same
from mviq import storage
from mviq.agents import MVI
from mviq.runs import checkpoint, replay_log
from mviq.runs.checkpoint import Checkpoints
from mviq.runs.directory import BusyError, RunDirectory, RunError
from mviq.runs.snapshot import restore
from mviq.runs.training import resume, train
from mviq.storage import digest
from small_runs import Crashing, atari, cartpole, crash

CONFIG = cartpole(total_steps=600, eval_every=0)


def newest(root, config=CONFIG):
    return sorted(RunDirectory(root / config.name).checkpoints.glob("step_*"))[-1]


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def alter(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("whole")
    train(CONFIG, root)
    return root


@pytest.mark.parametrize("damage", [truncate, alter, os.remove])
@pytest.mark.parametrize("file", ["state.json", "arrays.safetensors", "manifest.json", "replay"])
def test_a_damaged_file_is_named_and_the_checkpoint_before_it_used(file, damage, whole, tmp_path):
    crash(CONFIG, tmp_path, 480)
    place = newest(tmp_path)
    victim = place / file
    if file == "replay":
        victim = sorted((place.parent / "replay").iterdir())[-1]
    damage(victim)
    reporter = Crashing()
    train(CONFIG, tmp_path, reporter)
    assert any(victim.name in text for text in reporter.said)
    assert "continuing at step 300" in reporter.said
    assert_same_run(CONFIG, whole, tmp_path)


def test_a_table_that_lost_its_end_is_cut_back_to_the_checkpoint_before(whole, tmp_path):
    crash(CONFIG, tmp_path, 480)
    table = RunDirectory(tmp_path / CONFIG.name).progress
    os.truncate(table, table.stat().st_size - 10)
    reporter = Crashing()
    train(CONFIG, tmp_path, reporter)
    assert any("progress.csv" in text for text in reporter.said)
    assert_same_run(CONFIG, whole, tmp_path)


def test_where_every_checkpoint_is_damaged_nothing_is_touched(tmp_path):
    crash(CONFIG, tmp_path, 480)
    for place in newest(tmp_path).parent.glob("step_*"):
        alter(place / "state.json")
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"state.json is damaged.*remove .*checkpoints to begin"):
        train(CONFIG, tmp_path)
    assert contents(tmp_path) == before


def contents(root):
    return {p: p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_full_disk_is_one_line_and_harms_nothing(whole, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    crash(CONFIG, tmp_path, 250)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "write_durably", full)
        with pytest.raises(RunError, match="the disk is full; the checkpoint of step 200 is safe"):
            train(CONFIG, tmp_path)
    train(CONFIG, tmp_path)
    assert_same_run(CONFIG, whole, tmp_path)


def test_a_file_that_does_not_fit_is_not_left_behind(tmp_path):
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))  # a small disk
    try:
        with pytest.raises(OSError, match="too large"):
            storage.write_durably(tmp_path / "file", b"x" * 2000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_two_processes_cannot_work_on_one_run(tmp_path):
    directory = RunDirectory(tmp_path / CONFIG.name)
    directory.path.mkdir()
    with directory.locked(), pytest.raises(BusyError, match="another process"):
        train(CONFIG, tmp_path)
    assert not directory.config_file.exists()


def test_a_checkpoint_writes_only_what_is_new(tmp_path, monkeypatch):
    """Bytes of the replay buffer written by all checkpoints are those of its items, once each."""
    written = []
    original = replay_log.write_durably

    def counting(path, content):
        written.append(len(content))
        original(path, content)

    monkeypatch.setattr(replay_log, "write_durably", counting)
    config = atari(total_steps=200, learning_starts=190, buffer_size=1000, checkpoint_every=20)
    train(config, tmp_path)
    assert len(written) >= 10
    frame = 84 * 84
    first, *rest = (size for size in written if size > frame)
    assert max(rest) < 1.5 * first  # not growing with the buffer
    assert sum(written) < 1.3 * frame * 200 + first


def test_old_parts_of_the_replay_buffer_are_removed(tmp_path):
    config = cartpole(buffer_size=100, total_steps=1000, checkpoint_every=50, eval_every=0)
    train(config, tmp_path)
    place = RunDirectory(tmp_path / config.name).checkpoints
    assert len(list(place.glob("step_*"))) == checkpoint.KEPT
    assert len(list((place / "replay").iterdir())) <= 4


def test_a_finished_run_keeps_its_models_only_unless_told(tmp_path):
    config = cartpole(total_steps=300, keep_checkpoint=False)
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    assert not directory.checkpoints.exists()
    assert directory.model.is_file()
    assert directory.best_model.is_file()


def test_no_file_of_a_run_can_carry_code(tmp_path):
    crash(CONFIG, tmp_path, 480)
    place = RunDirectory(tmp_path / CONFIG.name).path
    suffixes = {path.suffix for path in place.rglob("*") if path.is_file()} - {""}
    assert suffixes <= {".json", ".csv", ".yaml", ".safetensors", ".zip"}
    for path in place.rglob("*.json"):
        path.read_text(encoding="utf-8")


def test_reading_a_checkpoint_leaves_it_as_it_is(tmp_path):
    crash(CONFIG, tmp_path, 480)
    place = RunDirectory(tmp_path / CONFIG.name).checkpoints
    before = {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}
    found = Checkpoints(place).newest(lambda marks: None, lambda text: None)
    assert found.step == 400
    assert before == {p: p.read_bytes() for p in place.rglob("*") if p.is_file()}


class PowerFailure(BaseException):
    """Passes by everything that would tidy up."""


def test_a_power_failure_at_any_moment_of_saving_harms_nothing(tmp_path, monkeypatch):
    """The run fails before the first operation on files, then before the second, and so on."""
    config = cartpole(total_steps=700, eval_every=0)
    train(config, tmp_path / "whole")
    failures = 0
    while not RunDirectory(tmp_path / "broken" / config.name).result:
        with monkeypatch.context() as patch:
            fail_at(patch, 3 + failures % 20)
            try:
                train(config, tmp_path / "broken")
            except PowerFailure:
                failures += 1
            assert failures < 100
    assert failures >= 10
    assert_same_run(config, tmp_path / "whole", tmp_path / "broken")


def fail_at(patch, operation):
    """Let the power fail at the n-th operation on files of a checkpoint."""
    left = [operation]

    def failing(original):
        def wrapped(*arguments, **options):
            left[0] -= 1
            if left[0] < 0:
                raise PowerFailure
            return original(*arguments, **options)

        return wrapped

    for module in (checkpoint, replay_log):
        patch.setattr(module, "write_durably", failing(storage.write_durably))
    patch.setattr(checkpoint, "sync", failing(storage.sync))
    patch.setattr(checkpoint.Checkpoints, "_prune", failing(checkpoint.Checkpoints._prune))
    for name in ("rename", "unlink", "mkdir"):
        patch.setattr(Path, name, failing(getattr(Path, name)))


def test_a_changed_configuration_is_noticed(tmp_path):
    crash(CONFIG, tmp_path, 480)
    file = RunDirectory(tmp_path / CONFIG.name).config_file
    file.write_text(file.read_text().replace("gamma: 0.99", "gamma: 0.98"))
    with pytest.raises(RunError, match=r"config\.yaml was changed"):
        train(CONFIG, tmp_path)
    with pytest.raises(RunError, match=r"of another configuration than .*config\.yaml"):
        resume(tmp_path / CONFIG.name)


def test_a_checkpoint_and_a_model_file_agree_on_the_state(tmp_path):
    config = cartpole(total_steps=300, eval_every=0, keep_checkpoint=True)
    train(config, tmp_path)
    directory = RunDirectory(tmp_path / config.name)
    stored = Checkpoints(directory.checkpoints).newest(lambda marks: None, lambda text: None)
    in_checkpoint = restore(None, stored.tree["agent"]["state"], stored.arrays, "state")
    in_model = MVI.load(directory.model, device="cpu").get_state()
    assert same(in_checkpoint, in_model)


def test_a_checkpoint_of_an_older_version_is_refused_by_its_version(tmp_path):
    crash(CONFIG, tmp_path, 480)
    file = newest(tmp_path) / "manifest.json"
    manifest = json.loads(file.read_bytes())["manifest"] | {"version": 1}
    sha256 = digest(json.dumps(manifest, sort_keys=True).encode())
    file.write_text(json.dumps({"manifest": manifest, "sha256": sha256}))
    before = contents(tmp_path)
    with pytest.raises(RunError, match=r"step_\d+ has format version 1, this mviq reads 4; finish"):
        train(CONFIG, tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("harm", [os.remove, truncate, lambda path: path.write_bytes(b"")])
def test_the_best_model_belongs_to_the_checkpoint(harm, tmp_path):
    """The best evaluation is behind: what is lost now would never be made again."""
    config = cartpole(total_steps=700, eval_every=100, checkpoint_every=100)
    train(config, tmp_path / "whole")
    crash(config, tmp_path / "broken", 650)
    harm(RunDirectory(tmp_path / "broken" / config.name).best_model)
    train(config, tmp_path / "broken")
    assert_same_run(config, tmp_path / "whole", tmp_path / "broken")
