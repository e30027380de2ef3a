"""Bad input is refused in one line that names the argument, the value and what is allowed."""

import numpy as np
import pytest

from mviq.reports.statistics import (
    along_curve,
    area_under_curve,
    atari_game,
    human_normalised,
    improvements,
    interval,
    mean,
    median,
    normalised,
    optimality_gap,
    percent_improvement,
    performance_profile,
    probability_of_improvement,
    referenced_improvement,
)

S = np.ones((3, 2))
INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean([1.0]), r"scores must have shape \(..., runs, tasks\), got shape \(1,\)"),
        (lambda: mean(np.ones((0, 3))), r"scores must have at least one run.*\(0, 3\)"),
        (lambda: median([[INF]]), "scores must be finite, or NaN for a missing run, got inf"),
        (lambda: mean([["a"]]), "scores must be numbers of shape"),
        (lambda: mean([[1.0], [1.0, 2.0]]), "scores must be numbers of shape"),
        (lambda: optimality_gap(S, NAN), "target must be a finite number, got nan"),
        (lambda: performance_profile(S, [1.0, 0.0]), "thresholds must increase, got 1 before 0"),
        (lambda: performance_profile(S, []), r"thresholds must be a vector.*\(0,\)"),
        (lambda: performance_profile(S, [NAN]), "thresholds must be finite, got nan"),
        (lambda: probability_of_improvement(S, S[:, :1]), "new and baseline.*same tasks.*2 and 1"),
        (lambda: percent_improvement(S, S, floor=-1), "floor must be a finite number >= 0, got -1"),
        (lambda: referenced_improvement(S, S, 1, 1), "low must be below high"),
        (lambda: referenced_improvement(S, S, 0, NAN), "low must be below high"),
        (lambda: along_curve(mean, S), r"curves must have shape \(runs, tasks, points\)"),
        (lambda: area_under_curve(np.ones((1, 1, 3)), [1, 2]), "got 2 for 3 points"),
        (lambda: interval(mean), "at least one sample of scores, got none"),
        (lambda: interval(mean, [1.0]), "sample 1 must have shape"),
        (lambda: interval(mean, S, level=95), "level must be between 0 and 1.*got 95"),
        (lambda: interval(mean, S, method="bca"), "method must be one of widened, percentile.*bca"),
        (lambda: interval(mean, S, resamples=10), "resamples must be an integer >= 100, got 10"),
        (lambda: interval(mean, S, seed=-1), "seed must be an integer >= 0, got -1"),
        (lambda: interval(mean, S, seed=1.5), "seed must be an integer >= 0, got 1.5"),
        (lambda: interval(mean, S, bounds=(1, 0)), "bounds must be a lower and a higher number"),
        (lambda: interval(percent_improvement, S, S[None]), "same batch and points"),
        (lambda: normalised(S, [0, 0, 0], 1), r"low must be one number, or.*2 tasks.*\(3,\)"),
        (lambda: normalised(S, 0, [1, -1]), "low must be below high in every task.*task 1"),
        (lambda: normalised(S, NAN, 1), "low must be finite, got nan"),
        (
            lambda: human_normalised(S, ["Pong", "Ping"]),
            "57 Atari games, got 'Ping'; nearest: Pong",
        ),
        (lambda: human_normalised(S, ["Pong"]), "each of the 2 tasks"),
        (lambda: atari_game("CartPole-v1"), "one of the 57 Atari games, got 'CartPole-v1'"),
        (lambda: improvements({"a": S}, baseline="b"), "baseline must be one of a, got 'b'"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
