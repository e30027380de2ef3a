"""What an interval promises: the seed decides it, it is Welch's for a mean, it covers."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from mviq.reports.statistics import (
    curve_interval,
    improvements,
    interquartile_mean,
    interval,
    mean,
    percent_improvement,
    performance_profile,
    probability_of_improvement,
    summarise,
    task_means,
)

NAN = np.nan
SCORES = np.random.default_rng(5).gamma(2.0, 1.0, size=(8, 4))


def ends(found):
    return np.array([found.low, found.high])


def test_same_seed_same_interval_and_another_seed_another():
    first, again = (interval(interquartile_mean, SCORES, seed=1) for _ in range(2))
    np.testing.assert_array_equal(ends(first), ends(again))
    other = interval(interquartile_mean, SCORES, seed=2)
    assert (ends(first) != ends(other)).all()
    np.testing.assert_allclose(ends(first), ends(other), rtol=0.05)


def test_how_the_work_is_divided_does_not_show(monkeypatch):
    whole = interval(probability_of_improvement, SCORES, SCORES[:5], resamples=500)
    monkeypatch.setattr("mviq.reports.statistics.intervals._BLOCK", 100)
    parts = interval(probability_of_improvement, SCORES, SCORES[:5], resamples=500)
    np.testing.assert_array_equal(ends(whole), ends(parts))


@pytest.mark.parametrize("runs", [30, 60])
def test_of_a_mean_of_normal_scores_it_is_welchs(runs):
    """One task: Student's interval. Two samples: Welch's, with its degrees of freedom."""
    rng = np.random.default_rng(runs)
    x, y = rng.normal(3, 1, (runs, 1)), rng.normal(0, 4, (runs // 2, 1))
    found = interval(mean, x, resamples=20_000)
    student = scipy.stats.ttest_1samp(x[:, 0], 0).confidence_interval()
    np.testing.assert_allclose(ends(found), student, atol=0.04 * (student.high - student.low))
    found = interval(lambda a, b: mean(a) - mean(b), x, y, resamples=20_000)
    welch = scipy.stats.ttest_ind(x[:, 0], y[:, 0], equal_var=False).confidence_interval()
    np.testing.assert_allclose(ends(found), welch, atol=0.04 * (welch.high - welch.low))


def test_widening_is_the_formula():
    """√(n/(n−1)) t/z about the estimate: 2.69 with 3 runs of one task."""
    x = np.array([[1.0], [2.0], [4.0]])
    narrow, wide = (interval(mean, x, method=m) for m in ("percentile", "widened"))
    factor = np.sqrt(3 / 2) * scipy.stats.t.ppf(0.975, 2) / scipy.stats.norm.ppf(0.975)
    np.testing.assert_allclose(ends(wide) - x.mean(), factor * (ends(narrow) - x.mean()))


def test_each_point_of_a_curve_has_the_interval_of_its_scores_alone():
    curves = np.random.default_rng(0).normal(size=(6, 3, 5)).cumsum(axis=-1)
    curves[2, 1, 3:] = NAN
    found = curve_interval(interquartile_mean, curves, resamples=300)
    alone = [interval(interquartile_mean, curves[..., k], resamples=300) for k in range(5)]
    np.testing.assert_allclose(ends(found), np.transpose([ends(a) for a in alone]))


def test_each_task_has_the_width_of_its_own_runs():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 2)) * [1.0, 1000.0]
    x[3:, 0] = NAN  # 3 runs of one task, 12 of the other
    both = interval(task_means, x, per_task=True, resamples=20_000)
    for task, runs in ((0, 3), (1, 12)):
        alone = interval(mean, x[:runs, task : task + 1], resamples=20_000)
        width = both.high[task] - both.low[task]
        assert width == pytest.approx(alone.high - alone.low, rel=0.03)


def test_percent_improvement_has_one_interval_per_task():
    new, baseline = SCORES + np.array([0, 0, 5, -1]), SCORES
    found = interval(percent_improvement, new, baseline, per_task=True)
    assert found.estimate.shape == found.low.shape == (4,)
    assert found.low[2] > 0
    assert found.low[0] < 0 < found.high[0]


@pytest.mark.parametrize("lonely", [[[1.0, 2.0]], [[1.0, 2.0], [3.0, NAN]]])
def test_one_run_of_a_task_gives_an_estimate_without_an_interval(lonely):
    found = interval(mean, lonely)
    assert np.isfinite(found.estimate)
    assert np.isnan(ends(found)).all()
    by_task = interval(task_means, lonely, per_task=True)
    assert np.isnan(by_task.low[1])
    assert np.isfinite(by_task.low[0]) == (len(lonely) == 2)


def test_equal_runs_give_an_interval_of_no_width():
    np.testing.assert_array_equal(ends(interval(mean, np.full((4, 2), 500.0))), [500.0, 500.0])


def test_probabilities_stay_between_zero_and_one():
    found = interval(
        lambda s: performance_profile(s, [0.5, 1.0, 2.0, 4.0]), SCORES[:3], bounds=(0, 1)
    )
    assert (found.low >= 0).all()
    assert (found.high <= 1).all()


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4), st.floats(-5, 5))
def test_moves_with_the_scores_and_contains_the_estimate(seed, runs, tasks, shift):
    x = np.random.default_rng(seed).normal(size=(runs, tasks))
    found, moved = (interval(mean, y, resamples=400) for y in (x, x + shift))
    np.testing.assert_allclose(ends(moved), ends(found) + shift, atol=1e-9)
    assert found.low <= found.estimate <= found.high
    narrower = interval(mean, x, resamples=400, level=0.5)
    assert found.low <= narrower.low
    assert narrower.high <= found.high


def test_summary_says_what_stands_behind_each_number():
    x = SCORES.copy()
    x[0, 0] = x[1, 0] = NAN
    rows = summarise({"new": x, "old": SCORES / 2}, normalised=True)
    assert [row.statistic for row in rows[:4]] == [
        *("mean", "median", "interquartile mean", "optimality gap")
    ]
    assert rows[0].fewest_runs == 6
    assert rows[4].estimate == pytest.approx(SCORES.mean() / 2)
    (row,) = improvements({"new": x, "old": SCORES / 2}, baseline="old")
    assert 0.5 < row.estimate == probability_of_improvement(x, SCORES / 2)
    assert 0 <= row.low < row.estimate < row.high <= 1


def _benchmark():
    path = Path(__file__).parents[2] / "benchmarks" / "intervals.py"
    specification = importlib.util.spec_from_file_location("coverage_benchmark", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def measured(estimate, kind, runs, tasks):
    benchmark = _benchmark()
    options = {"simulations": 1000, "resamples": 300}
    return benchmark.coverage(estimate, benchmark.KINDS[kind], runs, tasks, **options)


@pytest.mark.parametrize("estimate", ["mean", "IQM", "gap"])
def test_ten_runs_of_five_tasks_are_covered_as_promised(estimate):
    assert 0.92 <= measured(estimate, "normal", 10, 5)["widened"] <= 0.98


def test_three_seeds_of_one_task_need_the_widening():
    found = measured("mean", "normal", 3, 1)
    assert found["percentile"] < 0.82
    assert 0.92 <= found["widened"] <= 0.98


def test_no_interval_knows_of_failures_that_three_seeds_did_not_show():
    """A quarter of the runs fail: with three seeds, 42 % of studies see no failure at all."""
    assert measured("mean", "failing", 3, 1)["widened"] < 0.8
