"""What a person sees of a search at work."""

from collections.abc import Iterable

from mviq.studies.board import Line, Tally
from mviq.studies.tuning.results import TrialResult


class Score(Tally):
    """Counts trials; of the runs only those that have been begun are known."""

    def __init__(self, trials: int) -> None:
        super().__init__({})
        self.trials, self.ended, self.best = trials, 0, "none yet"

    def begin(self, run: str, line: Line) -> None:
        """Add a run."""
        line.step = line.first
        self.runs[run] = line

    def count(self, trials: Iterable[TrialResult]) -> None:
        """Count the trials that have ended, and find the best."""
        ended = [trial for trial in trials if trial.state != "interrupted"]
        scores = [(t.score, -t.number) for t in ended if t.score is not None]
        self.ended = len(ended)
        if scores:
            score, number = max(scores)
            self.best = f"{score:.4g} (trial {-number})"

    @property
    def done(self) -> int:
        """Return the trials that have ended."""
        return self.ended

    @property
    def total(self) -> int:
        """Return the trials in all."""
        return self.trials

    def __str__(self) -> str:
        return (
            f"{self.ended}/{self.trials} trials, best so far {self.best}, {self.rate:,.0f} steps/s"
        )
