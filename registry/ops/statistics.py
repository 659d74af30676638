"""Reductions of more than one pass: log of a sum of exponentials, variance, deviation, norms; floats only."""

from __future__ import annotations

from math import inf

from prograd_proto import TensorType
from prograd_proto.result_types.shapes import normal_axes
from registry.op import op
from registry.ops.copy import cast
from registry.ops.fill import count_like
from registry.ops.pointwise import abs, equal, exp, sign, where
from registry.ops.reduce import mean, sum, with_axes
from registry.spellings import Axis
from registry.value import Value


@op
def logsumexp(x: Value, *, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return log(sum(exp(x))) along `axis`, or along all axes if empty, without overflow.

    `keepdims` keeps the axes with extent 1. If all exponentials are 0 the result is -inf, and its gradient 0.
    """
    ...


@logsumexp.gradient
def logsumexp_gradient(x: Value, y: Value, dy: Value, *, axes: tuple[int, ...]) -> Value:
    total = with_axes(y, x, axes)
    return with_axes(dy, x, axes) * exp(x - where(equal(total, -inf), 0.0, total))


@op
def variance(x: Value, *, axis: Axis = (), correction: float = 0.0, keepdims: bool = False) -> TensorType:
    """Return the variance along `axis`, or along all axes if empty; `keepdims` keeps them with extent 1.

    The sum of squared distances from the mean is divided by the number of elements less `correction`: 0 is NumPy's
    default, 1 PyTorch's.
    """
    ...


@variance.gradient
def variance_gradient(x: Value, dy: Value, *, axes: tuple[int, ...], correction: float) -> Value:
    return with_axes(dy, x, axes) * _slope(x, axes, correction) * 2.0


@op
def standard_deviation(x: Value, *, axis: Axis = (), correction: float = 0.0, keepdims: bool = False) -> TensorType:
    """Return the square root of `variance` with these attributes; where it is 0, so is the gradient."""
    ...


@standard_deviation.gradient
def standard_deviation_gradient(x: Value, y: Value, dy: Value, *, axes: tuple[int, ...], correction: float) -> Value:
    is_zero = equal(y, 0.0)
    share = where(is_zero, 0.0, dy) / where(is_zero, 1.0, y)
    return with_axes(share, x, axes) * _slope(x, axes, correction)


@op
def norm(x: Value, *, ord: float = 2.0, axis: Axis = (), keepdims: bool = False) -> TensorType:
    """Return the vector norm (sum of |x|**ord)**(1 / ord) along `axis`, or along all axes if empty.

    `keepdims` keeps the axes with extent 1. With ord inf it is the largest |x|, with -inf the smallest, with 0 the
    number of elements that are not 0. The gradient is 0 where x is 0; equal extremes share it evenly.
    """
    ...


@norm.gradient
def norm_gradient(x: Value, y: Value, dy: Value, *, axes: tuple[int, ...], ord: float) -> Value | None:
    if ord == 0:
        return None
    dy, y = with_axes(dy, x, axes), with_axes(y, x, axes)
    if ord == 1:
        return dy * sign(x)
    if ord in (inf, -inf):
        is_extreme = cast(equal(abs(x), y), dtype=x.dtype)
        return dy * (sign(x) * (is_extreme / sum(is_extreme, axis=axes, keepdims=True)))
    size = where(equal(y, 0.0), 1.0, y)
    if ord == 2:
        return dy * (x / size)
    slope = sign(x) * (where(equal(x, 0.0), 1.0, abs(x)) / size) ** (ord - 1.0)
    return dy * (where(equal(y, 0.0), 0.0, slope) if ord < 0 else slope)


def _slope(x: Value, axes: tuple[int, ...], correction: float) -> Value:
    """Return half the gradient of the variance."""
    count = count_like(x, normal_axes(axes, x.rank))
    return (x - mean(x, axis=axes, keepdims=True)) / (count - correction if correction else count)
