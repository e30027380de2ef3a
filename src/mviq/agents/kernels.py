"""The compiled loop of the quantile Huber loss; ``losses`` states what it computes."""

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
