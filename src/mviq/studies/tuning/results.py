"""The results of a search, for tables and figures. Nothing here imports Optuna."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mviq.studies.tuning.search_file import Search, trial_label

GIVEN_UP = ("pruned", "diverged")


@dataclass(frozen=True)
class TrialResult:
    """The result of a trial."""

    number: int
    chosen: Mapping[str, Any]
    """The settings of the trial."""
    state: str
    """One of finished, pruned, diverged, failed, interrupted."""
    score: float | None
    """The mean over its runs; only a finished trial has one."""
    scores: Mapping[tuple[int, str], float | None]
    """The score of each run by seed and environment, None if it has not finished."""
    reason: str
    """Why it has no score, or which trial it repeats."""

    def __str__(self) -> str:
        end = self.state if self.score is None else f"{self.score:.4g}"
        text = f"{trial_label(self.number, self.chosen)}: {end}"
        return f"{text}, {self.reason}" if self.reason else text

    @property
    def is_open(self) -> bool:
        """Whether the trial can still be continued."""
        return self.state in ("failed", "interrupted")


@dataclass(frozen=True)
class SearchOutcome:
    """The results of a search so far."""

    search: Search
    trials: tuple[TrialResult, ...]
    importances: Mapping[str, float]
    """The importance of each parameter between 0 and 1; empty if there are too few trials."""
    stopped: bool = False

    @property
    def ranked(self) -> list[TrialResult]:
        """Return the finished trials, the best first; a trial that repeats another is left out."""
        scored = [t for t in self.trials if t.score is not None and not t.reason]
        return sorted(scored, key=lambda trial: (-(trial.score or 0.0), trial.number))

    @property
    def exit_code(self) -> int:
        """Return 0 if there is a best trial and none failed, 130 if stopped, 1 otherwise."""
        if self.stopped:
            return 130
        return 0 if self.ranked and not any(trial.is_open for trial in self.trials) else 1
