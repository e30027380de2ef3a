"""Whether learning holds is said in numbers that can be counted by hand."""

import csv
import io

import numpy as np
import pytest

from mviq.reports.comparison import ReportChoices, compare
from mviq.reports.reading import load_study
from mviq.reports.stability import stability, stability_csv, worst_after_success
from stored_runs import write_run

CURVES = {
    0: [100, 500, 500, 500],  # solved, and stays so
    1: [100, 480, 90, 470],  # solved once
    2: [9, 9, 9, 9],  # never
}


@pytest.fixture
def study(tmp_path):
    for seed, curve in CURVES.items():
        write_run(tmp_path / f"run{seed}", curve, seed=seed)
    return compare(load_study(tmp_path), ReportChoices())


def test_the_second_half_and_falls_after_a_success(study):
    (row,) = stability(study)
    assert (row.env, row.solved, row.runs, row.succeeded) == ("CartPole-v1", 475.0, 3, 2)
    assert row.late.estimate == np.mean([500, 280, 9])
    assert row.share.estimate == np.mean([1, 0, 0])
    assert 0 <= row.share.low <= row.share.high <= 1
    assert row.worst == 90
    (written,) = csv.DictReader(io.StringIO(stability_csv((row,)).decode()))
    assert float(written["late"]) == row.late.estimate
    assert float(written["worst"]) == 90


def test_runs_without_a_whole_curve_are_counted_only(tmp_path):
    write_run(tmp_path / "run0", [500, 500, 500, 500], seed=0)
    write_run(tmp_path / "run1", [500, 500, float("nan"), 500], seed=1)
    write_run(tmp_path / "run2", [9, 9, 9, 9], seed=2, status="diverged")
    comparison = compare(load_study(tmp_path), ReportChoices(which="finished"))
    (row,) = stability(comparison)
    assert (row.runs, row.diverged, row.succeeded) == (2, 0, 1)
    assert row.late.estimate == 500
    assert row.share.estimate == 1


def test_a_curve_without_a_success_has_no_worst_point():
    assert np.isnan(worst_after_success(np.array([1.0, 2.0]), 475.0))
    assert worst_after_success(np.array([475.0]), 475.0) == 475.0
