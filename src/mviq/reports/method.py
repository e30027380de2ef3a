"""The explanation of how the numbers of a report were computed."""

from mviq.reports.comparison import FEW_RUNS, Comparison
from mviq.reports.curves import POINTS, RESAMPLES
from mviq.reports.reading import SCORES
from mviq.reports.statistics.intervals import LEVEL
from mviq.reports.statistics.intervals import RESAMPLES as TABLE_RESAMPLES
from mviq.runs.records import final_points


def method(comparison: Comparison) -> dict[str, str]:
    """Return the paragraphs of the explanation by title."""
    choices = comparison.choices
    return {
        "Score": f"The {SCORES[choices.metric]}. {_final(comparison)}",
        "Runs": _runs(comparison),
        "Averages": "The scale is explained below the summary. Mean and median are taken over "
        "environments, of the means over runs; the interquartile mean is the mean of the middle "
        "half of all runs in all environments. With one environment, the median equals the mean "
        "and is not shown. The area under the curve is the time average of a learning curve, "
        "averaged in the same way. If a label has no score in an environment, either the label or "
        "the environment is left out, whichever loses fewer scores.",
        "Intervals": f"{100 * LEVEL:g} % stratified bootstrap: the runs of each environment are "
        "resampled with replacement, and with few runs the interval is widened "
        "(the default of mviq.reports.statistics.interval). "
        f"{TABLE_RESAMPLES} resamples for numbers, {RESAMPLES} for bands, seed {choices.seed}. "
        "Intervals are cut at the largest possible return, such as 500 for CartPole. "
        "With one run there is no interval. The environments are fixed, so the intervals say "
        "nothing about other environments. A band holds at each point, not for the whole curve; "
        "bands much higher than the curves are cut off by the frame. With fewer than "
        f"{FEW_RUNS} runs, curves in one environment are shown run by run; the interval is in the "
        "tooltip and in the CSV file.",
        "Probability of improvement": "The share of pairs of runs, one of each label, in which the "
        "first is better. Ties count half. It is averaged over environments.",
        "Files": f"Curves have at most {POINTS} points, evenly spaced. Figures, tables and "
        "CSV files contain the same numbers.",
    }


def _final(comparison: Comparison) -> str:
    last = comparison.choices.last
    points = {
        e.env: (last or final_points(e.steps.size), e.steps.size) for e in comparison.environments
    }
    if not points:
        return ""
    if len(set(points.values())) == 1:
        ((last, size),) = set(points.values())
        return f"The final score of a run is the mean of its last {last} of {size} points."
    each = ", ".join(f"{last} of {size} in {env}" for env, (last, size) in points.items())
    return f"The final score of a run is the mean of its last points: {each}."


def _runs(comparison: Comparison) -> str:
    if comparison.choices.which == "all":
        return (
            "All runs with a score; in each environment, all curves are cut at the end of the "
            "shortest one."
        )
    diverged = (
        "Finished runs, and diverged runs, which keep their last score to the end"
        if comparison.choices.which == "ended"
        else "Finished runs only"
    )
    return (
        f"{diverged}; other runs are counted as missing. If runs have unequal lengths, all are "
        "cut at the end of the shortest one."
    )
