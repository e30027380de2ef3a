"""Replay buffers: Stable-Baselines3's with fewer copies, and one that stores each frame once.

Consecutive observations of an Atari agent share three of their four frames, and the next
observation of one transition is the observation of the following. Stored as they come, a million
transitions take 56 GB; with every frame stored once, 7.3 GB.
"""

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import NStepReplayBuffer, ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize
from torch import Tensor

from mviq.agents import kernels
from mviq.agents.codec import register
from mviq.arrays import Array


class _Stacks:
    """Frame indices that can be indexed like the array of observations that they represent."""

    def __init__(self, frames: Array, numbers: Array) -> None:
        self.frames, self.numbers = frames, numbers

    def __getitem__(self, key: Any) -> Array:
        rows, envs = key[0], key[1]
        stacks = self.frames[np.expand_dims(envs, -1), self.numbers[rows, envs]]
        return np.asarray(stacks.reshape(*stacks.shape[:-4], -1, *stacks.shape[-2:]))


class _LeanBuffer(ReplayBuffer):
    """Stores transitions as Stable-Baselines3 does, with fewer copies."""

    def add(
        self,
        obs: Array,
        next_obs: Array,
        action: Array,
        reward: Array,
        done: Array,
        infos: list[dict[str, Any]],
    ) -> None:
        """Store one transition of every environment."""
        row = self.pos
        self._keep(row, obs, next_obs)
        self.actions[row] = action.reshape(self.n_envs, self.action_dim)
        self.rewards[row], self.dones[row] = reward, done
        if self.handle_timeout_termination:
            self.timeouts[row] = [info.get("TimeLimit.truncated", False) for info in infos]
        self._advance()

    def _keep(self, row: int, obs: Array, next_obs: Array) -> None:
        self.observations[row], self.next_observations[row] = obs, next_obs

    def _advance(self) -> None:
        self.pos = (self.pos + 1) % self.buffer_size
        self.full = self.full or self.pos == 0


@register
class TransitionReplayBuffer(_LeanBuffer):
    """Stable-Baselines3's replay buffer with fewer copies; samples are identical bit for bit."""

    def _get_samples(self, batch_inds: Array, env: VecNormalize | None = None) -> Any:
        if env is not None:
            return super()._get_samples(batch_inds, env)
        chosen = batch_inds * self.n_envs
        if self.n_envs > 1:  # with one environment there is nothing to draw
            chosen += np.random.randint(0, high=self.n_envs, size=len(batch_inds))  # noqa: NPY002
        stored, size = (self.observations, self.next_observations, self.actions), len(chosen)
        found = [np.empty((size, *x.shape[2:]), x.dtype) for x in stored]
        rewards, dones = np.empty((2, size, 1), np.float32)
        whole = tuple(x.reshape(len(x) * self.n_envs, -1).view(np.uint8) for x in stored)
        part = tuple(x.reshape(size, -1).view(np.uint8) for x in found)
        numbers = (self.rewards.reshape(-1), self.dones.reshape(-1), self.timeouts.reshape(-1))
        kernels.gather(whole, *numbers, chosen, part, rewards, dones)
        observations, following, actions = found
        arrays = map(torch.from_numpy, (observations, actions, following, dones, rewards))
        on_cpu = self.device.type == "cpu"
        return ReplayBufferSamples(*(x if on_cpu else x.to(self.device) for x in arrays))


def cut_off_last_episodes(buffer: Any) -> None:
    """Mark the newest transitions in a replay buffer as truncated, unless their episode ended.

    What is stored next belongs to a new episode, and no n-step return may span both.
    """
    last = (buffer.pos - 1) % buffer.buffer_size
    timeouts = (buffer.dones[last] == 0) | (buffer.timeouts[last] > 0)
    buffer.timeouts[last], buffer.dones[last] = timeouts, 1


