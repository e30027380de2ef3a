"""Agreement with rliable 1.2.0, the library of the paper that proposed these statistics.

rliable does not run on a fresh installation: its intervals need arch < 8 and pandas < 3. The
numbers below were made in an environment of their own with

    pip install --no-deps rliable==1.2.0 arch==7.2.0
    pip install 'pandas<3' numpy scipy statsmodels absl-py matplotlib seaborn

from ``X`` and ``Y`` (gamma variates, rounded) by ``metrics.aggregate_mean``, ``aggregate_median``,
``aggregate_iqm``, ``aggregate_optimality_gap`` and ``probability_of_improvement``, by
``library.score_distributions(X, THRESHOLDS)``, and, after ``numpy.random.seed(0)`` because its own
``random_state`` has no effect, by ``get_interval_estimates(..., reps=50000)`` for the aggregates,
``reps=10000`` for the probability of improvement, and ``create_performance_profile(...,
reps=20000)``. Its intervals carry the noise of their resamples: the tolerance is a few per cent of
their width.
"""

import numpy as np
import pytest
import scipy.stats

from mviq.reports.statistics import (
    interquartile_mean,
    interval,
    mean,
    median,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
)

X = np.array(
    [
        [1.352, 1.451, 0.175, 1.218, 2.107, 1.055],
        [0.243, 0.692, 0.179, 0.198, 1.25, 0.427],
        [0.394, 0.378, 0.559, 0.468, 0.696, 0.79],
        [0.379, 0.48, 1.508, 0.486, 0.228, 2.149],
        [0.238, 1.142, 0.676, 1.557, 0.312, 1.029],
        [0.399, 0.391, 0.46, 0.333, 0.906, 0.324],
        [2.293, 0.985, 1.374, 0.399, 0.541, 0.769],
        [0.744, 0.424, 1.236, 0.871, 0.679, 0.189],
        [0.91, 0.935, 0.319, 0.03, 0.51, 2.726],
        [0.655, 0.938, 0.454, 0.603, 0.755, 0.767],
    ]
)
Y = np.array(
    [
        [0.674, 0.646, 0.25, 0.483, 0.726, 0.546],
        [0.25, 0.028, 0.604, 0.673, 1.356, 0.417],
        [0.536, 0.776, 0.112, 0.289, 0.752, 1.733],
        [0.513, 2.14, 0.965, 0.751, 0.111, 0.678],
        [0.29, 0.637, 0.507, 0.796, 0.083, 0.191],
        [0.26, 0.399, 0.825, 0.193, 0.596, 0.431],
        [1.117, 0.197, 0.134, 0.573, 0.089, 0.483],
    ]
)
THRESHOLDS = [0.25, 0.5, 1.0, 1.5]
AGGREGATES = (mean, median, interquartile_mean, optimality_gap)
RLIABLE_X = (0.7789166666666666, 0.77115, 0.6457333333333332, 0.36186666666666645)
RLIABLE_Y = (0.566904761904762, 0.5336428571428571, 0.509590909090909, 0.4889523809523809)
RLIABLE_INTERVALS_X = (
    (0.6480166666666666, 0.9200499999999999),
    (0.6158987499999999, 0.9095500000000001),
    (0.5321333333333333, 0.7931666666666666),
    (0.2895995833333332, 0.4341175000000001),
)


@pytest.mark.parametrize("place", range(4), ids=[f.__name__ for f in AGGREGATES])
def test_aggregates(place):
    assert AGGREGATES[place](X) == pytest.approx(RLIABLE_X[place], abs=1e-12)
    assert AGGREGATES[place](Y) == pytest.approx(RLIABLE_Y[place], abs=1e-12)


def test_probability_of_improvement():
    assert probability_of_improvement(X, Y) == pytest.approx(0.6071428571428571, abs=1e-12)


def test_profile():
    expected = [0.8666666666666667, 0.5833333333333334, 0.25, 0.1]
    np.testing.assert_allclose(performance_profile(X, THRESHOLDS), expected)


def assert_close_for_its_width(found, low, high, share=0.05):
    tolerance = share * (np.asarray(high) - low)
    assert (np.abs(found.low - low) <= tolerance).all(), (found.low, low)
    assert (np.abs(found.high - high) <= tolerance).all(), (found.high, high)


@pytest.mark.parametrize("place", range(4), ids=[f.__name__ for f in AGGREGATES])
def test_percentile_intervals(place):
    found = interval(AGGREGATES[place], X, method="percentile", resamples=20_000)
    assert_close_for_its_width(found, *RLIABLE_INTERVALS_X[place])


def test_interval_of_the_probability_of_improvement():
    found = interval(probability_of_improvement, X, Y, method="percentile", resamples=10_000)
    assert_close_for_its_width(found, 0.4880952380952381, 0.719047619047619)


def test_intervals_of_the_profile():
    def profile(s):
        return performance_profile(s, THRESHOLDS)

    found = interval(profile, X, method="percentile", resamples=10_000)
    low = np.array([0.7833333333333333, 0.4666666666666667, 0.15, 0.03333333333333333])
    high = np.array([0.95, 0.7, 0.36666666666666664, 0.18333333333333332])
    one_score = 1 / X.size  # the steps of a profile: an end may fall on the next one
    np.testing.assert_allclose(found.low, low, atol=one_score + 1e-9)
    np.testing.assert_allclose(found.high, high, atol=one_score + 1e-9)


@pytest.mark.parametrize("missing", [False, True], ids=["complete", "missing runs"])
def test_the_same_as_scipys_bootstrap_with_one_sample_per_task(missing):
    data = X.copy()
    if missing:
        data[7:, 0] = data[4, 2] = np.nan
    columns = [column[~np.isnan(column)] for column in data.T]

    def trimmed(*tasks, axis):
        return scipy.stats.trim_mean(np.concatenate(tasks, axis=axis), 0.25, axis=axis)

    theirs = scipy.stats.bootstrap(
        columns, trimmed, n_resamples=10_000, method="percentile", vectorized=True, axis=-1, rng=3
    ).confidence_interval
    ours = interval(interquartile_mean, data, method="percentile", resamples=10_000)
    assert_close_for_its_width(ours, theirs.low, theirs.high)
