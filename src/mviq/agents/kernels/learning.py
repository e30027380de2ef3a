"""One update as one compiled call, from observations to new weights."""

import math

import numpy as np
from numpy.typing import NDArray

from mviq.agents.kernels.convolution import Nonzero, Window, find_nonzero
from mviq.agents.kernels.layers import (
    Embedded,
    EmbeddedGradients,
    Layers,
    NetworkArrays,
    backward,
    forward,
)
from mviq.agents.kernels.losses import huber, mean_error, quantile_huber
from mviq.agents.kernels.targets import Numbers, bellman
from mviq.tsallis.kernels.compiling import Floats, compiled_with

_LARGEST = float(np.finfo(np.float32).max)
_BLOCK = 2048  # elements per block, so that blocks of four arrays fit in the L1 cache


@compiled_with()
def predict(
    rows: Floats,
    nonzero: Nonzero,
    window: Window | None,
    network: NetworkArrays,
    scratch: tuple[Floats, Layers],
    outcomes: Floats,
    best: NDArray[np.int64],
    embedded: Embedded | None,
) -> None:
    """Write a network's outcomes (batch, samples, actions) and the greedy actions."""
    if window is not None:
        find_nonzero(rows, *nonzero)
    forward(rows, nonzero, window, network, *scratch, embedded)
    last, (batch, samples, count) = scratch[1][-1], outcomes.shape
    for i in range(batch):
        most = -math.inf
        for a in range(count):
            total = 0.0
            for j in range(samples):
                outcomes[i, j, a] = last[j * count + a, i]
                total += outcomes[i, j, a]
            if total > most:
                most, best[i] = total, a


@compiled_with()
def update(
    batch: tuple[Floats, Nonzero, NDArray[np.int64], tuple[Floats, Floats, Floats]],
    priorities: tuple[Floats, Floats],
    window: Window | None,
    quantiles: int | None,
    fractions: Floats,
    numbers: tuple[Numbers, tuple[float, float], tuple[float, float, float, float]],
    target_network: NetworkArrays,
    target_scratch: tuple[Floats, Layers],
    network: NetworkArrays,
    scratch: tuple[Floats, Layers, Layers],
    gradients: tuple[Layers, Layers],
    parameters: tuple[Layers, Layers, Layers, Layers, Layers],
    target_embedded: Embedded | None,
    embedded: Embedded | None,
    embedded_gradients: EmbeddedGradients | None,
) -> tuple[float, float, float, float]:
    """Make one update; return an invalid |z| or 0, the loss, the gradient norm and the mean of θ.

    ``batch`` holds the observations at s' and then at s, scratch arrays for the indices of their
    nonzero elements, the actions, and (rewards, d, discounts). ``priorities`` are the importance
    weights of the batch, empty if there are none, and where to write its mean absolute errors.
    ``quantiles`` is the number of quantiles, None for action values; only the loss for that case is
    compiled. ``fractions`` are those of the predicted quantiles. ``numbers`` are those of the
    family, the limits of |z| and of the gradient norm, and Adam's settings. ``parameters`` are
    Adam's arrays: weights, gradients, both moments and step counts. If |z|, the loss or the norm is
    invalid, the weights are not updated.
    """
    rows, nonzero, actions, transitions = batch
    family, (value_limit, norm_limit), adam_numbers = numbers
    samples = 1 if quantiles is None else quantiles
    size, count = actions.size, target_scratch[1][-1].shape[0] // samples
    for i in range(size):
        if not 0 <= actions[i] < count:
            raise IndexError("an action of the batch is none that the network knows")
    if window is not None:
        find_nonzero(rows, *nonzero)
    asked = rows if family[3] != 0 else rows[:size]
    forward(asked, nonzero, window, target_network, *target_scratch, target_embedded)
    z = target_scratch[1][-1]
    bad = _beyond(z, value_limit)
    if bad != 0:
        return bad, 0.0, 0.0, 0.0
    target = np.empty((size, samples), np.float32)
    bellman(family, transitions, actions, z, target)
    s, at_s = rows[size:], (nonzero[0][size:], nonzero[1][size:])
    forward(s, at_s, window, network, scratch[0], scratch[1], embedded)
    loss, mean = _loss(
        scratch[1][-1], actions, target, quantiles, fractions, priorities, scratch[2][-1]
    )
    if not math.isfinite(loss):
        return 0.0, loss, 0.0, 0.0
    norm = backward(s, at_s, window, network, *scratch, gradients, embedded, embedded_gradients)
    if math.isfinite(norm):
        _adam(min(1.0, norm_limit / (norm + 1e-6)), adam_numbers, *parameters)
    return 0.0, loss, norm, mean


