"""Compiled loops: the quantile Huber loss, and layers of a network for one observation.

``losses`` and ``layers`` state what they compute.
"""

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


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def dense(weight: Floats, bias: Floats, x: Floats, rectified: bool) -> Floats:
    """Return W x + b, and of it the positive part if so wished."""
    y = np.empty_like(bias)
    for row in range(len(weight)):
        total = bias[row]
        for column in range(len(x)):
            total += weight[row, column] * x[column]
        y[row] = 0 if rectified and total < 0 else total
    return y


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def convolution(
    weight: Floats, bias: Floats, x: NDArray[Any], stride: int, rectified: bool
) -> Floats:
    """Return the convolution of a picture (channels, height, width), or its positive part.

    Every pixel adds to the places whose filters see it, unless it is zero, as nearly all are on a
    board of zeros and ones. The innermost loop is over the filters.
    """
    filters, channels, rows, columns = weight.shape
    height, width = (x.shape[1] - rows) // stride + 1, (x.shape[2] - columns) // stride + 1
    taps = weight.reshape(filters, -1).T.copy()
    sums = np.empty((height * width, filters), bias.dtype)
    sums[:] = bias
    for c in range(channels):
        for above in range(x.shape[1]):
            for left in range(x.shape[2]):
                pixel = bias.dtype.type(x[c, above, left])
                if pixel == 0:
                    continue
                for i in range(above % stride, min(rows, above + 1), stride):
                    for j in range(left % stride, min(columns, left + 1), stride):
                        r, s = (above - i) // stride, (left - j) // stride
                        if r < height and s < width:
                            tap, place = (c * rows + i) * columns + j, r * width + s
                            for k in range(filters):
                                sums[place, k] += pixel * taps[tap, k]
    y = np.empty((filters, height, width), bias.dtype)
    for k in range(filters):
        for r in range(height):
            for s in range(width):
                total = sums[r * width + s, k]
                y[k, r, s] = 0 if rectified and total < 0 else total
    return y


@numba.njit(cache=True, nogil=True, error_model="numpy")
def patches(x: NDArray[Any], rows: int, columns: int, stride: int) -> Floats:
    """Return what each weight of a filter sees, (batch, weights, places), of contiguous pictures.

    Unsigned numbers, as they cannot count from the end, make indexing three times as fast.
    """
    batch, channels, high, wide = x.shape
    height, width = (high - rows) // stride + 1, (wide - columns) // stride + 1
    seen = np.empty((batch, channels * rows * columns, height * width), np.float32)
    source, target = x.reshape(-1), seen.reshape(-1)
    run, apart, place = np.uint64(width), np.uint64(stride), np.uint64(0)
    for plane in range(batch * channels):
        for i in range(rows):
            for j in range(columns):
                for r in range(height):
                    begin = np.uint64((plane * high + r * stride + i) * wide + j)
                    for s in range(run):
                        target[place + s] = source[begin + s * apart]
                    place += run
    return seen
