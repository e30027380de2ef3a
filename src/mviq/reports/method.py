"""How the numbers of a report were computed, in words, beside the numbers."""

from mviq.reports.comparison import FEW_RUNS, Comparison
from mviq.reports.curves import POINTS, RESAMPLES
from mviq.reports.reading import SCORES
from mviq.reports.statistics.intervals import LEVEL
from mviq.reports.statistics.intervals import RESAMPLES as TABLE_RESAMPLES
from mviq.runs.records import final_points


def method(comparison: Comparison) -> dict[str, str]:
    """Return paragraphs, by their titles, for the reader who wants to check."""
    choices = comparison.choices
    return {
        "Score": f"The {SCORES[choices.metric]}. {_final(comparison)}",
        "Runs": _runs(comparison),
        "Averages": "The scale is explained below the summary. Mean and median are over "
        "environments, of the means over runs; the interquartile mean is the mean of the middle "
        "half of all runs in all environments. With one environment the median would be the mean, "
        "and is not shown. The area under the curve is the time average of a learning curve, "
        "averaged likewise. Where a label has no score in an environment, one of the two is left "
        "out, the one that takes fewer scores with it.",
        "Intervals": f"{100 * LEVEL:g} % stratified bootstrap: the runs of each environment are "
        "drawn again, with replacement, and the distance of both ends from the estimate is "
        "widened for few runs (the default of mviq.reports.statistics.interval). "
        f"{TABLE_RESAMPLES} resamples for numbers, {RESAMPLES} for bands, seed {choices.seed}. "
        "An interval ends where a return must: CartPole's is at most 500. "
        "With one run there is no interval. The environments are fixed: nothing is said about "
        "others. A band holds at each point, not for the whole curve; where it is much higher than "
        f"the lines the frame cuts it. With fewer than {FEW_RUNS} runs curves in one "
        "environment are shown run by run; the interval is under the pointer and in the CSV file.",
        "Probability of improvement": "The share of pairs, a run of one and a run of the other, in "
        "which the one is better, ties counting half, averaged over environments.",
        "Files": f"Curves have at most {POINTS} points, evenly taken. Figures, tables and CSV "
        "files hold the same numbers.",
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
            "All that have measured something; in each environment every curve is cut where "
            "the shortest one ends."
        )
    diverged = (
        "Finished ones, and those that diverged, which keep their last score to the end"
        if comparison.choices.which == "ended"
        else "Finished ones only"
    )
    return (
        f"{diverged}; others are missing, and counted as such. Where runs have unequal lengths, "
        "all are cut where the shortest ends."
    )
