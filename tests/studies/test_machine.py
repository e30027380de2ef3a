"""What a machine has to give, as its control groups say."""

import os

from mviq.studies import machine


def test_the_tightest_of_all_groups_counts(tmp_path, monkeypatch):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.setattr(machine, "_groups", lambda: [inner, *inner.parents[:2]])
    cores, memory = machine.cores(), machine.available_memory()
    assert cores == len(os.sched_getaffinity(0))
    assert memory is not None

    (inner / "cpu.max").write_text("max 100000\n")
    (inner / "memory.max").write_text("max\n")
    (inner / "memory.current").write_text("7\n")
    assert (machine.cores(), machine.available_memory() > 1000) == (cores, True)
    (inner.parent / "cpu.max").write_text("150000 100000\n")
    (inner.parent / "memory.max").write_text("1000\n")
    (inner.parent / "memory.current").write_text("900\n")
    (inner.parent / "memory.stat").write_text("anon 300\ninactive_file 500\n")
    assert (machine.cores(), machine.available_memory()) == (1, 600)
