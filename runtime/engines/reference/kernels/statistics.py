"""Logarithms of sums of powers, variances, deviations and norms."""

from __future__ import annotations

from math import inf, isinf, prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.result_types.reductions import reduced
from runtime.engines.reference.kernels.sums import add_along
from runtime.kernel import Array, kernel
from runtime.row_rules import along_other_axes

Numbers = tuple[int, ...]


def logsumexp_scratch(x: TensorType, axes: Numbers, out: TensorType) -> list[TensorType]:
    return [*centred_scratch(x, axes), TensorType("bool", out.shape)]


@kernel(scratch=logsumexp_scratch, rows=along_other_axes)
def logsumexp(x: Array, *, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: list[Array]) -> None:
    powers, most, is_infinite = scratch
    along = axes or None
    np.maximum.reduce(x, axis=along, out=most, keepdims=True, initial=-np.inf)
    np.isinf(most.reshape(out.shape), is_infinite)
    np.copyto(most.reshape(out.shape), 0, where=is_infinite)
    np.subtract(x, most, powers)
    np.exp(powers, powers)
    add_along(powers, axes, out, keepdims=keepdims)
    np.log(out, out)
    np.add(out, most.reshape(out.shape), out)


def centred_scratch(x: TensorType, axes: Numbers) -> list[TensorType]:
    return [x, TensorType(x.dtype, reduced(x.shape, axes, True))]


@kernel(scratch=centred_scratch, rows=along_other_axes)
def variance(
    x: Array, *, axes: tuple[int, ...], correction: float, keepdims: bool, out: Array, scratch: list[Array]
) -> None:
    distance, mean = scratch
    count = prod(x.shape[axis] for axis in axes) if axes else x.size
    add_along(x, axes, mean, keepdims=True)
    np.divide(mean, count, mean)
    np.subtract(x, mean, distance)
    np.multiply(distance, distance, distance)
    add_along(distance, axes, out, keepdims=keepdims)
    np.divide(out, max(count - correction, 0), out)


@kernel(scratch=centred_scratch, rows=along_other_axes)
def standard_deviation(
    x: Array, *, axes: tuple[int, ...], correction: float, keepdims: bool, out: Array, scratch: list[Array]
) -> None:
    variance(x, axes=axes, correction=correction, keepdims=keepdims, out=out, scratch=scratch)
    np.sqrt(out, out)


def norm_scratch(x: TensorType) -> list[TensorType]:
    return [x]


@kernel(scratch=norm_scratch, rows=along_other_axes)
def norm(x: Array, *, ord: float, axes: tuple[int, ...], keepdims: bool, out: Array, scratch: list[Array]) -> None:
    [sizes] = scratch
    along = axes or None
    if ord == 2:
        np.multiply(x, x, sizes)
        add_along(sizes, axes, out, keepdims=keepdims)
        np.sqrt(out, out)
        return
    np.absolute(x, sizes)
    if isinf(ord):
        extreme = np.maximum if ord == inf else np.minimum
        extreme.reduce(sizes, axis=along, out=out, keepdims=keepdims)
        return
    if ord == 0:
        np.sign(sizes, sizes)
    elif ord != 1:
        np.power(sizes, ord, sizes)
    add_along(sizes, axes, out, keepdims=keepdims)
    if ord not in (0, 1):
        np.power(out, 1 / ord, out)
