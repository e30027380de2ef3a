"""Small networks: their input, all layers forward and backward, and Adam.

Activations have the batch on their last axis. A network is given as tuples with one array per
layer, so that one call goes through all of them.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Layers = tuple[Floats, ...]

_SUMS_IN_ANY_ORDER = {"reassoc", "nsz", "contract"}
_TILE = 64  # numbers of a row that are moved at a time
_FEW = 8  # rows of a matrix below which BLAS is slower than a loop


@numba.njit(cache=True, nogil=True, error_model="numpy")
def prepare(
    rows: NDArray[Any],
    divisor: Floats,
    columns: Floats,
    size: tuple[int, int],
    stride: int,
    seen: Floats,
) -> None:
    """Write observations (batch, numbers) divided by something as columns (numbers, …, batch).

    Where there are patches to see, ``columns`` has the shape of boards, and they are written too.
    """
    batch, numbers = rows.shape
    transposed = columns.reshape(numbers, batch)
    for begin in range(0, numbers, _TILE):
        end = min(begin + _TILE, numbers)
        for b in range(batch):
            for i in range(begin, end):
                scale = divisor[i if divisor.size > 1 else 0]
                transposed[i, b] = np.float32(rows[b, i]) / scale
    if seen.size > 0:
        patches(columns, size, stride, seen)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def patches(boards: Floats, size: tuple[int, int], stride: int, seen: Floats) -> None:
    """Write what a filter sees, one row for every number of it.

    ``boards`` has shape (channels, height, width, batch), ``seen`` (channels, size[0], size[1],
    height, width, batch), with the height and width of what the filter makes.
    """
    channels, high, wide, batch = boards.shape
    height, width = seen.shape[3:5]
    together = width if stride == 1 else 1  # places whose numbers are side by side
    run = np.uint64(together * batch)  # unsigned numbers cannot count from the end: fast
    source, target, to = boards.reshape(-1), seen.reshape(-1), np.uint64(0)
    for c in range(channels):
        for i in range(size[0]):
            for j in range(size[1]):
                for u in range(height):
                    row = (c * high + i + u * stride) * wide + j
                    for v in range(0, width, together):
                        begin = np.uint64((row + v * stride) * batch)
                        for k in range(run):
                            target[to + k] = source[begin + k]
                        to += run


@numba.njit(cache=True, nogil=True, error_model="numpy")
def forward(
    x: Floats,
    weights: Layers,
    biases: Layers,
    rectified: NDArray[np.bool_],
    outputs: Layers,
    outcomes: Floats,
) -> None:
    """Write the outputs of all layers, and those of the last as rows, one for each observation."""
    for k in range(len(weights)):
        _dense(weights[k], biases[k], x.reshape(weights[k].shape[1], -1), rectified[k], outputs[k])
        x = outputs[k]
    _transpose(x, outcomes)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def backward(
    x: Floats,
    weights: Layers,
    rectified: NDArray[np.bool_],
    outputs: Layers,
    gradient: Floats,
    slopes: Layers,
    weight_gradients: Layers,
    bias_gradients: Layers,
) -> float:
    """Write the gradients of the weights, given that of the outcomes; return their norm.

    ``slopes`` is room for the gradients of the outputs.
    """
    last = len(weights) - 1
    _transpose(gradient, slopes[last])
    total = 0.0
    for k in range(last, -1, -1):
        inputs = x if k == 0 else outputs[k - 1].reshape(weights[k].shape[1], -1)
        _bias_gradient(outputs[k], rectified[k], slopes[k], bias_gradients[k])
        _weight_gradient(slopes[k], inputs, weight_gradients[k])
        if k > 0:
            np.dot(weights[k].T, slopes[k], slopes[k - 1].reshape(weights[k].shape[1], -1))
        total += _sum_of_squares(weight_gradients[k].reshape(-1))
        total += _sum_of_squares(bias_gradients[k])
    return math.sqrt(total)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _transpose(x: Floats, transposed: Floats) -> None:
    rows, columns = transposed.shape
    for begin in range(0, columns, _TILE):  # so that lines of memory are still in cache
        for i in range(rows):
            for j in range(begin, min(begin + _TILE, columns)):
                transposed[i, j] = x[j, i]


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _dense(weight: Floats, bias: Floats, x: Floats, relu: bool, y: Floats) -> None:
    """Write W x + b, or its positive part."""
    outputs, inputs = weight.shape
    batch = x.shape[1]
    if batch == 1:
        np.dot(weight, x.reshape(-1), y.reshape(-1))
    elif outputs <= _FEW:  # BLAS is slow with matrices of a few rows
        y[:] = 0
        for i in range(outputs):
            for j in range(inputs):
                for b in range(batch):
                    y[i, b] += weight[i, j] * x[j, b]
    else:
        np.dot(weight, x, y)
    for i in range(outputs):
        for b in range(batch):
            total = y[i, b] + bias[i]
            y[i, b] = max(total, np.float32(0)) if relu else total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _bias_gradient(y: Floats, relu: bool, slope: Floats, gradient: Floats) -> None:
    """Let the ReLU stop ``slope`` where y is zero, and write the sums of its rows."""
    for i in range(y.shape[0]):
        if relu:
            for b in range(y.shape[1]):
                slope[i, b] *= np.float32(y[i, b] > 0)
        total = np.float32(0)
        for b in range(y.shape[1]):
            total += slope[i, b]
        gradient[i] = total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _weight_gradient(slope: Floats, x: Floats, gradient: Floats) -> None:
    """Write the gradient of W from that of W x."""
    outputs, inputs = gradient.shape
    if outputs > _FEW:
        np.dot(slope, x.T, gradient)
        return
    for i in range(outputs):
        for j in range(inputs):
            total = np.float32(0)
            for b in range(x.shape[1]):
                total += slope[i, b] * x[j, b]
            gradient[i, j] = total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _sum_of_squares(x: Floats) -> float:
    """Return Σx², summed in double precision."""
    total = 0.0
    for i in range(x.size):
        total += np.float64(x[i]) * np.float64(x[i])
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy")
def adam(
    scale: float,
    numbers: tuple[float, float, float, float],
    weights: Layers,
    gradients: Layers,
    means: Layers,
    squares: Layers,
    steps: Layers,
) -> None:
    """Scale the gradients and do one step of Adam (Kingma and Ba, 2015), as PyTorch's fused one."""
    for k in range(len(weights)):
        if scale != 1:
            gradients[k][:] *= np.float32(scale)
        _adam(weights[k], gradients[k], means[k], squares[k], steps[k], numbers)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _adam(
    weight: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    step: Floats,
    numbers: tuple[float, float, float, float],
) -> None:
    learning_rate, beta_mean, beta_square, epsilon = numbers
    step[0] += 1
    keep, forget = np.float32(beta_mean), np.float32(1 - beta_mean)
    keep_square, forget_square = np.float32(beta_square), np.float32(1 - beta_square)
    size = np.float32(learning_rate / (1 - beta_mean ** np.float64(step[0])))
    root = np.float32(math.sqrt(1 - beta_square ** np.float64(step[0])))
    least = np.float32(epsilon)
    for i in range(weight.size):
        g = gradient[i]
        mean[i] = keep * mean[i] + forget * g
        square[i] = keep_square * square[i] + forget_square * g * g
        weight[i] -= size * mean[i] / (np.sqrt(square[i]) / root + least)
