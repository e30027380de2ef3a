"""Compiled loops: the quantile Huber loss, the layers of small networks, and Adam.

``losses`` and ``compiled`` state what they compute. Single precision throughout.
"""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def quantile_huber(
    predicted: Floats, order: NDArray[np.intp], target: Floats, gradient: Floats
) -> float:
    """Write the gradient and return the loss.

    ``order`` sorts the rows of ``predicted``, and those of ``target`` are sorted: so the cuts
    between the pieces only ever move up.
    """
    batch, quantiles = predicted.shape
    samples = target.shape[1]
    y, total = np.empty(samples), np.zeros(samples + 1)
    squares = np.zeros(samples + 1)
    scale, loss = 1.0 / (batch * samples), 0.0
    for row in range(batch):
        centre = 0.0  # subtracted, it keeps the squares, and so their cancellation, small
        for j in range(samples):
            centre += target[row, j]
        centre /= samples
        for j in range(samples):
            y[j] = target[row, j] - centre
            total[j + 1] = total[j] + y[j]
            squares[j + 1] = squares[j] + y[j] * y[j]
        low = middle = high = 0
        for rank in range(quantiles):
            i = order[row, rank]
            theta, midpoint = predicted[row, i] - centre, (i + 0.5) / quantiles
            while low < samples and y[low] < theta - 1:
                low += 1
            while middle < samples and y[middle] < theta:
                middle += 1
            while high < samples and y[high] <= theta + 1:
                high += 1
            near, far = middle - low, high - middle
            below_sum, above_sum = total[middle] - total[low], total[high] - total[middle]
            below = (
                low * (theta - 0.5)
                - total[low]
                + 0.5
                * (squares[middle] - squares[low] - 2 * theta * below_sum + theta * theta * near)
            )
            above = (
                total[samples]
                - total[high]
                - (samples - high) * (theta + 0.5)
                + 0.5
                * (squares[high] - squares[middle] - 2 * theta * above_sum + theta * theta * far)
            )
            loss += (1 - midpoint) * below + midpoint * above
            gradient[row, i] = scale * (
                (1 - midpoint) * (low + theta * near - below_sum)
                + midpoint * (high - samples + theta * far - above_sum)
            )
    return float(loss * scale)


_SUMS_IN_ANY_ORDER = {"reassoc", "nsz", "contract"}
_TILE = 64  # numbers of an observation that are moved at a time
_FEW = 8  # rows of a matrix below which BLAS is slower than a loop


@numba.njit(cache=True, nogil=True, error_model="numpy")
def columns(rows: NDArray[Any], divisor: Floats, transposed: Floats) -> None:
    """Write observations (batch, numbers) divided by something as columns (numbers, batch)."""
    batch, numbers = rows.shape
    for begin in range(0, numbers, _TILE):
        end = min(begin + _TILE, numbers)
        for b in range(batch):
            for i in range(begin, end):
                scale = divisor[i if divisor.size > 1 else 0]
                transposed[i, b] = np.float32(rows[b, i]) / scale


@numba.njit(cache=True, nogil=True, error_model="numpy")
def patches(
    boards: NDArray[Any], size: tuple[int, int], stride: int, divisor: Floats, seen: Floats
) -> None:
    """Write what a filter sees, one row for every place and then every board (places, batch).

    ``boards`` has shape (batch, channels, height, width), ``seen`` (places · batch, numbers).
    """
    batch, channels, high, wide = boards.shape
    height, width = (high - size[0]) // stride + 1, (wide - size[1]) // stride + 1
    source, target = boards.reshape(-1), seen.reshape(-1)
    run, place = np.uint64(size[1]), np.uint64(0)
    for r in range(height):
        for s in range(width):
            for b in range(batch):
                for c in range(channels):
                    for i in range(size[0]):
                        row = ((b * channels + c) * high + r * stride + i) * wide
                        begin = np.uint64(row + s * stride)
                        for j in range(run):  # unsigned numbers cannot count from the end: fast
                            target[place + j] = np.float32(source[begin + j]) / divisor[0]
                        place += run


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def dense(weight: Floats, bias: Floats, x: Floats, relu: bool, y: Floats) -> None:
    """Write W x + b, or its positive part."""
    outputs, inputs = weight.shape
    batch = x.shape[1]
    if batch == 1:
        y[:, 0] = np.dot(weight, np.ascontiguousarray(x[:, 0]))
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
def dense_backward(
    weight: Floats,
    x: Floats,
    y: Floats,
    relu: bool,
    slope: Floats,
    weight_gradient: Floats,
    bias_gradient: Floats,
    input_gradient: Floats,
) -> None:
    """Write the gradients, given ``slope``, that of y, which is overwritten.

    That of the input is left out if its array is empty.
    """
    outputs, inputs = weight.shape
    for i in range(outputs):
        total = np.float32(0)
        for b in range(x.shape[1]):
            slope[i, b] = slope[i, b] if y[i, b] > 0 or not relu else np.float32(0)
            total += slope[i, b]
        bias_gradient[i] = total
    if outputs <= _FEW:
        for i in range(outputs):
            for j in range(inputs):
                total = np.float32(0)
                for b in range(x.shape[1]):
                    total += slope[i, b] * x[j, b]
                weight_gradient[i, j] = total
    else:
        np.dot(slope, x.T, weight_gradient)
    if input_gradient.size > 0:
        np.dot(weight.T, slope, input_gradient)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def sum_of_squares(x: Floats) -> float:
    """Return Σx², summed in double precision."""
    total = 0.0
    for i in range(x.size):
        total += np.float64(x[i]) * np.float64(x[i])
    return total


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def adam(
    weight: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    step: Floats,
    learning_rate: float,
    beta_mean: float,
    beta_square: float,
    epsilon: float,
) -> None:
    """Do one step of Adam (Kingma and Ba, 2015) on vectors, as PyTorch's fused version does."""
    step[()] += 1
    keep, forget = np.float32(beta_mean), np.float32(1 - beta_mean)
    keep_square, forget_square = np.float32(beta_square), np.float32(1 - beta_square)
    size = np.float32(learning_rate / (1 - beta_mean ** np.float64(step[()])))
    root = np.float32(math.sqrt(1 - beta_square ** np.float64(step[()])))
    least = np.float32(epsilon)
    for i in range(weight.size):
        g = gradient[i]
        mean[i] = keep * mean[i] + forget * g
        square[i] = keep_square * square[i] + forget_square * g * g
        weight[i] -= size * mean[i] / (np.sqrt(square[i]) / root + least)
