"""Prioritised replay (Schaul et al. 2016): transitions with large errors are replayed more often.

Transition i is drawn with probability p_i / Σp, where p = (error + 1e-6)^exponent and the error is
the mean |y_j − z_i| over predicted quantiles and targets, or |y − Q| for a scalar critic. A new
transition gets the largest p so far. The gradient of a transition is multiplied by
(p_i / min p)^−β, the minimum over the batch, and β is annealed from its initial value to 1.
"""

from typing import Any

import numpy as np
from stable_baselines3.common.buffers import NStepReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from mviq.agents.codec import register
from mviq.agents.kernels.sums import find_leaves, set_leaves, sum_up
from mviq.agents.replay import FrameReplayBuffer
from mviq.arrays import Array

SMALLEST_ERROR = 1e-6  # so that every transition can be drawn again
_MOST = 2**62  # of a priority in a file


class Prioritized(NStepReplayBuffer):
    """Samples transitions by their priorities, with n-step returns.

    :param exponent: 0 draws uniformly, 1 in proportion to the error
    :param beta: the initial β, between 0 and 1
    """

    unordered: tuple[str, ...] = ("priorities", "largest")

    def __init__(
        self,
        *arguments: Any,
        exponent: float = 0.5,  # this and β: Rainbow (Hessel et al. 2018)
        beta: float = 0.4,
        n_steps: int = 1,
        **options: Any,
    ) -> None:
        for name, number in (("exponent", exponent), ("beta", beta)):
            if not (isinstance(number, int | float) and 0 <= number <= 1):
                raise ValueError(f"{name} must be between 0 and 1, got {number!r}")
        super().__init__(*arguments, n_steps=n_steps, **options)
        self.exponent, self.beta = exponent, beta
        self._tree = np.zeros(2 * 2 ** (self.buffer_size * self.n_envs - 1).bit_length())
        self.largest = np.ones(1)
        self._drawn: Array = np.zeros(0, np.int64)
        self._stale = False  # whether priorities may have changed without their sums

    @property
    def priorities(self) -> Array:
        """The priorities (rows, environments), to read."""
        view = self._leaves()
        view.flags.writeable = False
        return view

    def _leaves(self) -> Array:
        """Return the priorities as a view of the tree, also in a copied buffer."""
        leaves = self._tree[len(self._tree) // 2 :]
        return leaves[: self.buffer_size * self.n_envs].reshape(-1, self.n_envs)

    def add(self, *transition: Any, **named: Any) -> None:
        """Store one transition of every environment, with the largest priority so far."""
        row = self.pos
        super().add(*transition, **named)
        self._set(row, self.largest[0])

    def _set(self, row: int, priority: float) -> None:
        leaves = np.arange(row * self.n_envs, (row + 1) * self.n_envs)
        set_leaves(self._tree, leaves, np.full(self.n_envs, priority))

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Return a stratified batch: one transition from each of ``batch_size`` parts of Σp."""
        if self.size() == 0:
            raise ValueError("there is nothing to sample: the replay buffer is empty")
        if self._stale:
            self._sum_up()
        parts = np.arange(batch_size) + np.random.rand(batch_size)  # noqa: NPY002 - as SB3 draws
        self._drawn = np.empty(batch_size, np.int64)
        find_leaves(self._tree, parts * (self._tree[1] / batch_size), self._drawn)
        return self.transitions(*np.divmod(self._drawn, self.n_envs), env)

    def _sum_up(self) -> None:
        """Compute all sums anew; only rows that hold transitions may have priorities."""
        empty = np.ones(self.buffer_size, bool)
        empty[(self.pos - 1 - np.arange(self.size())) % self.buffer_size] = False
        self._leaves()[empty] = 0
        sum_up(self._tree)
        if not self._tree[1] > 0:
            raise ValueError("the priorities of the replay buffer are all 0")
        self._stale = False

    def transitions(self, rows: Array, envs: Array, env: Any = None) -> ReplayBufferSamples:
        """Return transitions with n-step returns, computed as in Stable-Baselines3."""
        steps = np.arange(self.n_steps)
        window = (rows[:, None] + steps) % self.buffer_size, envs[:, None]
        newest = (self.pos - 1) % self.buffer_size  # the row after it is older
        over = (self.dones[window] > 0) | (self.timeouts[window] > 0) | (window[0] == newest)
        last = np.where(over.any(1), over.argmax(1), self.n_steps - 1)
        discounts = (self.gamma ** steps.astype(np.float32)) * (steps <= last[:, None])
        rewards = self._normalize_reward(self.rewards[window], env) * discounts
        end = (rows + last) % self.buffer_size, envs
        found: tuple[Any, ...] = (
            self._normalize_obs(self.observations[rows, envs], env),
            self.actions[rows, envs],
            self._normalize_obs(self.next_observations[end], env),
            (self.dones[end] * (1 - self.timeouts[end]))[:, None],
            rewards.sum(1, keepdims=True),
            self.gamma ** (last[:, None] + 1).astype(np.float32),
        )
        return ReplayBufferSamples(*map(self.to_torch, found))

    def importance_weights(self, remaining: float) -> Array:
        """Return the weights of the last batch; ``remaining`` falls from 1 to 0 in a run."""
        drawn = self.priorities.reshape(-1)[self._drawn]
        beta = min(1 - (1 - self.beta) * remaining, 1.0)
        weights: Array = (drawn.min() / drawn) ** beta
        return weights

    def update_priorities(self, errors: Array) -> None:
        """Set the priorities of the last batch by its errors."""
        priorities = (errors.astype(float) + SMALLEST_ERROR) ** self.exponent
        set_leaves(self._tree, self._drawn, priorities)
        self.largest[0] = max(self.largest[0], priorities.max())

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        self._tree[...], self.largest[...] = 0, 1

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arrays and numbers that change; the caller may write into the arrays."""
        arrays, numbers = self._stored()
        self._stale = True
        return arrays | {"priorities": self._leaves(), "largest": self.largest}, numbers

    def _stored(self) -> tuple[dict[str, Array], dict[str, Any]]:
        names = "observations", "next_observations", "actions", "rewards", "dones", "timeouts"
        numbers = {"pos": int(self.pos), "full": bool(self.full)}
        return {name: getattr(self, name) for name in names}, numbers

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Return the valid ranges of priorities, to check files."""
        return {"priorities": (0, _MOST), "largest": (1, _MOST)}


@register
class PrioritizedReplayBuffer(Prioritized):
    """Prioritised replay for observations that are arrays or integers; see ``Prioritized``."""


@register
class PrioritizedFrameReplayBuffer(Prioritized, FrameReplayBuffer):
    """Prioritised replay that stores every frame once; see ``FrameReplayBuffer``."""

    unordered = *FrameReplayBuffer.unordered, *Prioritized.unordered

    def add(self, *transition: Any, **named: Any) -> None:
        """Store one transition of every environment; dropped ones get priority 0."""
        super().add(*transition, **named)
        for age in range(1, self.forgotten + 1):
            row = self._row(-age)
            if not self.priorities[row].any():
                break
            self._set(row, 0.0)

    def _stored(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return FrameReplayBuffer.state(self)

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Return the valid ranges of frame indices and priorities, to check files."""
        return FrameReplayBuffer.bounds(self) | super().bounds()
