"""Small networks on the CPU without PyTorch's overhead: the same results, up to rounding.

Activations have the batch on their last axis, since W x is faster than x Wᵀ if the batch is
smaller than the layer.
"""

import math
from collections.abc import Callable, Sequence
from operator import is_not
from typing import Any, TypeVar

import numpy as np
import torch
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from torch import Tensor, nn
from torch.optim import Optimizer

from mviq.agents import kernels
from mviq.agents.extractors import RescaledExtractor
from mviq.arrays import Array
from mviq.tsallis import Family

T = TypeVar("T")
Scratch = tuple[tuple[Array, Array], Array, tuple[Array, ...], tuple[Array, ...]]
_update: Any = kernels.update
_predict: Any = kernels.predict
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")
_MOST_KEPT = 2**22  # elements of a scratch array


class Layer:
    """A linear layer or the first convolution, perhaps with a ReLU."""

    def __init__(self, module: nn.Linear | nn.Conv2d) -> None:
        self.module, self.relu = module, False
        self.parameters = list(module.parameters())
        self.gradients = [torch.zeros_like(weight) for weight in self.parameters]
        self.arrays = _matrix_and_vector(self.parameters)
        self.gradient_arrays = _matrix_and_vector(self.gradients)


class CompiledNetwork:
    """A sequential network with a compiled forward pass; see the module's docstring.

    If the network draws fractions, it embeds them by its module ``embedding`` before the layer
    ``begin``.
    """

    def __init__(
        self, layers: list[Layer], network: Any, shape: tuple[int, int], begin: int
    ) -> None:
        self.layers, self.shape, self.divisor = layers, shape, _divisor(network)
        self.draw, self.begin = getattr(network, "draw_fractions", None), begin
        self.embedding = None if self.draw is None else Layer(network.embedding)
        weights, biases = zip(*(layer.arrays for layer in layers), strict=True)
        self.arrays = weights, biases, np.array([layer.relu for layer in layers])
        self.numbers = math.prod(network.observation_space.shape or ())
        self.window, places = _window(layers[0].module, network.observation_space.shape)
        self.sizes = [places * len(biases[0]), *map(len, biases[1:])]
        self.scratches: dict[Any, Scratch] = {}
        self.embedding_scratches: dict[Any, tuple[Array, ...]] = {}

    def prepare(self, *batches: Any) -> Sequence[Array]:
        return [self.write(x, np.empty((len(x), self.numbers), np.float32)) for x in batches]

    def write(self, batch: Any, rows: Array) -> Array:
        """Preprocess observations into ``rows``, one float32 row each."""
        x = batch.numpy() if isinstance(batch, Tensor) else batch
        x = x.astype(np.float32) if x.dtype == np.float16 else x  # numba does not support float16
        kernels.prepare(np.ascontiguousarray(x).reshape(rows.shape), self.divisor, rows)
        return rows

    def predict(self, *prepared: Array) -> Sequence[Tensor]:
        return [torch.from_numpy(self._predict(rows)[0]) for rows in prepared]

    def greedy(self, observations: Array) -> Array:
        """Return the greedy actions."""
        return self._predict(*self.prepare(observations))[1]

    def _predict(self, rows: Array) -> tuple[Array, Array]:
        fractions = None if self.draw is None else _per_state(self.draw(len(rows)), len(rows))
        samples = self.shape[0] if fractions is None else fractions.shape[1]
        nonzero, columns, outputs, _ = self.scratch(len(rows), samples)
        outcomes = np.empty((len(rows), samples, self.shape[1]), np.float32)
        best = np.zeros(len(rows), np.int64)
        scratch, embedded = (columns, outputs), self.embedded(fractions)
        _predict(rows, nonzero, self.window, self.arrays, scratch, outcomes, best, embedded)
        return outcomes, best

    def scratch(self, rows: int, samples: int) -> Scratch:
        """Return the scratch arrays for a batch of ``rows`` observations; they are reused."""
        return kept(self.scratches, (rows, samples), self._new_scratch)

    def embedded(self, fractions: Array | None) -> kernels.Embedded | None:
        """Return the arrays that embed fractions (states, samples), None if there are none."""
        if self.embedding is None or fractions is None:
            return None
        arrays = *self.embedding.arrays, *self.embedding_scratch(fractions)[:3]
        return kernels.Embedded(self.begin, fractions, *arrays)

    def embedding_scratch(self, fractions: Array) -> tuple[Array, ...]:
        """Return scratch arrays for cosines, φ, products and two gradients.

        They are reused, since the system has to clear the memory of large new arrays first. Very
        large ones, for thousands of states at once, are not kept.
        """
        assert self.embedding is not None
        large = fractions.size * len(self.embedding.arrays[0]) > _MOST_KEPT
        cache = {} if large else self.embedding_scratches
        return kept(cache, fractions.shape, self._new_embedding_scratch)

    def _new_embedding_scratch(self, states: int, samples: int) -> tuple[Array, ...]:
        assert self.embedding is not None
        (features, cosines), columns = self.embedding.arrays[0].shape, states * samples
        shapes = (columns, cosines), *[(features, columns)] * 3, (features, states)
        return tuple(np.empty(shape, np.float32) for shape in shapes)

    def _new_scratch(self, rows: int, samples: int) -> Scratch:
        """Return scratch arrays: nonzero indices, first layer, all outputs and their gradients."""
        begin = len(self.sizes) if self.embedding is None else self.begin
        shapes = [(n, rows * (samples if k >= begin else 1)) for k, n in enumerate(self.sizes)]
        if self.embedding is not None:
            shapes.append((samples * self.shape[1], rows))
        outputs, slopes = (tuple(np.empty(shape, np.float32) for shape in shapes) for _ in range(2))
        if self.window is None:
            nothing = np.empty((rows, 0), np.int64), np.empty(rows, np.int64)
            return nothing, np.empty((self.numbers, rows), np.float32), outputs, slopes
        lanes = kernels.padded(len(self.arrays[1][0]))
        places = self.sizes[0] // len(self.arrays[1][0])
        first = np.empty((rows, (places + 1) * lanes), np.float32)  # + 1 avoids cache conflicts
        nonzero = np.empty((rows, self.numbers + 1), np.int64), np.empty(rows, np.int64)
        return nonzero, first, outputs, slopes


