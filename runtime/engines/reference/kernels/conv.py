"""Convolution as matrix products: the windows of a few images at a time become the rows of a matrix.

In every product a group is one matrix of a stack, so NumPy loops over groups and BLAS does the rest; groups of one
channel go to depthwise.py. The input gradient goes the other way tap by tap, because adding rows of an image is faster
than scattering columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

import runtime.engines.reference.kernels.depthwise as depthwise
from prograd_proto import TensorType
from runtime.engines.reference.kernels.factors import flush, in_sum_dtype, wide_type, widened_types
from runtime.engines.reference.kernels.windows import BUFFER, chunks, images_at_once, taps
from runtime.kernel import Array, kernel
from runtime.row_rules import first_operand

Numbers = tuple[int, ...]

FEW_CHANNELS = 4
"""Number of channels below which copying rows of an image is faster than copying the channels of a tap."""


def conv2d_scratch(
    x: TensorType, w: TensorType, stride: Numbers, padding: Numbers, groups: int, out: TensorType
) -> list[TensorType]:
    wide, x = widened_types(x, w), wide_type(x)
    if depthwise.is_depthwise(w.static_shape, groups):
        return [*wide, *depthwise.part_and_line(out, groups)]
    return [*wide, *column_scratch(x, out, w.static_shape, stride, padding)]


def conv2d_operations(w: TensorType, out: TensorType) -> int:
    return 2 * prod(out.static_shape) * prod(w.static_shape[:3])


@kernel(scratch=conv2d_scratch, rows=first_operand, operations=conv2d_operations)
def conv2d(
    x: Array,
    w: Array,
    *,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    out: Array,
    scratch: Sequence[Array] = (),
) -> None:
    x, w, scratch = in_sum_dtype(x, w, scratch)
    if depthwise.is_depthwise(w.shape, groups):
        out.fill(0)
        window = dict(window=w.shape[:2], stride=stride, padding=padding, dilation=dilation)
        part, line = scratch
        depthwise.spread(x, w, window, part, line, out)
        return
    filters = by_group(w, groups)
    for images in chunks(len(x), len(scratch[-1]) if scratch else max(1, len(x))):
        columns = columns_of(x[images], out.shape[1:3], w.shape, stride, padding, dilation, scratch)
        np.matmul(columns, filters, by_group(out[images], groups))


def conv2d_filter_gradient_scratch(
    x: TensorType, dy: TensorType, stride: Numbers, padding: Numbers, groups: int, out: TensorType
) -> list[TensorType]:
    wide, x, dy = widened_types(x, dy), wide_type(x), wide_type(dy)
    if depthwise.is_depthwise(out.static_shape, groups):
        part, _ = depthwise.part_and_line(dy, groups)
        ones, sums = (1, prod(part.static_shape[:3])), (1, out.static_shape[3])
        return [*wide, part, *(TensorType(x.dtype, shape) for shape in (ones, sums))]
    columns = column_scratch(x, dy, out.static_shape, stride, padding)
    in_parts = bool(columns) and columns[-1].static_shape[0] < x.static_shape[0]
    return [*wide, *columns, *([out] if in_parts else [])]


def conv2d_filter_gradient_operations(dy: TensorType, out: TensorType) -> int:
    return 2 * prod(dy.static_shape) * prod(out.static_shape[:3])


@kernel(scratch=conv2d_filter_gradient_scratch, operations=conv2d_filter_gradient_operations)
def conv2d_filter_gradient(
    x: Array,
    dy: Array,
    *,
    shape: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    out: Array,
    scratch: Sequence[Array] = (),
) -> None:
    is_narrow = x.dtype == np.uint16
    x, dy, scratch = in_sum_dtype(x, dy, scratch)
    if depthwise.is_depthwise(shape, groups):
        part, ones, sums = scratch
        out.fill(0)
        ones.fill(1)
        window = dict(window=shape[:2], stride=stride, padding=padding, dilation=dilation)
        depthwise.add_correlation(x, dy, window, part, ones, sums, out)
        return
    columns_count = 0 if is_product(shape, stride, padding) else 1 + any(padding)
    scratch, parts = scratch[:columns_count], scratch[columns_count:]
    target = out
    for images in chunks(len(x), len(scratch[-1]) if scratch else max(1, len(x))):
        columns = columns_of(x[images], dy.shape[1:3], shape, stride, padding, dilation, scratch)
        np.matmul(columns.swapaxes(1, 2), by_group(dy[images], groups), by_group(target, groups))
        if target is not out:
            np.add(out, target, out)
        target = parts[0] if parts else out
    if not len(x):
        out.fill(0)
    if is_narrow:
        flush(out)


def conv2d_input_gradient_scratch(
    dy: TensorType, w: TensorType, stride: Numbers, padding: Numbers, groups: int, out: TensorType
) -> list[TensorType]:
    wide, dy = widened_types(dy, w), wide_type(dy)
    if depthwise.is_depthwise(w.static_shape, groups):
        return [*wide, *depthwise.part_and_line(dy, groups)]
    if is_product(w.static_shape, stride, padding):
        return wide
    n, height, width, _ = dy.static_shape
    image = (height, width, out.static_shape[3])
    return [*wide, TensorType(out.dtype, (images_at_once(n, prod(image), out.dtype), *image))]


def conv2d_input_gradient_operations(dy: TensorType, w: TensorType) -> int:
    return 2 * prod(dy.static_shape) * prod(w.static_shape[:3])


@kernel(scratch=conv2d_input_gradient_scratch, operations=conv2d_input_gradient_operations)
def conv2d_input_gradient(
    dy: Array,
    w: Array,
    *,
    shape: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    out: Array,
    scratch: Sequence[Array] = (),
) -> None:
    dy, w, scratch = in_sum_dtype(dy, w, scratch)
    if not scratch:
        np.matmul(by_group(dy, groups), by_group(w, groups).swapaxes(1, 2), by_group(out, groups))
        return
    out.fill(0)
    window = dict(window=w.shape[:2], stride=stride, padding=padding, dilation=dilation)
    if depthwise.is_depthwise(w.shape, groups):
        part, line = scratch
        depthwise.spread_back(dy, w, window, part, line, out)
        return
    with np.errstate():  # restores the buffer size as well
        np.setbufsize(BUFFER)
        for images in chunks(len(dy), len(scratch[0])):
            add_spread(dy[images], w, groups, window, scratch[0][: images.stop - images.start], out[images])


def add_spread(dy: Array, w: Array, groups: int, window: dict[str, Numbers], part: Array, dx: Array) -> None:
    """Add the input gradient of every tap of w to dx, one after the other; `part` is scratch."""
    for i, j, inside, places in taps(dx, part, **window):
        np.matmul(by_group(dy, groups), by_group(w[i, j], groups).swapaxes(1, 2), by_group(part, groups))
        np.add(dx[inside], part[places], dx[inside])


def is_product(w: Numbers, stride: Numbers, padding: Numbers) -> bool:
    """Return True if every element of x lies under exactly one window: no columns are needed."""
    return w[:2] == (1, 1) and stride == (1, 1) and not any(padding)


def column_scratch(x: TensorType, y: TensorType, w: Numbers, stride: Numbers, padding: Numbers) -> list[TensorType]:
    """Return columns of as many images as are taken at once, after the padded images if there is padding."""
    if is_product(w, stride, padding):
        return []
    n, height, width, channels = x.static_shape
    of_one = prod(y.static_shape[1:3]) * w[0] * w[1] * channels
    at_once = images_at_once(n, of_one, x.dtype)
    columns = TensorType(x.dtype, (at_once, of_one))
    if not any(padding):
        return [columns]
    top, left, bottom, right = padding
    padded = (at_once, height + top + bottom, width + left + right, channels)
    return [TensorType(x.dtype, padded), columns]


def by_group(x: Array, groups: int) -> Array:
    """Return the view [groups, rows, channels of one group] of x [..., channels]."""
    channels = x.shape[-1]
    return x.reshape(prod(x.shape[:-1]), groups, channels // groups).transpose(1, 0, 2)


def columns_of(
    x: Array,
    places: Numbers,
    w: Numbers,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    scratch: Sequence[Array],
) -> Array:
    """Return the elements under each window: [groups, images and output positions, taps and channels of one group]."""
    height, width, depth, _ = w
    groups = x.shape[3] // depth
    if not scratch:
        return by_group(x, groups)
    if any(padding):
        x = padded(x, padding, scratch[0][: len(x)])
    n, rows, columns, channels = x.strides
    windows = np.ndarray(
        (groups, len(x), *places, height, width, depth),
        x.dtype,
        x,
        0,
        (
            depth * channels,
            n,
            rows * stride[0],
            columns * stride[1],
            rows * dilation[0],
            columns * dilation[1],
            channels,
        ),
    )
    flat = scratch[-1][: len(x)].reshape(-1)
    matrix = (groups, len(x) * prod(places), height * width * depth)
    if depth >= FEW_CHANNELS:
        np.copyto(flat.reshape(windows.shape), windows)
        return flat.reshape(matrix)
    windows = windows.transpose(0, 4, 5, 6, 1, 2, 3)
    np.copyto(flat.reshape(windows.shape), windows)
    return flat.reshape(groups, matrix[2], matrix[1]).swapaxes(1, 2)


def padded(x: Array, padding: Numbers, out: Array) -> Array:
    """Write the images x with zeros around them into `out`, and return it."""
    top, left, _, _ = padding
    out.fill(0)
    np.copyto(out[:, top : top + x.shape[1], left : left + x.shape[2]], x)
    return out
