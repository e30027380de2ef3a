"""Normalised scores: tasks on one scale, so that they can be averaged."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from mviq.arrays import Floats
from mviq.env_families import ATARI as ATARI_FAMILY
from mviq.messages import did_you_mean
from mviq.reports.statistics.score_checks import as_scores

ATARI = ATARI_FAMILY.references


def atari_game(task: str) -> str:
    """Return the game of an environment id.

    >>> atari_game("ALE/BankHeist-v5"), atari_game("PongNoFrameskip-v4"), atari_game("Hero")
    ('BankHeist', 'Pong', 'Hero')
    >>> atari_game("ALE/Bankheist-v5")
    Traceback (most recent call last):
    ValueError: task must be one of the 57 Atari games, got 'ALE/Bankheist-v5'; nearest: BankHeist
    """
    game = ATARI_FAMILY.game(task)
    if game in ATARI:
        return game
    hint = did_you_mean(game, ATARI, "nearest: {}")
    raise ValueError(f"task must be one of the 57 Atari games, got {task!r}{hint}")


def normalised(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> Floats:
    """Return (score − low) / (high − low), with one ``low`` and one ``high`` per task.

    >>> normalised([[20.0, 5.0], [500.0, 10.0]], low=[20.0, 0.0], high=[500.0, 10.0])
    array([[0. , 0.5],
           [1. , 1. ]])
    """
    array = as_scores("scores", scores)
    bottom, top = _per_task("low", low, array), _per_task("high", high, array)
    if not (bottom < top).all():
        at = int(np.argmin(np.broadcast_to(bottom < top, array.shape[-1:])))
        raise ValueError(f"low must be below high in every task, got the contrary in task {at}")
    return (array - bottom) / (top - bottom)


def human_normalised(scores: ArrayLike, tasks: Sequence[str]) -> Floats:
    """Return Atari scores ``(runs, tasks)`` with 0 for random play and 1 for a human.

    >>> human_normalised([[227.8, 30.5], [7127.7, 1.7]], ["ALE/Alien-v5", "ALE/Breakout-v5"])
    array([[0., 1.],
           [1., 0.]])
    """
    references = [ATARI[atari_game(task)] for task in tasks]
    low, high = zip(*references, strict=True) if references else ((), ())
    return normalised(scores, low, high)


def _per_task(name: str, values: ArrayLike, scores: Floats) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape not in ((), scores.shape[-1:]):
        raise ValueError(
            f"{name} must be one number, or one for each of the {scores.shape[-1]} tasks, "
            f"got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)].flat[0]}")
    return array
