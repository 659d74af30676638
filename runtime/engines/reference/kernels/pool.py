"""Maxima and means under a sliding window: one pass over the output positions for each tap of the window.

The gradient of maxima searches them again, which alone takes three to nine times as long as PyTorch's use of kept
indices; forward and backward together take less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from prograd_proto import TensorType
from prograd_proto.tensor_types import Shape
from runtime.engines.reference.kernels.chunks import BITS
from runtime.engines.reference.kernels.windows import (
    BUFFER,
    Index,
    Numbers,
    chunks,
    first_of,
    images_at_once,
    small_buffers,
    taps,
)
from runtime.kernel import Array, kernel
from runtime.row_rules import first_operand

MOST_TAPS = 256

Under = tuple[int, int, Index, Index]
"""A tap: its row and column, the input that it reads, and the output positions."""


@kernel(rows=first_operand)
def max_pool2d(x: Array, *, window: Numbers, stride: Numbers, padding: Numbers, out: Array) -> None:
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        take_maxima(x, window, stride, padding, out)


def winner_scratch_of_gradient(dy: TensorType, window: Numbers) -> list[TensorType]:
    return winner_scratch(dy, window)


@kernel(scratch=winner_scratch_of_gradient)
def max_pool2d_input_gradient(
    x: Array,
    dy: Array,
    *,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    out: Array,
    scratch: Sequence[Array],
) -> None:
    out.fill(0)
    apart = window[0] <= stride[0] and window[1] <= stride[1]
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for images in chunks(len(x), len(scratch[0])):
            dx = out[images]
            for inside, places, found, share in winners(x[images], window, stride, padding, scratch):
                np.bitwise_and(dy[images].view(found.dtype), found, share.view(found.dtype))
                if apart:
                    np.copyto(dx[inside], share[places])
                else:
                    np.add(dx[inside], share[places], dx[inside])


def winner_scratch_of_choice(out: TensorType, window: Numbers) -> list[TensorType]:
    return winner_scratch(out, window)


@kernel(scratch=winner_scratch_of_choice)
@small_buffers()
def max_pool2d_select(
    x: Array,
    z: Array,
    *,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    out: Array,
    scratch: Sequence[Array],
) -> None:
    out.fill(0)
    for images in chunks(len(x), len(scratch[0])):
        y = out[images].view(scratch[-1].dtype)
        for inside, places, found, part in winners(x[images], window, stride, padding, scratch):
            np.copyto(part[places], z[images][inside])
            np.bitwise_and(part.view(found.dtype), found, found)
            np.bitwise_or(y, found, y)


def avg_pool2d_scratch(padding: Numbers, count_include_pad: bool, out: TensorType) -> list[TensorType]:
    return count_scratch(out, padding, count_include_pad)


@kernel(scratch=avg_pool2d_scratch, rows=first_operand)
def avg_pool2d(
    x: Array,
    *,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    count_include_pad: bool,
    out: Array,
    scratch: Sequence[Array] = (),
) -> None:
    out.fill(0)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for _, _, inside, places in taps(x, out, window=window, stride=stride, padding=padding):
            np.add(out[places], x[inside], out[places])
        np.divide(out, counts(x, window, stride, padding, scratch), out)


def avg_pool2d_input_gradient_scratch(dy: TensorType, padding: Numbers, count_include_pad: bool) -> list[TensorType]:
    return [dy, *count_scratch(dy, padding, count_include_pad)]


@kernel(scratch=avg_pool2d_input_gradient_scratch)
def avg_pool2d_input_gradient(
    dy: Array,
    *,
    shape: Shape,
    window: Numbers,
    stride: Numbers,
    padding: Numbers,
    count_include_pad: bool,
    out: Array,
    scratch: Sequence[Array],
) -> None:
    share, *of_counts = scratch
    out.fill(0)
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        np.divide(dy, counts(out, window, stride, padding, of_counts), share)
        for _, _, inside, places in taps(out, dy, window=window, stride=stride, padding=padding):
            np.add(out[inside], share[places], out[inside])


def take_maxima(x: Array, window: Numbers, stride: Numbers, padding: Numbers, out: Array) -> None:
    """Fill `out` with the maximum under the window at every output position."""
    out.fill(0 if out.dtype == np.uint8 else -np.inf)
    for _, _, inside, places in taps(x, out, window=window, stride=stride, padding=padding):
        np.maximum(x[inside], out[places], out=out[places])


def winner_scratch(y: TensorType, window: Numbers) -> list[TensorType]:
    """Return scratch for a few images: the input of a tap, the maximum, its tap, the comparison, and its bits."""
    n, *image = y.static_shape
    shape = (images_at_once(n, 4 * prod(image), y.dtype), *image)
    number = "uint8" if prod(window) <= MOST_TAPS else "int32"
    return [TensorType(dtype, shape) for dtype in (y.dtype, y.dtype, number, number, "bool", BITS[y.dtype])]


def winners(
    x: Array, window: Numbers, stride: Numbers, padding: Numbers, scratch: Sequence[Array]
) -> Iterator[tuple[Index, Index, Array, Array]]:
    """Yield for each tap its input, its output positions, and a mask of bits where it has the first of equal maxima.

    The last array of the tuple is scratch for a number at every output position. The number of the tap with the maximum
    begins with the first tap outside the padding, and changes wherever a later tap reads a larger number, or NaN.
    """
    tap, y, winner, number, found, bits = (array[: len(x)] for array in scratch)
    under = Taps(x, y, window, stride, padding)
    y.fill(-np.inf)
    winner.fill(0)
    if any(padding):
        for i, j, _, places in under.walk(backwards=True):
            winner[places] = i * window[1] + j
    for count, (_, _, inside, places) in enumerate(under.walk()):
        seen, most = first_of(tap, y[places].shape), y[places]
        np.copyto(seen, x[inside])
        if count:
            more, own = first_of(found, seen.shape), first_of(number, seen.shape)
            np.greater(seen, most, more)
            np.multiply(more.view(np.uint8), own.dtype.type(count), own)
            np.maximum(winner[places], own, out=winner[places])
        np.maximum(most, seen, out=most)
    np.isnan(y, found)
    if found.any():
        prefer_nan(x, under, winner, found, number)
    for count, (_, _, inside, places) in enumerate(under.walk()):
        np.equal(winner, count, found)
        np.copyto(bits, found.view(np.uint8))
        np.negative(bits, bits)
        yield inside, places, bits, tap


class Taps(NamedTuple):
    """The taps of a window, generated for each walk: a list of a million takes more memory than the images."""

    x: Array
    y: Array
    window: Numbers
    stride: Numbers
    padding: Numbers

    def walk(self, *, backwards: bool = False) -> Iterator[Under]:
        """Yield each tap in row-major order, or from the last to the first."""
        x, y, window, stride, padding = self
        return taps(x, y, backwards, window=window, stride=stride, padding=padding)


def prefer_nan(x: Array, under: Taps, winner: Array, found: Array, number: Array) -> None:
    """Let the last tap that reads NaN have the maximum: comparisons with NaN are False."""
    for count, (_, _, inside, places) in enumerate(under.walk()):
        is_nan, own = (first_of(array, winner[places].shape) for array in (found, number))
        np.isnan(x[inside], is_nan)
        np.multiply(is_nan.view(np.uint8), own.dtype.type(count), own)
        np.maximum(winner[places], own, out=winner[places])


def count_scratch(y: TensorType, padding: Numbers, count_include_pad: bool) -> list[TensorType]:
    """Return scratch for a divisor per output position, if they differ."""
    return [] if count_include_pad or not any(padding) else [TensorType(y.dtype, (1, *y.shape[1:3], 1))]


def counts(x: Array, window: Numbers, stride: Numbers, padding: Numbers, scratch: Sequence[Array]) -> Array | int:
    """Return the number of elements of a mean, at every output position if it varies."""
    if not scratch:
        return window[0] * window[1]
    [divisors] = scratch
    divisors.fill(0)
    for _, _, _, places in taps(x, divisors, window=window, stride=stride, padding=padding):
        divisors[places] += 1
    return divisors
