"""What a person sees of a search at work."""

import sys

from rich.console import Console

from mviq.studies.board import Board, Line, Lines, Quiet, Screen, Tally


class Score(Tally):
    """Counts trials; of the runs only those that have been begun are known."""

    def __init__(self, trials: int) -> None:
        super().__init__({})
        self.trials, self.ended, self.best = trials, 0, "none yet"
        self.told: set[int] = set()

    def begin(self, run: str, line: Line) -> None:
        """Add a run."""
        line.step = line.first
        self.runs[run] = line

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


def trial_board(score: Score, quiet: bool) -> Board:
    """Return what fits the place: a board on a terminal, lines in a file, nothing if so wished."""
    if quiet:
        return Quiet()
    console = Console(stderr=True)
    return Screen(score, console) if console.is_terminal else Lines(score, sys.stderr)