class CompiledUpdate:
    """One update in one compiled call: target, loss, gradients and Adam."""

    def __init__(self, online: CompiledNetwork, target: CompiledNetwork, quantiles: bool) -> None:
        self.online, self.target, self.quantiles = online, target, quantiles
        layers = [*online.layers, *([] if online.embedding is None else [online.embedding])]
        self.parameters = [weight for layer in layers for weight in layer.parameters]
        self.gradients = [gradient for layer in layers for gradient in layer.gradients]
        self.slots = tuple(zip(*(layer.gradient_arrays for layer in online.layers), strict=True))
        self.midpoints = (np.arange(online.shape[0])[None] + 0.5) / online.shape[0]
        self.moments: list[Any] = []  # Adam's, three for every parameter
        self.vectors: tuple[Any, ...] = ()  # parameters, their gradients and their moments

    def __call__(
        self,
        batch: Any,
        family: Family,
        gamma: float,
        limits: tuple[float, float],
        optimizer: Optimizer,
        priorities: tuple[Array, Array],
    ) -> tuple[float, float, float, float]:
        """Make one update; return an invalid |z| or 0, loss, gradient norm and mean prediction.

        If one of the first three is invalid, the weights are not updated. ``priorities`` are the
        importance weights of the batch, if any, and an array for its errors.
        """
        online, target = self.online, self.target
        size = len(batch.actions)
        rows = np.empty((2 * size, online.numbers), np.float32)
        online.write(batch.next_observations, rows[:size])
        online.write(batch.observations, rows[size:])
        steps = batch.discounts
        discounts = np.array([gamma], np.float32) if steps is None else _floats(steps)
        transitions = _floats(batch.rewards), _floats(batch.dones), discounts
        actions = _vector(batch.actions)
        group = optimizer.param_groups[0]
        adam = float(group["lr"]), *map(float, group["betas"]), float(group["eps"])
        asked, samples = len(rows) if family.munchausen_alpha != 0 else size, online.shape[0]
        _, *scratch, _ = target.scratch(asked, samples)
        _, *own_scratch = online.scratch(size, samples)
        embedded = (None, None, None) if online.draw is None else self._embedded(asked, size)
        found: tuple[float, float, float, float] = _update(
            (rows, online.scratch(len(rows), samples)[0], actions, transitions),
            priorities,
            online.window,
            online.shape[0] if self.quantiles else None,
            self.midpoints if embedded[1] is None else embedded[1].fractions,
            (family_numbers(family), limits, adam),
            target.arrays,
            tuple(scratch),
            online.arrays,
            tuple(own_scratch),
            self.slots,
            self._vectors(optimizer),
            *embedded,
        )
        for weight, gradient in zip(self.parameters, self.gradients, strict=True):
            if weight.grad is not gradient:
                weight.grad = gradient
        return found

    def _embedded(self, asked: int, size: int) -> tuple[Any, Any, Any]:
        """Draw fractions as the networks do, and return the arrays that embed them."""
        online, target = self.online, self.target
        assert online.draw is not None
        assert online.embedding is not None
        assert target.draw is not None
        drawn = _per_state(target.draw(asked), asked)
        drawn = np.roll(drawn, asked - size, axis=0)  # drawn for s and s', needed for s' and s
        own = online.embedded(_per_state(online.draw(size), size))
        assert own is not None
        scratch = online.embedding_scratch(own.fractions)[3:]
        gradients = kernels.EmbeddedGradients(*online.embedding.gradient_arrays, *scratch)
        return target.embedded(drawn), own, gradients

    def _vectors(self, optimizer: Optimizer) -> tuple[Any, ...]:
        """Return the arrays that Adam updates, looked up again if the optimiser's state is new."""
        states = [
            optimizer.state[weight] or _no_moments(optimizer, weight) for weight in self.parameters
        ]
        moments = [state[name] for name in _MOMENTS for state in states]
        if len(moments) != len(self.moments) or any(map(is_not, moments, self.moments)):
            self.moments, count = moments, len(self.parameters)
            tensors = [*self.parameters, *self.gradients, *moments]
            self.vectors = tuple(
                tuple(map(_vector, tensors[i : i + count])) for i in range(0, len(tensors), count)
            )
        return self.vectors


