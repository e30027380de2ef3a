"""The Huber loss and the quantile Huber loss, with their gradients."""

import math

import numpy as np

from mviq.tsallis.kernels.compiling import Floats, Integers, compiled_with


@compiled_with()
def huber(predicted: Floats, target: Floats, gradient: Floats) -> float:
    """Write the gradient of the mean Huber loss and return the loss."""
    loss, size = 0.0, np.float32(predicted.size)
    for i in range(predicted.shape[0]):
        for j in range(predicted.shape[1]):
            error = predicted[i, j] - target[i, j]
            slope = min(max(error, np.float32(-1)), np.float32(1))
            loss += slope * (error - np.float32(0.5) * slope)
            gradient[i, j] = slope / size
    return float(loss / size)


@compiled_with()
def quantile_huber(predicted: Floats, target: Floats, fractions: Floats, gradient: Floats) -> float:
    """Write the gradient of the quantile Huber loss and return the loss.

    ``fractions`` has one row for all predictions, or one for each.
    """
    batch, quantiles = predicted.shape
    samples = target.shape[1]
    y, total, squares = np.empty(samples + 1), np.zeros(samples + 1), np.zeros(samples + 1)
    theta, cuts = np.empty(quantiles + 1), np.empty((3, quantiles + 1), np.int64)
    ranks = np.empty((2, max(quantiles, samples)), np.uint64)
    y[samples] = theta[quantiles] = math.inf
    scale, loss = 1.0 / (batch * samples), 0.0
    for row in range(batch):
        centre = 0.0  # subtracting it keeps the squares, and their cancellation, small
        for j in range(samples):
            centre += target[row, j]
        centre /= samples
        order = _sort(target[row], ranks)
        for j in range(samples):
            y[j] = target[row, np.uint32(order[j])] - centre
            total[j + 1] = total[j] + y[j]
            squares[j + 1] = squares[j] + y[j] * y[j]
        order = _sort(predicted[row], ranks)
        for rank in range(quantiles):
            theta[rank] = predicted[row, np.uint32(order[rank])] - centre
        _cut(theta, y, cuts)
        own = fractions[row if fractions.shape[0] > 1 else 0]
        for rank in range(quantiles):
            i, t = np.uint32(order[rank]), theta[rank]
            low, middle, high = cuts[0, rank], cuts[1, rank], cuts[2, rank]
            fraction = own[i]
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
            loss += (1 - fraction) * below + fraction * above
            gradient[row, i] = scale * (
                (1 - fraction) * (low + t * near - below_sum)
                + fraction * (high - samples + t * far - above_sum)
            )
    return float(loss * scale)


@compiled_with(fastmath={"reassoc", "nsz", "contract"}, part=True)
def mean_error(predicted: Floats, target: Floats) -> float:
    """Return the mean |y_j − θ_i| over all pairs."""
    total = 0.0
    for y in target:
        row = np.float32(0)
        for theta in predicted:
            row += abs(y - theta)
        total += float(row)
    return total / (predicted.size * target.size)


@compiled_with(part=True)
def _sort(x: Floats, ranks: Integers) -> Integers:
    """Return the argsort of x, in the lower 32 bits of 64-bit numbers; ``ranks`` is scratch memory.

    A radix sort, eight bits at a time: without comparisons there are no branches to mispredict.
    The bits of positive floats are in the order of the floats, those of negative ones in reverse.
    """
    size, bits = x.size, x.view(np.uint32)
    counts = np.zeros((4, 256), np.int64)
    for i in range(size):
        sign = bits[i] >> np.uint32(31)
        key = bits[i] ^ (np.uint32(0x80000000) | (np.uint32(0) - sign))
        ranks[0, i] = (np.uint64(key) << np.uint64(32)) | np.uint64(i)
        for part in range(4):
            counts[part, (key >> np.uint32(8 * part)) & np.uint32(255)] += 1
    for part in range(4):
        before = 0
        for digit in range(256):
            counts[part, digit], before = before, before + counts[part, digit]
        source, target = ranks[part % 2], ranks[(part + 1) % 2]
        for i in range(size):
            digit = (source[i] >> np.uint64(32 + 8 * part)) & np.uint64(255)
            target[counts[part, digit]] = source[i]
            counts[part, digit] += 1
    order: Integers = ranks[0]
    return order


@compiled_with(part=True)
def _cut(theta: Floats, y: Floats, cuts: Integers) -> None:
    """Write how many y are < θ − 1, < θ and ≤ θ + 1, for every θ.

    Both are sorted and end with ∞. They are merged with one step per number and without branches,
    since a processor cannot predict which of the two comes next.
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
