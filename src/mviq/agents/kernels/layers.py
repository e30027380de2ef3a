"""Forward and backward pass of small networks.

Activations have the batch on their last axis. A network is given as tuples with one array per
layer, so that one call runs all layers. Only the first layer may be a convolution; its weights are
a matrix with one row per filter. Without a convolution ``window`` is None, which numba knows at
compile time, so that the convolution's loops are not compiled. ``embedded`` is None likewise
unless the network predicts implicit quantiles: then fractions are embedded before the layer
``begin``, whose input has one column for each fraction and state, and the last of ``outputs`` is
the output with one column for each state, like that of fixed quantiles.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mviq.agents.kernels.convolution import (
    Nonzero,
    Window,
    convolution_gradient,
    convolve,
)
from mviq.tsallis.kernels.compiling import Floats, compiled_with

Layers = tuple[Floats, ...]
NetworkArrays = tuple[Layers, Layers, NDArray[np.bool_]]  # weights, biases, whether each has a ReLU


class Embedded(NamedTuple):
    """Fractions of implicit quantiles and what embeds them: φ(t) = ReLU(W cos(π i t) + b)."""

    begin: int
    """The layer whose input is ψ(s) ⊙ φ(t)."""
    fractions: Floats  # (states, samples)
    weight: Floats
    bias: Floats
    cosines: Floats  # this and the next two are scratch arrays
    phi: Floats
    products: Floats


class EmbeddedGradients(NamedTuple):
    """Where to write the gradients of ``Embedded``."""

    weight: Floats
    bias: Floats
    products: Floats
    features: Floats


_SUMS_IN_ANY_ORDER = {"reassoc", "nsz", "contract"}
_TILE = 64  # elements of a row that are copied at a time


@compiled_with()
def prepare(rows: NDArray[Any], divisor: Floats, prepared: Floats) -> None:
    """Write observations (batch, elements) divided by one number, or by one per element."""
    for b in range(rows.shape[0]):
        if divisor.size == 1:
            for i in range(rows.shape[1]):
                prepared[b, i] = np.float32(rows[b, i]) / divisor[0]
        else:
            for i in range(rows.shape[1]):
                prepared[b, i] = np.float32(rows[b, i]) / divisor[i]


@compiled_with()
def forward(
    rows: Floats,
    nonzero: Nonzero,
    window: Window | None,
    network: NetworkArrays,
    scratch: Floats,
    outputs: Layers,
    embedded: Embedded | None,
) -> None:
    """Write the outputs of all layers.

    A convolution works in ``scratch``; without one, it receives the transposed ``rows``.
    """
    weights, biases, rectified = network
    if window is not None:
        y = outputs[0]
        convolve(rows, nonzero, window, weights[0], biases[0], rectified[0], scratch, y)
    else:
        _transpose(rows, scratch)
    x = scratch if window is None else outputs[0]
    for k in range(int(window is not None), len(weights)):
        if embedded is not None and k == embedded.begin:
            _embed(x, embedded)
            x = embedded.products
        _dense(weights[k], biases[k], x, rectified[k], outputs[k])
        x = outputs[k]
    if embedded is not None:
        states, samples = embedded.fractions.shape
        for j, a, b in np.ndindex(samples, x.shape[0], states):
            outputs[-1][j * x.shape[0] + a, b] = x[a, j * states + b]


@compiled_with()
def backward(
    rows: Floats,
    nonzero: Nonzero,
    window: Window | None,
    network: NetworkArrays,
    scratch: Floats,
    outputs: Layers,
    slopes: Layers,
    gradients: tuple[Layers, Layers],
    embedded: Embedded | None,
    embedded_gradients: EmbeddedGradients | None,
) -> float:
    """Write the gradients of weights and biases, and return their norm.

    The last of ``slopes`` is the gradient of the network's output; the others are computed here.
    """
    weights, _, rectified = network
    total = 0.0
    if embedded is not None:
        own, (states, samples) = slopes[len(weights) - 1], embedded.fractions.shape
        for j, a, b in np.ndindex(samples, own.shape[0], states):
            own[a, j * states + b] = slopes[-1][j * own.shape[0] + a, b]
    for k in range(len(weights) - 1, -1, -1):
        weight, bias = gradients[0][k], gradients[1][k]
        _bias_gradient(outputs[k], rectified[k], slopes[k], bias)
        if embedded is not None and embedded_gradients is not None and k == embedded.begin:
            of = embedded_gradients
            np.dot(slopes[k], embedded.products.T, weight)
            np.dot(weights[k].T, slopes[k], of.products)
            features, slope = (outputs[k - 1], slopes[k - 1]) if k > 0 else (scratch, of.features)
            _embedding_gradient(features, embedded, of, slope)
            total += _sum_of_squares(of.weight.reshape(-1)) + _sum_of_squares(of.bias)
        elif k > 0:
            np.dot(slopes[k], outputs[k - 1].T, weight)
            np.dot(weights[k].T, slopes[k], slopes[k - 1])
        elif window is not None:
            convolution_gradient(rows, nonzero, window, slopes[k], scratch, weight)
        else:
            np.dot(slopes[k], scratch.T, weight)
        total += _sum_of_squares(weight.reshape(-1)) + _sum_of_squares(bias)
    return math.sqrt(total)


@compiled_with(part=True)
def _embed(features: Floats, embedded: Embedded) -> None:
    """Write the products ψ(s) ⊙ φ(t)."""
    fractions, cosines, phi = embedded.fractions, embedded.cosines, embedded.phi
    for column, t in enumerate(fractions.T.flat):
        step, before, now = math.cos(math.pi * t), math.cos(math.pi * t), 1.0
        for i in range(cosines.shape[1]):  # cos((i + 1)x) = 2 cos(x) cos(ix) − cos((i − 1)x)
            cosines[column, i] = now
            before, now = now, 2 * step * now - before
    np.dot(embedded.weight, cosines.T, phi)
    states, samples = fractions.shape
    for i in range(phi.shape[0]):
        bias = embedded.bias[i]
        for j in range(samples):
            for b in range(states):
                column = j * states + b
                phi[i, column] = max(phi[i, column] + bias, np.float32(0))
                embedded.products[i, column] = features[i, b] * phi[i, column]


@compiled_with(fastmath=_SUMS_IN_ANY_ORDER, part=True)
def _embedding_gradient(
    features: Floats, embedded: Embedded, gradients: EmbeddedGradients, of_features: Floats
) -> None:
    """Write the gradients of φ's weights, φ's biases and the features from that of the products."""
    fractions, phi, slope = embedded.fractions, embedded.phi, gradients.products
    states, samples = fractions.shape
    of_features[:] = 0
    for i in range(phi.shape[0]):
        of_bias = np.float32(0)
        for j in range(samples):
            for b in range(states):
                column = j * states + b
                of_features[i, b] += slope[i, column] * phi[i, column]
                slope[i, column] *= features[i, b] * np.float32(phi[i, column] > 0)
                of_bias += slope[i, column]
        gradients.bias[i] = of_bias
    np.dot(slope, embedded.cosines, gradients.weight)


@compiled_with(part=True)
def _transpose(x: Floats, transposed: Floats) -> None:
    rows, columns = transposed.shape
    for begin in range(0, columns, _TILE):  # in tiles, so that cache lines are reused
        for i in range(rows):
            for j in range(begin, min(begin + _TILE, columns)):
                transposed[i, j] = x[j, i]


@compiled_with(part=True)
def _dense(weight: Floats, bias: Floats, x: Floats, relu: bool, y: Floats) -> None:
    """Write W x + b, with a ReLU if ``relu``."""
    if x.shape[1] == 1:
        np.dot(weight, x.reshape(-1), y.reshape(-1))
    else:
        np.dot(weight, x, y)
    for i in range(y.shape[0]):
        for b in range(y.shape[1]):
            total = y[i, b] + bias[i]
            y[i, b] = max(total, np.float32(0)) if relu else total


@compiled_with(fastmath=_SUMS_IN_ANY_ORDER, part=True)
def _bias_gradient(y: Floats, relu: bool, slope: Floats, gradient: Floats) -> None:
    """Backpropagate ``slope`` through the ReLU in place; write its sum over batch and positions."""
    places = y.shape[0] // gradient.size
    gradient[:] = 0
    for i in range(y.shape[0]):
        if relu:
            for b in range(y.shape[1]):
                slope[i, b] *= np.float32(y[i, b] > 0)
        total = np.float32(0)
        for b in range(y.shape[1]):
            total += slope[i, b]
        gradient[i // places] += total


@compiled_with(fastmath=_SUMS_IN_ANY_ORDER, part=True)
def _sum_of_squares(x: Floats) -> float:
    """Return Σx², summed in double precision."""
    total = 0.0
    for i in range(x.size):
        total += np.float64(x[i]) * np.float64(x[i])
    return total
