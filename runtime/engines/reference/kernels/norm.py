"""Softmax, log_softmax and batch normalisation."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.sums import add_along, add_rows_by_product
from runtime.engines.reference.kernels.windows import chunks, images_at_once
from runtime.kernel import Array, kernel
from runtime.row_rules import along_other_axes


def softmax_scratch(x: TensorType, axis: int) -> list[TensorType]:
    shape = list(x.static_shape)
    shape[axis] = 1
    return [TensorType(x.dtype, tuple(shape))]


@kernel(scratch=softmax_scratch, in_place=[(0, 0)], rows=along_other_axes)
def softmax(x: Array, *, axis: int, out: Array, scratch: list[Array]) -> None:
    [along] = scratch
    np.maximum.reduce(x, axis=axis, out=along, keepdims=True, initial=-np.inf)
    np.subtract(x, along, out)
    np.exp(out, out)
    add_along(out, (axis,), along, keepdims=True)
    np.divide(out, along, out)


def log_softmax_scratch(x: TensorType, axis: int) -> list[TensorType]:
    return [*softmax_scratch(x, axis), x]


@kernel(scratch=log_softmax_scratch, in_place=[(0, 0)], rows=along_other_axes)
def log_softmax(x: Array, *, axis: int, out: Array, scratch: list[Array]) -> None:
    along, powers = scratch
    np.maximum.reduce(x, axis=axis, out=along, keepdims=True, initial=-np.inf)
    np.subtract(x, along, out)
    np.exp(out, powers)
    add_along(powers, (axis,), along, keepdims=True)
    np.log(along, along)
    np.subtract(out, along, out)


def batch_norm_scratch(x: TensorType) -> list[TensorType]:
    images, rows, channels = stacked(x.static_shape)
    at_once = images_at_once(images, rows * channels, x.dtype)
    shapes = [(1, rows), (images, 1, channels), (at_once, rows, channels), x.static_shape[-2:]]
    return [TensorType(x.dtype, shape) for shape in shapes]


@kernel(scratch=batch_norm_scratch, in_place=[(0, 0), (1, 3), (2, 4)])
def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    running_mean: Array,
    running_variance: Array,
    *,
    momentum: float,
    epsilon: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    """Normalise a batch.

    Sums are products with ones, by BLAS, which adds rows far faster than NumPy: images, then rest.
    """
    y, new_mean, new_variance, mean, inverse_deviation = out
    ones, sums, squares, line = scratch
    variance = inverse_deviation
    images = y.reshape(stacked(y.shape))
    ones.fill(1)
    add_rows_by_product(ones, x.reshape(images.shape), sums)
    mean_of(sums, ones.size, mean)
    per_channel(np.subtract, x, mean, line, y)
    for some in chunks(len(images), len(squares)):
        square = squares[: some.stop - some.start]
        np.multiply(images[some], images[some], square)
        add_rows_by_product(ones, square, sums[some])
    mean_of(sums, ones.size, variance)
    center_constant_channels(y.reshape(-1, y.shape[-1]), mean, variance)
    blend(running_mean, mean, momentum, line[0], new_mean)
    blend(running_variance, variance, momentum, line[0], new_variance)
    np.add(variance, epsilon, inverse_deviation)
    np.sqrt(inverse_deviation, inverse_deviation)
    np.divide(1, inverse_deviation, inverse_deviation)
    np.multiply(inverse_deviation, scale, sums[0, 0])
    per_channel(np.multiply, y, sums[0, 0], line, y)
    per_channel(np.add, y, bias, line, y)


def center_constant_channels(far: Array, mean: Array, variance: Array) -> None:
    """Center channels again whose mean has an error as large as their deviation, as `center_constant_rows` does."""
    count = len(far)
    error = count * np.finfo(far.dtype).eps * np.abs(mean)
    for channel in np.flatnonzero((variance <= error * error) & (mean != 0)):
        column = far[:, channel]
        left = np.add.reduce(column) / count
        if left * left * 2 > variance[channel]:
            mean[channel] += left
            column -= left
            variance[channel] = np.dot(column, column) / count


def stacked(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Return images, rows of each, and channels; sums over images come last, so no sum has many sequential terms."""
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    return shape[0], prod(shape[1:-1]), shape[-1]


def mean_of(sums: Array, rows: int, out: Array) -> None:
    """Write the mean of all rows, from the sums of each image."""
    add_along(sums, (0, 1), out, keepdims=False)
    np.divide(out, len(sums) * rows, out)


def blend(running: Array, batch: Array, momentum: float, part: Array, out: Array) -> None:
    """Write running statistics with the share of the batch."""
    np.multiply(batch, 1 - momentum, part)
    np.multiply(running, momentum, out)
    np.add(out, part, out)


def per_channel(ufunc: np.ufunc, x: Array, by: Array, line: Array, out: Array) -> None:
    """Combine x with one number per channel, repeated in `line` so that NumPy's inner loop is long."""
    np.copyto(line, by)
    shape = (prod(x.shape[:-2]), line.size)
    ufunc(x.reshape(shape), line.reshape(-1), out.reshape(shape))