@register
class FrameReplayBuffer(_LeanBuffer, NStepReplayBuffer):
    """Stable-Baselines3's replay buffer, n-step or not, for observations (frames, height, width).

    Shared frames are found by comparing pixels, never assumed: an observation that does not
    continue its predecessor, after a reset or a lost life, is stored in full. Samples are exact.

    Each environment has a ring buffer of frames, larger than the number of transitions by the
    fraction ``spare``, since an episode has one frame more than transitions. If episodes are too
    short for that (below about 1/spare steps), the oldest transitions are dropped early; ``size``
    returns how many are left.

    :param n_steps: number of steps of the n-step return
    :param gamma: discount of the n-step return
    :param channels: channels of one frame, 3 for colour
    :param spare: additional space for frames, as a fraction of the transitions
    """

    # Arrays that are not ring buffers over time: a checkpoint stores them whole.
    unordered: tuple[str, ...] = ("written", "latest")

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        n_steps: int = 1,
        gamma: float = 0.99,
        channels: int = 1,
        spare: float = 0.03,
    ) -> None:
        shape = _stack_shape(observation_space, channels)
        nothing = spaces.Box(0, 1, (0,))  # so that the base class stores no observations
        super().__init__(
            buffer_size,
            nothing,
            action_space,
            device,
            n_envs,
            optimize_memory_usage,
            handle_timeout_termination,
            n_steps=n_steps,
            gamma=gamma,
        )
        self.observation_space, self.obs_shape = observation_space, observation_space.shape  # type: ignore[assignment]
        self.depth = shape[0]
        self.places = int(self.buffer_size * (1 + spare)) + 4 * self.depth
        # The last frame is never written: it is the blank one that pads first observations.
        self.frames = np.zeros((n_envs, self.places + 1, *shape[1:]), observation_space.dtype)
        self.numbers = np.zeros((2, self.buffer_size, n_envs, self.depth), np.int32)
        self.oldest = np.zeros((self.buffer_size, n_envs), np.int64)
        self.written = np.zeros(n_envs, np.int64)
        self.latest = np.full((n_envs, self.depth), self.places, np.int32)
        self.forgotten = 0
        self.observations = _Stacks(self.frames, self.numbers[0])  # type: ignore[assignment]
        self.next_observations = _Stacks(self.frames, self.numbers[1])  # type: ignore[assignment]

    def _keep(self, row: int, obs: Array, next_obs: Array) -> None:
        for env in range(self.n_envs):
            first, second = (self._as_frames(stack[env]) for stack in (obs, next_obs))
            now = self._number(env, first, self.latest[env])
            then = self._number(env, second, np.append(now[1:], self.places))
            self.numbers[0, row, env], self.numbers[1, row, env] = now, then
            self.latest[env] = then
            self.oldest[row, env] = self._oldest_of(env, np.append(now, then))

    def _as_frames(self, stack: Array) -> Array:
        return stack.reshape(self.depth, *self.frames.shape[2:])

    def _number(self, env: int, stack: Array, expected: Array) -> Array:
        """Return the indices of the frames of a stack, storing those that are new."""
        places = np.empty(self.depth, np.int32)
        for k, frame in enumerate(stack):
            before = places[k - 1] if k else self.places
            for place in (expected[k], before, self.places):
                # A frame that this transition may overwrite is stored again.
                lasts = (place - self.written[env]) % self.places >= 2 * self.depth
                blank = place == self.places
                if (lasts or blank) and np.array_equal(self.frames[env, place], frame):
                    places[k] = place
                    break
            else:
                places[k] = self.written[env] % self.places
                self.frames[env, places[k]] = frame
                self.written[env] += 1
        return places

    def _oldest_of(self, env: int, places: Array) -> int:
        """Return the sequence number of the oldest of some frames, counted per environment."""
        last = self.written[env] - 1
        real = places[places != self.places]
        ages = (last - real) % self.places
        return int(last - ages.max(initial=0))

    def _advance(self) -> None:
        """Advance the position, and drop the transitions whose frames have been overwritten."""
        if self.full:
            self.forgotten = max(self.forgotten - 1, 0)
        super()._advance()
        while self.size() > 1 and (self.oldest[self._row(0)] < self.written - self.places).any():
            self.forgotten += 1

    def _row(self, age_rank: Any) -> Any:
        """Return the row of the transition with this rank by age; 0 is the oldest one kept."""
        start = self.pos if self.full else 0
        return (start + self.forgotten + age_rank) % self.buffer_size

    def size(self) -> int:
        """Return the number of transitions per environment that can be sampled."""
        return (self.buffer_size if self.full else self.pos) - self.forgotten

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        self.forgotten = 0
        self.latest[...] = self.places
        self.written[...] = 0

    def sample(self, batch_size: int, env: Any = None) -> Any:
        """Return a batch of transitions, drawn as Stable-Baselines3 draws them."""
        if self.forgotten == 0:
            return super().sample(batch_size, env)
        rows = self._row(np.random.randint(0, self.size(), size=batch_size))  # noqa: NPY002
        return self._get_samples(rows, env=env)

    def to_torch(self, array: Array, copy: bool = True) -> Tensor:
        """Return a tensor without copying: sampled arrays are copies already."""
        return super().to_torch(array, copy=False)

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the arrays and the numbers that change as the buffer fills."""
        names = ["frames", "numbers", "oldest", "written", "latest"]
        names += ["actions", "rewards", "dones", "timeouts"]
        numbers = {name: getattr(self, name) for name in ("pos", "full", "forgotten")}
        return {name: getattr(self, name) for name in names}, numbers

    def bounds(self) -> dict[str, tuple[int, int]]:
        """Return the valid ranges of the arrays that index frames, to check files."""
        frame = {"oldest": (-1, 2**62), "written": (0, 2**62)}
        return {"numbers": (0, self.places), "latest": (0, self.places), **frame}


def _stack_shape(space: spaces.Space[Any], channels: int) -> tuple[int, ...]:
    """Return (frames, channels, height, width)."""
    shape = space.shape
    if not isinstance(space, spaces.Box) or shape is None or len(shape) != 3 or shape[0] % channels:
        raise ValueError(
            "FrameReplayBuffer needs observations (frames, height, width), "
            f"frames a multiple of channels = {channels}, got {space}"
        )
    return (shape[0] // channels, channels, *shape[1:])
