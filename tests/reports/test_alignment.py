"""Runs of unequal length and missing seeds: what is kept, and that the rest is said."""

import numpy as np
import pytest

from mviq.reports.statistics import RunCurve, align, comparable, curve_interval, mean
from mviq.runs.records import final_score

NAN = np.nan


def run(task, seed, end, every=10, scale=1.0):
    steps = np.arange(every, end + 1, every)
    return RunCurve(task, seed, steps, scale * steps)


FULL = [run(task, seed, 50) for task in "AB" for seed in (0, 1, 2)]
SHORT = [*FULL[:-1], run("B", 2, 30)]


def test_equal_runs_come_out_as_they_went_in():
    found = align(FULL)
    assert (found.tasks, found.seeds, found.notes) == (("A", "B"), (0, 1, 2), ())
    assert found.curves.shape == (3, 2, 5)
    np.testing.assert_array_equal(found.curves[1, 1], found.steps)
    np.testing.assert_array_equal(final_score(found.curves, points=2), np.full((3, 2), 45.0))


def test_cut_keeps_what_all_runs_have():
    found = align(SHORT)
    np.testing.assert_array_equal(found.steps, [10, 20, 30])
    assert not np.isnan(found.curves).any()
    assert found.notes == ("cut after step 30, where B, seed 2 ends: 2 of 5 points",)


def test_drop_leaves_the_short_run_out():
    found = align(SHORT, unequal="drop")
    np.testing.assert_array_equal(found.steps, [10, 20, 30, 40, 50])
    assert np.isnan(found.curves[2, 1]).all()
    assert np.isnan(found.curves).sum() == 5
    assert found.notes == ("dropped B, seed 2: it ends at step 30",)


def test_keep_marks_what_the_short_run_lacks():
    found = align(SHORT, unequal="keep")
    assert np.isnan(found.curves[2, 1]).tolist() == [False, False, False, True, True]
    assert np.isnan(found.curves).sum() == 2
    assert found.notes == ("B, seed 2 is missing after step 30",)


def test_missing_seeds_tasks_and_empty_runs_are_said():
    runs = [run("A", 0, 20), run("A", 1, 20), run("B", 0, 20), RunCurve("B", 1, [], [])]
    found = align(runs, tasks=["A", "B", "C"], seeds=[0, 1])
    assert found.tasks == ("A", "B", "C")
    assert np.isnan(final_score(found.curves, points=1)).tolist() == [
        [False, False, True],
        [False, True, True],
    ]
    assert found.notes == (
        "B, seed 1 recorded nothing",
        "no run of C, seed 0",
        "no run of C, seed 1",
    )


def test_a_dropped_task_stays_visible_as_missing():
    found = align([run("A", 0, 50), run("B", 0, 20)], unequal="drop")
    assert found.tasks == ("A", "B")
    assert np.isnan(found.curves[:, 1]).all()


def test_records_at_irregular_steps_hold_until_the_next_and_never_look_ahead():
    runs = [RunCurve("A", 0, [7, 31, 52], [1.0, 2.0, 3.0]), RunCurve("A", 1, [12, 55], [5.0, 6.0])]
    found = align(runs, grid=[10, 20, 40, 52])
    np.testing.assert_array_equal(found.steps, [20, 40, 52])
    np.testing.assert_array_equal(found.curves[:, 0], [[1, 2, 3], [5, 5, 5]])
    assert found.notes == ("cut before step 12, where A, seed 1 starts: 1 of 4 points",)
    np.testing.assert_array_equal(align(FULL, grid=3).steps, [10, 30, 50])


def test_records_without_a_value_are_missing_and_said():
    found = align([RunCurve("A", 0, [1, 2, 3], [1.0, NAN, 3.0]), run("A", 1, 3, every=1)])
    np.testing.assert_array_equal(found.curves[0, 0], [1.0, NAN, 3.0])
    assert found.notes == ("A, seed 0 has 1 records without a value",)


def test_comparable_keeps_common_tasks_and_steps():
    one, two = align(FULL), align([run("B", 0, 30), run("B", 5, 30), run("C", 0, 30)])
    both = comparable({"one": one, "two": two})
    assert both["one"].tasks == both["two"].tasks == ("B",)
    np.testing.assert_array_equal(both["one"].steps, both["two"].steps)
    assert both["one"].notes == ("cut at step 30, where two ends", "left out A: no runs of two")
    assert both["two"].notes == ("no run of C, seed 5", "left out C: no runs of one")
    assert both["two"].seeds == (0, 5)


def test_comparable_leaves_out_a_task_whose_runs_are_all_missing():
    lost = align([run("A", 0, 50), run("B", 0, 20)], unequal="drop")
    assert comparable({"full": align(FULL), "lost": lost})["full"].tasks == ("A",)


def test_aligned_curves_go_straight_into_an_interval():
    found = curve_interval(mean, align(SHORT, unequal="keep").curves, resamples=200)
    np.testing.assert_allclose(found.estimate, [10, 20, 30, 40, 50])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: align([]), "records must have at least one run with a value, got none"),
        (lambda: align([*FULL, FULL[0]]), "each task and seed once, got A, seed 0 twice"),
        (lambda: align(FULL, unequal="pad"), "unequal must be one of cut, drop, keep, got 'pad'"),
        (lambda: align(FULL, grid=[3, 2]), "grid must increase, got 3 before 2"),
        (lambda: align(FULL, grid=1), "grid must be an integer >= 2, got 1"),
        (lambda: align(FULL, grid=[90], unequal="drop"), "grid must end where.*got 90.*step 50"),
        (
            lambda: align([run("A", 0, 20), RunCurve("A", 1, [30], [1.0])]),
            "share at least one point",
        ),
        (lambda: final_score(align(FULL).curves, points=6), "points must be at most 5, got 6"),
        (lambda: RunCurve("A", 3, [1, 1], [0, 0]), "steps of A, seed 3 must increase"),
        (
            lambda: RunCurve("A", 3, [1, 2], [0]),
            r"values of A, seed 3.*got shapes \(1,\) and \(2,\)",
        ),
        (lambda: RunCurve("A", 3, [1], [np.inf]), "values of A, seed 3 must be finite or NaN.*inf"),
        (lambda: comparable({}), "algorithms must have at least one entry"),
        (
            lambda: comparable({"x": align([run("A", 0, 20)]), "y": align([run("B", 0, 20)])}),
            "share at least one task, got none of .'A', 'B'.",
        ),
        (
            lambda: comparable({"x": align(FULL), "y": align([run("A", 0, 51, every=17)])}),
            "share at least one step",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
