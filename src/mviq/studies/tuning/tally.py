"""The progress display of a search counts trials instead of steps."""

from collections.abc import Iterable

from mviq.studies.board import Tally
from mviq.studies.engine import Ended, Event
from mviq.studies.tuning.results import TrialResult


class TrialTally(Tally):
    """Counts trials; of the runs it knows only those that have been started."""

    def __init__(self, trials: int) -> None:
        super().__init__()
        self._trials, self._ended, self._best = trials, 0, "none yet"

    def take(self, event: Event) -> str | None:
        """Count an event; the end of a run is not announced, that of its trial is."""
        text = super().take(event)
        return None if isinstance(event, Ended) else text

    def count(self, trials: Iterable[TrialResult]) -> None:
        """Count the trials that have ended, and find the best."""
        ended = [trial for trial in trials if trial.state != "interrupted"]
        scores = [(t.score, -t.number) for t in ended if t.score is not None]
        self._ended = len(ended)
        if scores:
            score, number = max(scores)
            self._best = f"{score:.4g} (trial {-number})"

    @property
    def done(self) -> int:
        """The trials that have ended."""
        return self._ended

    @property
    def total(self) -> int:
        """The trials in all."""
        return self._trials

    @property
    def brief(self) -> str:
        """The state of the search, to be appended to other text."""
        return f"[{self._ended}/{self._trials}, best {self._best}]"

    def __str__(self) -> str:
        trials = f"{self._ended}/{self._trials} trials, best so far {self._best}"
        return f"{trials}, {self.rate:,.0f} steps/s"
