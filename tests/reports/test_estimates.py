"""The estimates against numbers worked out by hand, against SciPy, and by their properties."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mviq.reports.statistics import (
    along_curve,
    area_under_curve,
    interquartile_mean,
    mean,
    median,
    optimality_gap,
    percent_improvement,
    performance_profile,
    probability_of_improvement,
    referenced_improvement,
    task_means,
)

NAN = np.nan
AGGREGATES = (mean, median, interquartile_mean)
TWO_BY_FOUR = np.array([[1.0, 2.0, 3.0, 10.0], [3.0, 2.0, 5.0, 30.0]])
shapes = st.tuples(st.integers(1, 6), st.integers(1, 5))
scores = arrays(np.float64, shapes, elements=st.floats(-1e3, 1e3).map(lambda x: round(x, 2)))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (mean, (2 + 2 + 4 + 20) / 4),
        (median, 3.0),
        (interquartile_mean, (2 + 3 + 3 + 5) / 4),  # without 1, 2 and 10, 30
        (optimality_gap, 0.0),
        (lambda s: optimality_gap(s, target=4), (2 + 2 + 1 + 0 + 3 + 1 + 0 + 0) / 8),
    ],
)
def test_by_hand(estimator, expected):
    assert estimator(TWO_BY_FOUR) == pytest.approx(expected, abs=1e-14)


def test_a_missing_run_is_left_out_of_its_task_alone():
    with_gap = np.array([[1.0, 10.0], [3.0, NAN]])
    np.testing.assert_array_equal(task_means(with_gap), [2.0, 10.0])
    assert mean(with_gap) == 6.0
    assert interquartile_mean(with_gap) == pytest.approx(14 / 3)
    assert optimality_gap(with_gap, target=5) == (4 + 2) / 2 / 2
    np.testing.assert_array_equal(performance_profile(with_gap, [2.0]), [0.75])


@pytest.mark.parametrize("estimator", [*AGGREGATES, optimality_gap])
def test_a_task_without_runs_makes_the_aggregate_unknown(estimator):
    assert np.isnan(estimator(np.array([[1.0, NAN], [3.0, NAN]])))


@given(scores)
def test_interquartile_mean_is_scipys_trimmed_mean(s):
    assert interquartile_mean(s) == pytest.approx(scipy.stats.trim_mean(s, 0.25, axis=None))


@given(scores, st.randoms(use_true_random=False))
def test_aggregates_lie_between_and_ignore_the_order_of_runs_and_tasks(s, random):
    runs, tasks = list(range(s.shape[0])), list(range(s.shape[1]))
    random.shuffle(runs)
    random.shuffle(tasks)
    for estimator in AGGREGATES:
        assert s.min() - 1e-9 <= estimator(s) <= s.max() + 1e-9
        assert estimator(s[runs][:, tasks]) == pytest.approx(estimator(s), abs=1e-9)


@given(scores, st.floats(-10, 10), st.floats(0.1, 10))
def test_aggregates_move_with_shift_and_scale(s, shift, scale):
    for estimator in AGGREGATES:
        expected = scale * estimator(s) + shift
        assert estimator(scale * s + shift) == pytest.approx(expected, abs=1e-8)


@given(scores)
def test_missing_rows_change_nothing(s):
    padded = np.vstack([s[:1] * NAN, s, s[:1] * NAN])
    for estimator in AGGREGATES:
        assert estimator(padded) == pytest.approx(estimator(s), abs=1e-9)


@given(scores)
def test_a_batch_is_estimated_element_by_element(s):
    batch = np.stack([s, 2 * s, s[::-1]])
    for estimator in AGGREGATES:
        np.testing.assert_array_equal(estimator(batch), [estimator(element) for element in batch])


@given(scores, st.floats(-100, 100))
def test_optimality_gap_is_positive_and_zero_only_where_all_reach_the_target(s, target):
    gap = optimality_gap(s, target)
    assert gap >= 0
    assert (gap == 0) == bool((s >= target).all())


@given(scores, st.lists(st.integers(-2000, 2000), min_size=1, max_size=6, unique=True))
def test_profile_falls_from_one_to_zero(s, thresholds):
    profile = performance_profile(s, sorted(thresholds))
    assert (np.diff(profile) <= 1e-12).all()
    ends = performance_profile(s, [s.min() - 1, s.max()])
    np.testing.assert_allclose(ends, [1.0, 0.0])


@given(scores)
def test_area_under_the_profile_of_positive_scores_is_their_mean(s):
    """E X is the integral of P(X > t): profile and mean are two views of one distribution."""
    levels = np.unique(np.concatenate([[0.0], np.abs(s).ravel()]))
    if levels.size > 1:
        area = performance_profile(np.abs(s), levels)[:-1] @ np.diff(levels)
        assert area == pytest.approx(mean(np.abs(s)), abs=1e-8)


@given(scores, scores)
def test_probability_of_improvement_is_mann_whitneys_u_over_the_pairs(x, y):
    x, y = x[:, :1], y[:, :1]
    u = scipy.stats.mannwhitneyu(x[:, 0], y[:, 0], method="asymptotic").statistic
    assert probability_of_improvement(x, y) == pytest.approx(u / (len(x) * len(y)))
    both = probability_of_improvement(x, y) + probability_of_improvement(y, x)
    assert both == pytest.approx(1)


@given(scores)
def test_nothing_improves_on_itself(s):
    assert probability_of_improvement(s, s) == pytest.approx(0.5)
    assert probability_of_improvement(s + 3000, s) == 1.0
    np.testing.assert_allclose(percent_improvement(s, s, floor=1.0), 0.0, atol=1e-9)


def test_improvement_of_unequal_numbers_of_runs_with_one_missing():
    new, baseline = np.array([[2.0, 5.0], [4.0, NAN]]), np.array([[1.0, 5.0], [3.0, 6.0], [4.0, 1]])
    by_task = [(1 + 0 + 0 + 1 + 1 + 0.5) / 6, (0.5 + 0 + 1) / 3]
    assert probability_of_improvement(new, baseline) == pytest.approx(np.mean(by_task))
    np.testing.assert_allclose(percent_improvement(new, baseline), [12.5, 25.0])


def test_percent_improvement_is_figure_5_and_its_sign_survives_a_negative_baseline():
    new, baseline = np.array([[150.0, -5.0, -20.0]]), np.array([[50.0, -10.0, -10.0]])
    np.testing.assert_array_equal(percent_improvement(new, baseline), [200.0, 50.0, -100.0])


def test_near_zero_the_floor_keeps_the_percentage_in_hand():
    new, baseline = np.array([[1.0, 1.0]]), np.array([[1e-9, 0.0]])
    raw, safe = percent_improvement(new, baseline), percent_improvement(new, baseline, floor=10.0)
    assert raw[0] > 1e10
    assert np.isnan(raw[1])
    np.testing.assert_allclose(safe, [10.0, 10.0])


def test_referenced_improvement_by_hand():
    found = referenced_improvement(
        [[30.0, 90.0, 0.0]], [[10.0, 60.0, 0.0]], [0, 10, -5], [40, 50, 5]
    )
    np.testing.assert_allclose(found, [50.0, 60.0, 0.0])


def test_sample_efficiency_is_the_estimate_at_each_point():
    curves = np.random.default_rng(0).normal(size=(5, 3, 4))
    curves[1, 2, 3] = NAN
    expected = [interquartile_mean(curves[..., point]) for point in range(4)]
    np.testing.assert_allclose(along_curve(interquartile_mean, curves), expected)


def test_area_under_a_straight_line_is_its_middle():
    steps = np.array([0.0, 1.0, 4.0, 10.0])
    curves = np.stack([[2 * steps, 7 + 0 * steps]])
    np.testing.assert_allclose(area_under_curve(curves, steps), [[10.0, 7.0]])
    assert area_under_curve([[[3.0]]], [5]) == 3.0


def test_statistics_do_not_load_the_learning_library():
    code = "import sys, mviq.reports.statistics; print({'torch', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
