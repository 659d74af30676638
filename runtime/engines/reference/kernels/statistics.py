"""Logarithms of sums of powers, variances, deviations and norms."""

from __future__ import annotations

from math import inf, isinf, isnan, prod

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS
from runtime.engines.reference.kernels.reduce import reduced
from runtime.engines.reference.kernels.sums import add_along
from runtime.kernel import Array, Types, kernel, require, types
from runtime.row_rules import along_other_axes


def logsumexp_rule(x: TensorType, *, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    y = TensorType(x.dtype, reduced(x, axes, keepdims))
    return types(y, scratch=[x, TensorType(x.dtype, reduced(x, axes, True)), TensorType("bool", y.shape)])


@kernel(logsumexp_rule, rows=along_other_axes)
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


def variance_rule(x: TensorType, *, axes: tuple[int, ...], correction: float, keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    y = TensorType(x.dtype, reduced(x, axes, keepdims))
    return types(y, scratch=[x, TensorType(x.dtype, reduced(x, axes, True))])


@kernel(variance_rule, rows=along_other_axes)
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


@kernel(variance_rule, rows=along_other_axes)
def standard_deviation(
    x: Array, *, axes: tuple[int, ...], correction: float, keepdims: bool, out: Array, scratch: list[Array]
) -> None:
    variance(x, axes=axes, correction=correction, keepdims=keepdims, out=out, scratch=scratch)
    np.sqrt(out, out)


def norm_rule(x: TensorType, *, ord: float, axes: tuple[int, ...], keepdims: bool) -> Types:
    require(x.dtype in FLOATS, f"x is {x.dtype}, which this operator does not take")
    require(not isnan(ord), "ord is NaN")
    y = TensorType(x.dtype, reduced(x, axes, keepdims))
    gone = axes or range(x.rank)
    some = 0 not in [x.static_shape[axis] for axis in gone]
    require(some or not isinf(ord), f"{x} has no elements along {tuple(gone)} and so no norm of order {ord}")
    return types(y, scratch=[x])


@kernel(norm_rule, rows=along_other_axes)
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
