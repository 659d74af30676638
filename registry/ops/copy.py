"""Copies of the elements: in another dtype, unchanged, or without a gradient."""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from prograd_proto.dtypes import DTypeName
from registry.op import op
from registry.traits import copies, exact
from registry.value import Value


@copies
@exact
@op
def cast(x: Value, *, dtype: DTypeName) -> TensorType:
    """Return x in another dtype: float to integer truncates, and bool is True where an element is not 0.

    A float outside the range of an integer dtype becomes the nearest integer of the dtype, and NaN becomes 0. Floats
    are rounded to nearest, ties to even, and those beyond the largest become infinite. The gradient flows between float
    dtypes and stops at others.
    """
    ...


@cast.gradient
def cast_gradient(x: Value, dy: Value) -> Value | None:
    if x.dtype not in dtypes.REALS:
        return None
    return dy if dy.type == x.type.wide else cast(dy, dtype=dtypes.wide(x.dtype))


def widened(x: Value) -> Value:
    """Return x in the dtype that it is computed in: 16-bit floats in float32, all else as it is."""
    return x if x.type == x.type.wide else cast(x, dtype=dtypes.wide(x.dtype))


def as_factor(dy: Value, x: Value) -> Value:
    """Return the gradient of a result as a factor beside `x`: rounded once where `x` is bfloat16."""
    return dy if dy.dtype == x.dtype else cast(dy, dtype=x.dtype)


@exact
@op(differentiable=False)
def bitcast(x: Value) -> TensorType:
    """Return the bits of floats as integers of as many bits, those of integers as floats, and bool as uint8."""
    ...


@copies
@exact
@op
def identity(x: Value) -> TensorType:
    """Return x unchanged."""
    ...


@identity.gradient
def identity_gradient(dy: Value) -> Value:
    return dy


@copies
@exact
@op(no_gradient=("x",))
def stop_gradient(x: Value) -> TensorType:
    """Return x as a constant: no gradient flows back."""
    ...


@stop_gradient.inference
def stop_gradient_inference(x: Value) -> Value:
    return x
