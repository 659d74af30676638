"""Layer, RMS and group normalisation, a few elements of the batch at a time so that all steps find them in a cache."""

from __future__ import annotations

from math import prod

import numpy as np

from prograd_proto import TensorType
from runtime.engines.reference.kernels.sums import add_rows_by_product
from runtime.engines.reference.kernels.windows import chunks, images_at_once
from runtime.kernel import Array, kernel
from runtime.row_rules import along_other_axes, first_operand


@kernel(in_place=[(0, 0)], rows=along_other_axes)
def layer_norm(
    x: Array, scale: Array | None, bias: Array | None, *, axis: int, epsilon: float, out: list[Array]
) -> None:
    y, mean, inverse_deviation = out
    rows, results, size = as_rows(x, mean), as_rows(y, mean), x.size // max(1, mean.size)
    centers, roots = mean.reshape(-1), inverse_deviation.reshape(-1)
    for some in chunks(len(rows), images_at_once(len(rows), size, x.dtype.name)):
        part, center, root = results[some], centers[some], roots[some]
        np.add.reduce(rows[some], axis=1, out=center)
        np.divide(center, size, center)
        np.subtract(rows[some], center[:, None], part)
        inverse_root_of(part, epsilon, root)
        center_constant_rows(part, center, root, epsilon)
        np.multiply(part, root[:, None], part)
        if scale is not None:
            np.multiply(part, scale.reshape(-1), part)
        if bias is not None:
            np.add(part, bias.reshape(-1), part)


@kernel(in_place=[(0, 0)], rows=along_other_axes)
def rms_norm(x: Array, scale: Array | None, *, axis: int, epsilon: float, out: list[Array]) -> None:
    y, inverse_root = out
    rows, results, size = as_rows(x, inverse_root), as_rows(y, inverse_root), x.size // max(1, inverse_root.size)
    roots = inverse_root.reshape(-1)
    for some in chunks(len(rows), images_at_once(len(rows), size, x.dtype.name)):
        part, root = results[some], roots[some]
        inverse_root_of(rows[some], epsilon, root)
        np.multiply(rows[some], root[:, None], part)
        if scale is not None:
            np.multiply(part, scale.reshape(-1), part)


def group_norm_scratch(x: TensorType) -> list[TensorType]:
    n, *rows, channels = x.static_shape
    at_once = images_at_once(n, prod(rows) * channels, x.dtype)
    shapes = [(1, prod(rows)), (at_once, 1, channels), (at_once, prod(rows), channels)]
    return [TensorType(x.dtype, shape) for shape in shapes]


@kernel(scratch=group_norm_scratch, in_place=[(0, 0)], rows=first_operand)
def group_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    *,
    groups: int,
    epsilon: float,
    out: list[Array],
    scratch: list[Array],
) -> None:
    """Normalise groups.

    Sums over rows are products with ones, as in batch_norm, and channels of a group are added last.
    """
    y, mean, inverse_deviation = out
    ones, lines, squares = scratch
    ones.fill(1)
    count = ones.size * x.shape[-1] // groups
    images, results = (array.reshape(len(x), ones.size, x.shape[-1]) for array in (x, y))
    centers, roots = (array.reshape(len(x), groups) for array in (mean, inverse_deviation))
    for some in chunks(len(images), len(squares)):
        part, center, root = results[some], centers[some], roots[some]
        line, square = lines[: len(part)], squares[: len(part)]
        by_group = line.reshape(len(part), groups, -1)
        add_rows_by_product(ones, images[some], line)
        np.add.reduce(by_group, axis=2, out=center)
        np.divide(center, count, center)
        np.copyto(by_group, center[:, :, None])
        np.subtract(images[some], line, part)
        np.multiply(part, part, square)
        add_rows_by_product(ones, square, line)
        np.add.reduce(by_group, axis=2, out=root)
        inverse_root_in_place(root, count, epsilon)
        center_constant_groups(part, center, root, epsilon)
        np.copyto(by_group, root[:, :, None])
        if scale is not None:
            np.multiply(line, scale, line)
        np.multiply(part, line, part)
        if bias is not None:
            np.add(part, bias, part)


def center_constant_rows(part: Array, center: Array, root: Array, epsilon: float) -> None:
    """Center rows again whose mean has an error as large as their deviation.

    The mean of equal large numbers is rounded; what that leaves of each number would be normalised to 1. All other
    rows keep their bits.
    """
    for row in np.flatnonzero(may_be_constant(center, root, part.shape[1], epsilon)):
        left = np.add.reduce(part[row]) / part.shape[1]
        if left * left * 2 > np.dot(part[row], part[row]) / part.shape[1]:
            center[row] += left
            part[row] -= left
            inverse_root_of(part[row : row + 1], epsilon, root[row : row + 1])


def center_constant_groups(part: Array, center: Array, root: Array, epsilon: float) -> None:
    """Center groups of channels again as `center_constant_rows` centers rows; part is [images, pixels, channels]."""
    width = part.shape[2] // center.shape[1]
    for image, group in np.argwhere(may_be_constant(center, root, part.shape[1] * width, epsilon)):
        own = part[image, :, group * width : (group + 1) * width]
        row = own.reshape(1, -1)
        center_constant_rows(row, center[image, group : group + 1], root[image, group : group + 1], epsilon)
        own[...] = row.reshape(own.shape)


def may_be_constant(center: Array, root: Array, count: int, epsilon: float) -> Array:
    """Return where the deviation of `count` numbers is not above what rounding may make of equal ones."""
    is_near = 1 / root <= np.sqrt(epsilon) + count * np.finfo(center.dtype).eps * np.abs(center)
    return is_near & (center != 0)


def inverse_root_of(rows: Array, epsilon: float, out: Array) -> None:
    """Compute 1 / sqrt(mean of squares + epsilon) of each row, by the dot product of BLAS."""
    np.matmul(rows[:, None, :], rows[:, :, None], out[:, None, None])
    inverse_root_in_place(out, rows.shape[1], epsilon)


def inverse_root_in_place(sums: Array, count: int, epsilon: float) -> None:
    """Replace sums of squares by 1 / sqrt(mean + epsilon)."""
    np.divide(sums, count, sums)
    np.add(sums, epsilon, sums)
    np.sqrt(sums, sums)
    np.divide(1, sums, sums)


def as_rows(x: Array, statistic: Array) -> Array:
    """Return the view of x with a row for each element of the statistic."""
    return x.reshape(statistic.size, x.size // max(1, statistic.size))