@compiled_with(part=True)
def _beyond(z: Floats, limit: float) -> float:
    """Return the first |z| that is NaN, infinite or beyond the limit, 0 if there is none."""
    numbers, most, count = z.reshape(-1), np.float32(min(limit, _LARGEST)), 0
    for i in range(numbers.size):
        count += int(not abs(numbers[i]) <= most)
    i = 0
    while count > 0 and abs(numbers[i]) <= most:
        i += 1
    return float(abs(numbers[i])) if count > 0 else 0.0


@compiled_with(part=True)
def _loss(
    outcomes: Floats,
    actions: NDArray[np.int64],
    target: Floats,
    quantiles: int | None,
    fractions: Floats,
    priorities: tuple[Floats, Floats],
    slope: Floats,
) -> tuple[float, float]:
    """Write the gradient with respect to the outcomes; return the loss and the mean of θ."""
    count = outcomes.shape[0] // target.shape[1]
    theta, gradient = np.empty_like(target), np.empty_like(target)
    total = 0.0
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            theta[i, j] = outcomes[j * count + actions[i], i]
            total += theta[i, j]
    if quantiles is None:
        loss = huber(theta, target, gradient)
    else:
        loss = quantile_huber(theta, target, fractions, gradient)
    weights, errors = priorities
    for i in range(weights.size):
        gradient[i] *= weights[i]
        errors[i] = mean_error(theta[i], target[i])
    slope[:] = 0
    for i in range(target.shape[0]):
        for j in range(target.shape[1]):
            slope[j * count + actions[i], i] = gradient[i, j]
    return loss, total / target.size


@compiled_with(part=True)
def _adam(
    scale: float,
    numbers: tuple[float, float, float, float],
    weights: Layers,
    gradients: Layers,
    means: Layers,
    squares: Layers,
    steps: Layers,
) -> None:
    """Scale the gradients and do one step of Adam (Kingma and Ba, 2015)."""
    for k in range(len(weights)):
        arrays = weights[k], gradients[k], means[k], squares[k]
        steps[k][0] += 1
        _adam_step(scale, numbers, np.float64(steps[k][0]), *arrays)


@compiled_with(fastmath={"contract"}, part=True)
def _adam_step(
    scale: float,
    numbers: tuple[float, float, float, float],
    step: float,
    weight: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
) -> None:
    learning_rate, beta_mean, beta_square, epsilon = numbers
    keep, forget = np.float32(beta_mean), np.float32(1 - beta_mean)
    keep_square, forget_square = np.float32(beta_square), np.float32(1 - beta_square)
    size = np.float32(learning_rate / (1 - beta_mean**step))
    root = np.float32(1 / math.sqrt(1 - beta_square**step))
    least, part_kept = np.float32(epsilon), np.float32(scale)
    for begin in range(0, weight.size, _BLOCK):
        part = slice(begin, begin + _BLOCK)
        w, g, m, v = weight[part], gradient[part], mean[part], square[part]
        if scale != 1:
            for i in range(w.size):
                g[i] *= part_kept
        for i in range(w.size):  # reads come before writes, so that LLVM vectorises it
            first = keep * m[i] + forget * g[i]
            second = keep_square * v[i] + forget_square * g[i] * g[i]
            m[i], v[i] = first, second
            w[i] -= size * first / (math.sqrt(second) * root + least)
