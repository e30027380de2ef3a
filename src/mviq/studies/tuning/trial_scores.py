"""The evaluation curves of the runs of a trial, also while they are running."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from mviq.runs.config import Config
from mviq.runs.directory import RunDirectory
from mviq.runs.records import evaluation_curve

WARM_UP = 5  # no trial is pruned in the first fifth of its evaluations


@dataclass(frozen=True)
class EvaluationCurve:
    """The evaluations of a run: the mean return at each step."""

    env: str
    steps: tuple[float, ...]
    returns: tuple[float, ...]

    def until(self, points: int) -> "EvaluationCurve":
        """Return the curve of the first ``points`` evaluations."""
        return EvaluationCurve(self.env, self.steps[:points], self.returns[:points])


Judge = Callable[[EvaluationCurve], float]
"""Returns the score of a run, on one scale for all environments of a search."""


def read_curve(run: RunDirectory, config: Config) -> EvaluationCurve:
    """Return the evaluations of a run that are complete."""
    steps, returns = evaluation_curve(run, config.eval_episodes)
    return EvaluationCurve(config.env, tuple(steps.tolist()), tuple(returns.tolist()))


def evaluations(config: Config) -> int:
    """Return the maximum number of evaluations; parallel environments overshoot the end."""
    return ceil(config.total_steps / config.eval_every) + 1


def rungs(
    curves: Sequence[EvaluationCurve], judge: Judge, points: int, known: set[int]
) -> Iterator[tuple[int, float]]:
    """Yield the intermediate scores of a trial at rungs that are not known yet.

    Rung ``i · points + j`` is the mean score of the runs 0, …, i after evaluation j, so that trials
    are compared after the same work on the same seeds, however many runs are done at once.
    """
    for i in range(len(curves)):
        ready = min(len(curve.steps) for curve in curves[: i + 1])
        for j in range(points // WARM_UP, ready):
            if i * points + j not in known:
                yield i * points + j, mean_score([c.until(j + 1) for c in curves[: i + 1]], judge)


def mean_score(curves: Sequence[EvaluationCurve], judge: Judge) -> float:
    """Return the mean score of runs."""
    return sum(map(judge, curves)) / len(curves)
