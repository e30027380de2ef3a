"""The quantile Huber loss with its gradient."""

import math
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def quantile_huber(predicted: Floats, order: Integers, target: Floats, gradient: Floats) -> float:
    """Write the gradient of the quantile Huber loss and return the loss.

    ``order`` sorts the rows of ``predicted``, and those of ``target`` are sorted.
    """
    batch, quantiles = predicted.shape
    samples = target.shape[1]
    y, total, squares = np.empty(samples + 1), np.zeros(samples + 1), np.zeros(samples + 1)
    theta, cuts = np.empty(quantiles + 1), np.empty((3, quantiles + 1), np.int64)
    y[samples] = theta[quantiles] = math.inf
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
        for rank in range(quantiles):
            theta[rank] = predicted[row, order[row, rank]] - centre
        _cut(theta, y, cuts)
        for rank in range(quantiles):
            i, t = order[row, rank], theta[rank]
            low, middle, high = cuts[0, rank], cuts[1, rank], cuts[2, rank]
            midpoint = (i + 0.5) / quantiles
            near, far = middle - low, high - middle
            below_sum, above_sum = total[middle] - total[low], total[high] - total[middle]
            below = (
                low * (t - 0.5)
                - total[low]
                + 0.5 * (squares[middle] - squares[low] - 2 * t * below_sum + t * t * near)
            )
            above = (
                total[samples]
                - total[high]
                - (samples - high) * (t + 0.5)
                + 0.5 * (squares[high] - squares[middle] - 2 * t * above_sum + t * t * far)
            )
            loss += (1 - midpoint) * below + midpoint * above
            gradient[row, i] = scale * (
                (1 - midpoint) * (low + t * near - below_sum)
                + midpoint * (high - samples + t * far - above_sum)
            )
    return float(loss * scale)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _cut(theta: Floats, y: Floats, cuts: Integers) -> None:
    """Write how many y lie below θ − 1, below θ, and not above θ + 1, for every θ.

    Both are sorted and end with ∞. Merging them has as many steps as there are numbers, each
    a comparison without a branch: a processor cannot foresee which of the two comes next.
    """
    quantiles, samples = theta.size - 1, y.size - 1
    i0 = i1 = i2 = j0 = j1 = j2 = 0
    for _ in range(quantiles + samples):
        cuts[0, i0], cuts[1, i1], cuts[2, i2] = j0, j1, j2
        up0 = int((y[j0] < theta[i0] - 1) | (i0 == quantiles))
        up1 = int((y[j1] < theta[i1]) | (i1 == quantiles))
        up2 = int(((y[j2] <= theta[i2] + 1) & (j2 < samples)) | (i2 == quantiles))
        i0, i1, i2 = i0 + 1 - up0, i1 + 1 - up1, i2 + 1 - up2
        j0, j1, j2 = j0 + up0, j1 + up1, j2 + up2
