"""Maxima and means under a sliding window: one pass over the places for each tap of the window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from prograd_proto.tensor_types import Shape
from runtime.kernel import Array, Types, kernel, require, types
from runtime.kernels.windows import BUFFER, Numbers, taps, window_counts


def max_pool2d_rule(
    x: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> Types:
    return types(pooled(x, window, stride, padding))


@kernel(max_pool2d_rule)
def max_pool2d(x: Array, *, window: Numbers, stride: Numbers, padding: Numbers, out: Array) -> None:
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        take_maxima(x, window, stride, padding, out)


def max_pool2d_input_gradient_rule(
    x: TensorType, dy: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> Types:
    y = pooled(x, window, stride, padding)
    require(dy == y, f"dy is {dy}, not {y}")
    masks = [TensorType("bool", y.shape)] * 2
    return types(x, scratch=[y, *masks] if are_apart(window, stride) else [y, *masks, y])


@kernel(max_pool2d_input_gradient_rule)
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
    y, left, found, *part = scratch
    out.fill(0)
    left.fill(True)
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        take_maxima(x, window, stride, padding, y)
        for _, _, inside, places in taps(x, y, window=window, stride=stride, padding=padding):
            find_first(x[inside], y[places], left[places], found[places])
            if not part:
                np.multiply(dy[places], found[places], out[inside])
                continue
            np.multiply(dy[places], found[places], part[0][places])
            np.add(out[inside], part[0][places], out[inside])


def max_pool2d_select_rule(
    x: TensorType, z: TensorType, *, window: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
) -> Types:
    y = pooled(x, window, stride, padding)
    require(x == z, f"z is {z}, not {x}")
    return types(y, scratch=[y, *[TensorType("bool", y.shape)] * 2])


@kernel(max_pool2d_select_rule)
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
    y, left, found = scratch
    out.fill(0)
    left.fill(True)
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        take_maxima(x, window, stride, padding, y)
        for _, _, inside, places in taps(x, y, window=window, stride=stride, padding=padding):
            find_first(x[inside], y[places], left[places], found[places])
            np.copyto(out[places], z[inside], where=found[places])


def avg_pool2d_rule(
    x: TensorType,
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
) -> Types:
    y = pooled(x, window, stride, padding)
    return types(y, scratch=count_scratch(y, padding, count_include_pad))


@kernel(avg_pool2d_rule)
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
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        for _, _, inside, places in taps(x, out, window=window, stride=stride, padding=padding):
            np.add(out[places], x[inside], out[places])
        np.divide(out, counts(x, window, stride, padding, scratch), out)


def avg_pool2d_input_gradient_rule(
    dy: TensorType,
    *,
    shape: Shape,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    count_include_pad: bool,
) -> Types:
    dx = TensorType(dy.dtype, shape)
    y = pooled(dx, window, stride, padding)
    require(dy == y, f"dy is {dy}, not {y}")
    return types(dx, scratch=[y, *count_scratch(y, padding, count_include_pad)])


@kernel(avg_pool2d_input_gradient_rule)
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
    with np.errstate():  # gives the buffer size back as well
        np.setbufsize(BUFFER)
        np.divide(dy, counts(out, window, stride, padding, of_counts), share)
        for _, _, inside, places in taps(out, dy, window=window, stride=stride, padding=padding):
            np.add(out[inside], share[places], out[inside])


def pooled(x: TensorType, window: Numbers, stride: Numbers, padding: Numbers) -> TensorType:
    """The type of what a window makes of x, an image per place."""
    require(x.rank == 4 and x.dtype in FLOATS, f"x is {x}; it must be of a float dtype, with four axes")
    n, height, width, channels = x.static_shape
    places = window_counts(height, width, window=window, stride=stride, padding=padding)
    fits = max(padding[0::2]) < window[0] and max(padding[1::2]) < window[1]
    require(fits, f"padding {padding} is not smaller than the window {window}")
    return TensorType(x.dtype, (n, *places, channels))


def take_maxima(x: Array, window: Numbers, stride: Numbers, padding: Numbers, out: Array) -> None:
    """Fill `out` with the maximum under the window at every place."""
    out.fill(-np.inf)
    for _, _, inside, places in taps(x, out, window=window, stride=stride, padding=padding):
        np.maximum(x[inside], out[places], out=out[places])


def find_first(x: Array, y: Array, left: Array, found: Array) -> None:
    """Mark in `found` the places where x is the maximum y and none was found before, and strike them off `left`."""
    np.equal(x, y, found)
    np.logical_and(found, left, found)
    np.not_equal(left, found, left)


def are_apart(window: Numbers, stride: Numbers) -> bool:
    """Whether no element lies under two places of the window."""
    return window[0] <= stride[0] and window[1] <= stride[1]


def count_scratch(y: TensorType, padding: Numbers, count_include_pad: bool) -> list[TensorType]:
    """Room for a divisor per place, if they differ."""
    return [] if count_include_pad or not any(padding) else [TensorType(y.dtype, (1, *y.shape[1:3], 1))]


def counts(x: Array, window: Numbers, stride: Numbers, padding: Numbers, scratch: Sequence[Array]) -> Array | int:
    """How many elements a mean is over, at every place if that is not the same."""
    if not scratch:
        return window[0] * window[1]
    [divisors] = scratch
    divisors.fill(0)
    for _, _, _, places in taps(x, divisors, window=window, stride=stride, padding=padding):
        divisors[places] += 1
    return divisors