def kept(cache: dict[Any, T], key: tuple[Any, ...], new: Callable[..., T]) -> T:
    """Return scratch memory for a key, a new one if there is none; a full cache is emptied."""
    if key not in cache:
        if len(cache) > 8:  # batch sizes vary
            cache.clear()
        cache[key] = new(*key)
    return cache[key]


COMPILED_FORMS = ("gap", "log", "truncated_log")


def family_numbers(family: Family) -> tuple[float, ...]:
    """Return q, τ, c, α, the weight of −τS_q in m, the minimum of m, and its clip bounds."""
    cut = family.form == "truncated_log" and family.q > 1
    least = -family.temperature / (family.q - 1) if cut else -math.inf
    low, high = family.clip or (-math.inf, math.inf)
    numbers = family.q, family.temperature, family.entropy_weight, family.munchausen_alpha
    return *map(float, numbers), float(family.form != "gap"), least, float(low), float(high)


def _no_moments(optimizer: Optimizer, weight: Tensor) -> dict[str, Tensor]:
    """Initialise the moments of a parameter, as Adam does at its first step, and return them."""
    zeros = torch.zeros_like(weight), torch.zeros_like(weight), torch.zeros(())
    optimizer.state[weight] = dict(zip(_MOMENTS, zeros, strict=True))
    state: dict[str, Tensor] = optimizer.state[weight]
    return state


def _vector(x: Tensor) -> Array:
    return np.reshape(x.detach().numpy(), -1)


def _per_state(fractions: Tensor, states: int) -> Array:
    """Return fractions, drawn for all states or for each, with a row for each."""
    rows = np.broadcast_to(fractions.numpy().astype(np.float64), (states, fractions.shape[1]))
    return np.ascontiguousarray(rows)


def _floats(x: Tensor) -> Array:
    return _vector(x).astype(np.float32, copy=False)


def _matrix_and_vector(parameters: Sequence[Tensor]) -> tuple[Array, Array]:
    """Return the weights as a matrix and the biases as a vector."""
    weight, bias = (parameter.detach().numpy() for parameter in parameters)
    return weight.reshape(len(weight), -1), bias


def _window(module: nn.Module, shape: Any) -> tuple[tuple[Any, ...] | None, int]:
    """Return a convolution's ``Window`` and number of output positions, else None and 1."""
    if not isinstance(module, nn.Conv2d):
        return None, 1
    (high, wide), stride = module.kernel_size, module.stride[0]
    c, h, w = np.indices(shape).reshape(3, -1)
    up, across = (shape[1] - high) // stride + 1, (shape[2] - wide) // stride + 1
    ranges = [
        np.clip(bound, 0, most)
        for place, size, most in ((h, high, up), (w, wide, across))
        for bound in (-((size - 1 - place) // stride), place // stride + 1)
    ]
    table = np.stack([(c * high + h) * wide + w, *ranges], 1)
    return (stride, wide, across, np.ascontiguousarray(table)), up * across


def _divisor(network: BasePolicy) -> Array:
    """Return the divisor of observations before the first layer: one, or one per element."""
    scale, extractor = np.array([image_divisor(network)], np.float32), network.features_extractor
    if isinstance(extractor, RescaledExtractor):
        scale = scale * extractor.bounds.numpy().reshape(-1)
    return scale


def image_divisor(network: BasePolicy) -> float:
    """Return the number by which Stable-Baselines3 divides the observations of a network."""
    image = network.normalize_images and is_image_space(network.observation_space)
    return 255.0 if image else 1.0
