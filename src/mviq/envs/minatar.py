"""MinAtar's five games as Gymnasium environments (Young and Tian, 2019).

``MinAtar/<Game>-v1`` has the game's minimal action set, as MinAtar's own environment of that name.
Observations are 0 or 1, with channels first, as convolutions expect them.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import matplotlib
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Observation = NDArray[np.uint8]

CELL = 16  # pixels a side of a rendered cell


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block: MinAtar catches all exceptions of its imports."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        signal.raise_signal(signal.SIGINT)


class MinAtarEnv(gym.Env[Observation, np.int64]):
    """One MinAtar game.

    :param game: MinAtar's name of the game
    :param minimal_actions: only the actions that have an effect in this game
    :param sticky_action_prob: probability of repeating the last action
    :param difficulty_ramping: the game becomes harder as it goes on
    :param render_mode: None or rgb_array
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - Gymnasium's form

    def __init__(
        self,
        game: str,
        minimal_actions: bool = True,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
        render_mode: str | None = None,
    ) -> None:
        try:
            with _interrupts_deferred():
                from minatar import Environment  # type: ignore[import-untyped]
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "MinAtar needs an extra: pip install 'mviq[minatar]'", name=error.name
            ) from error
        self.game = Environment(game, sticky_action_prob, difficulty_ramping)
        # MinAtar numbers its actions: no-op, left, up, right, down, fire.
        self.actions = self.game.minimal_action_set() if minimal_actions else list(range(6))
        height, width, channels = self.game.state_shape()
        self.action_space = spaces.Discrete(len(self.actions))
        self.observation_space = spaces.Box(0, 1, (channels, height, width), np.uint8)
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game; a seed determines it and all that follow."""
        super().reset(seed=seed)
        if seed is not None:
            self.game.seed(int(self.np_random.integers(2**31)))
        self.game.reset()
        self.game.last_action = 0
        return self._observe(), {}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        reward, over = self.game.act(self.actions[action])
        return self._observe(), float(reward), bool(over), False, {}

    def _observe(self) -> Observation:
        state = self.game.state().transpose(2, 0, 1)
        return np.ascontiguousarray(state).view(np.uint8)

    def render(self) -> Observation | None:
        """Return the board as an RGB image, each channel in its own colour."""
        if self.render_mode is None:
            return None
        state = self._observe()
        channels = len(state)
        palette = matplotlib.colormaps["cubehelix"](np.linspace(0, 1, channels + 2))[:-1, :3]
        topmost = (state * np.arange(1, channels + 1)[:, None, None]).max(0)
        picture = (255 * palette[topmost]).astype(np.uint8)
        return np.asarray(picture.repeat(CELL, 0).repeat(CELL, 1))
