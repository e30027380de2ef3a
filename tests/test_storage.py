"""Files are written whole or not at all, and nothing is overwritten by surprise."""

import errno
from pathlib import Path

import pytest

from mviq.storage import check_writable, write_files


def test_files_are_written_once_and_left_alone_when_equal(tmp_path):
    out = tmp_path / "new" / "place"
    paths = write_files({"a": b"1", "b": b"2"}, out)
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    before = [path.stat().st_mtime_ns for path in paths]
    assert write_files({"a": b"1", "b": b"2"}, out) == paths
    assert [path.stat().st_mtime_ns for path in paths] == before


def test_nothing_is_written_when_one_file_would_change(tmp_path):
    (tmp_path / "b").write_bytes(b"mine")
    with pytest.raises(FileExistsError, match="b exists with other content"):
        write_files({"a": b"1", "b": b"2"}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_bytes() == b"mine"
    write_files({"a": b"1", "b": b"2"}, tmp_path, force=True)
    assert (tmp_path / "b").read_bytes() == b"2"


def test_a_write_that_fails_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"old")

    def fail(self, target):
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match=f"disk full: '{tmp_path / 'a'}'"):
        write_files({"a": b"new"}, tmp_path, force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_directory_that_cannot_be_written_is_found_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is not a directory"):
        check_writable(tmp_path / "file" / "below")
    check_writable(tmp_path / "still" / "to" / "come")
    assert not (tmp_path / "still").exists()
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="is not writable"):
        check_writable(tmp_path)
