"""Helpers for messages: suggestions, counts, text on one line."""

from collections.abc import Iterable
from difflib import get_close_matches

OTHER_NAMES = {
    "lr": "learning_rate",
    "alpha": "munchausen_alpha",
    "tau": "temperature",
    "discount": "gamma",
    "gamma": "discount",
    "steps": "total_steps",
    "timesteps": "total_steps",
    "n_timesteps": "total_steps",
    "total_timesteps": "total_steps",
    "train_freq": "train_every",
    "eval_freq": "eval_every",
    "target_update_interval": "target_every",
    "exploration_fraction": "epsilon_fraction",
    "net_arch": "hidden",
    "max_iter": "max_iterations",
}
"""Names used by the paper, Stable-Baselines3 and its zoo, with the names used here."""
LONGEST_WORD, MOST_SHOWN = 200, 1000  # characters of a message


def did_you_mean(
    name: object, known: Iterable[str], hint: str = "did you mean {}?", cutoff: float = 0.6
) -> str:
    """Return a hint at the closest known name, to be appended to a message; empty if none is close.

    >>> did_you_mean("temprature", ["seed", "temperature"])
    '; did you mean temperature?'
    >>> did_you_mean("--lr", ["--learning-starts", "--learning-rate"])
    '; did you mean --learning-rate?'
    """
    names = list(known)
    meant = OTHER_NAMES.get(_plain(str(name)))
    close = [known for known in names if _plain(known) == meant]
    close = close or get_close_matches(str(name), names, n=1, cutoff=cutoff)
    return f"; {hint.format(close[0])}" if close else ""


def _plain(name: str) -> str:
    """Return an option such as --learning-rate as the name of a setting, learning_rate."""
    return name.lstrip("-").replace("-", "_")


def counted(number: int, word: str) -> str:
    """Return a number with its noun in singular or plural.

    >>> counted(1, "run"), counted(3000, "run")
    ('1 run', '3,000 runs')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def one_line(text: object) -> str:
    """Return a text without line breaks."""
    return " ".join(str(text).split())


def error_line(text: object) -> str:
    r"""Return a text as one line that a terminal can show: no control characters, no long words.

    >>> print(error_line("two \nlines\x1b[31m"), len(error_line("x" * 5000)))
    two lines\x1b[31m 201
    """
    words = " ".join(map(_shortened, str(text).split()))
    words = words if len(words) <= MOST_SHOWN else f"{words[:MOST_SHOWN]}…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in words)


def _shortened(word: str) -> str:
    half = LONGEST_WORD // 2
    return word if len(word) <= LONGEST_WORD else f"{word[:half]}…{word[-half:]}"
