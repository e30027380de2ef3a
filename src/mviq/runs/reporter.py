"""Reports the progress of a run."""

from rich.console import Console

from mviq.progress import Bar, Display, duration


class Reporter:
    """Receives the progress of a run, and shows nothing."""

    def start(self, step: int, total: int) -> None:
        """Begin at a step."""

    def update(self, step: int, mean_return: float | None) -> None:
        """Receive how far the run is; called after every rollout."""

    def say(self, text: str) -> None:
        """Receive a message for the user."""

    def stop(self) -> None:
        """End."""


class DisplayReporter(Reporter):
    """Shows return, speed and time left."""

    def __init__(self, console: Console | None = None, quiet: bool = False) -> None:
        self._display = Display(self._bars, self._line, console=console, quiet=quiet)

    def start(self, step: int, total: int) -> None:
        self._first, self._total = step, total
        self._step, self._return = step, "-"
        self._display.start()

    def update(self, step: int, mean_return: float | None) -> None:
        self._step = step
        self._return = "-" if mean_return is None else f"{mean_return:.1f}"
        self._display.update()

    def say(self, text: str) -> None:
        self._display.say(text)

    def stop(self) -> None:
        self._display.stop()

    def _bars(self, elapsed: float) -> list[Bar]:
        title = f"{self._step:,}/{self._total:,} steps"
        return [Bar(title, self._step, self._total, self._note(elapsed))]

    def _line(self, elapsed: float) -> str:
        return f"step {self._step}/{self._total}, {self._note(elapsed)}"

    def _note(self, elapsed: float) -> str:
        rate = (self._step - self._first) / max(elapsed, 1e-9)
        left = duration((self._total - self._step) / rate) if rate else "?"
        return f"return {self._return}, {rate:.0f} steps/s, {left} left"
