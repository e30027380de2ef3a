"""Convolution as a first layer, for sparse inputs such as MinAtar's boards.

Each nonzero input is multiplied by filter weights and added to the outputs whose receptive field
contains it. On MinAtar's boards this takes a tenth of the multiplications of a dense convolution;
on dense inputs it takes about as long as a matrix product.

A ``Window`` is (stride, filter width, output width, table). The table has one row per input: the
flat index (channel, row, column) that it would have in a filter at the top left, and the ranges of
output rows and columns whose receptive field contains it.
"""

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mviq.tsallis.kernels.compiling import Floats, Integers, compiled_with

Window = tuple[int, int, int, Integers]
Nonzero = tuple[Integers, Integers]  # of each board: places that are not 0, and their number

LANES = 16  # floats per vector instruction; the number of filters is padded to a multiple of it


@compiled_with()
def padded(filters: int) -> int:
    """Return the number of filters, rounded up to a multiple of ``LANES``."""
    return -(-filters // LANES) * LANES


@intrinsic
def _add_scaled(typing: Any, target: Any, to: Any, source: Any, start: Any, scale: Any) -> Any:
    """Add ``scale`` times LANES elements of ``source`` to LANES elements of ``target``.

    Emits vector instructions, since a loop would check on every call whether the arrays overlap.
    """
    lanes = ir.VectorType(ir.FloatType(), LANES)
    unset = ir.Constant(lanes, ir.Undefined)
    first = ir.Constant(ir.IntType(32), 0)
    everywhere = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)

    def place(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
        memory = context.make_array(kind)(context, builder, array).data
        return builder.bitcast(builder.gep(memory, [index]), lanes.as_pointer())

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        there = place(context, builder, signature.args[0], *given[:2])
        numbers = builder.load(place(context, builder, signature.args[2], *given[2:4]), align=4)
        scale = builder.insert_element(unset, given[4], first)
        scale = builder.shuffle_vector(scale, unset, everywhere)
        scaled = builder.fmul(numbers, scale, flags=("contract",))
        total = builder.fadd(builder.load(there, align=4), scaled, flags=("contract",))
        builder.store(total, there, align=4)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp, types.float32), generate


add_scaled: Any = _add_scaled  # numba passes the first argument itself


@compiled_with()
def find_nonzero(boards: Floats, places: Integers, counts: Integers) -> None:
    """Write each board's number of nonzero inputs to ``counts``, their indices to ``places``."""
    for b in range(boards.shape[0]):
        count = 0
        for k in range(boards.shape[1]):
            places[b, count] = k
            count += int(boards[b, k] != 0)
        counts[b] = count


@compiled_with()
def convolve(
    boards: Floats,
    nonzero: Nonzero,
    window: Window,
    weight: Floats,
    bias: Floats,
    relu: bool,
    scratch: Floats,
    y: Floats,
) -> None:
    """Write W * x + b, with a ReLU if ``relu``, to ``y`` (filters × output positions, batch)."""
    filters, seen = weight.shape
    taps = np.zeros((seen, padded(filters)), np.float32)
    for f in range(filters):
        for tap in range(seen):
            taps[tap, f] = weight[f, tap]
    scratch[:] = 0
    _add_up(boards, nonzero, window, taps, scratch, True)
    places = y.shape[0] // filters
    for p in range(places):
        for f in range(filters):
            for b in range(boards.shape[0]):
                total = scratch[b, p * taps.shape[1] + f] + bias[f]
                y[f * places + p, b] = max(total, np.float32(0)) if relu else total


@compiled_with()
def convolution_gradient(
    boards: Floats,
    nonzero: Nonzero,
    window: Window,
    slope: Floats,
    scratch: Floats,
    gradient: Floats,
) -> None:
    """Write the gradient of W, given that of W * x: ``slope`` (filters × positions, batch)."""
    filters, seen = gradient.shape
    taps = np.zeros((seen, padded(filters)), np.float32)
    places = slope.shape[0] // filters
    for p in range(places):
        for f in range(filters):
            for b in range(boards.shape[0]):
                scratch[b, p * taps.shape[1] + f] = slope[f * places + p, b]
    _add_up(boards, nonzero, window, taps, scratch, False)
    for f in range(filters):
        for tap in range(seen):
            gradient[f, tap] = taps[tap, f]


@compiled_with(part=True)
def _add_up(
    boards: Floats,
    nonzero: Nonzero,
    window: Window,
    taps: Floats,
    scratch: Floats,
    forward: bool,
) -> None:
    """Add inputs times weights to ``scratch`` (batch, output positions × padded filters).

    If not ``forward``, add inputs times ``scratch`` to ``taps``, the gradient of the weights.
    """
    stride, wide, across, table = window
    places, counts = nonzero
    lanes, row = taps.shape[1], scratch.shape[1]
    weights, outputs = taps.reshape(-1), scratch.reshape(-1)
    for b in range(boards.shape[0]):
        for k in range(counts[b]):
            number = boards[b, places[b, k]]
            cell = table[places[b, k]]
            origin, top, bottom, left, right = cell[0], cell[1], cell[2], cell[3], cell[4]
            for u in range(top, bottom):
                for v in range(left, right):
                    tap = (origin - (u * wide + v) * stride) * lanes
                    output = b * row + (u * across + v) * lanes
                    for f in range(0, lanes, LANES):
                        if forward:
                            add_scaled(outputs, output + f, weights, tap + f, number)
                        else:
                            add_scaled(weights, tap + f, outputs, output + f, number)
