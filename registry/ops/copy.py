"""Copies of the elements: in another dtype, unchanged, or with the gradient cut."""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from prograd_proto.dtypes import DTypeName
from registry.op import op
from registry.traits import exact
from registry.value import Value


@exact
@op(halves=True)
def cast(x: Value, *, dtype: DTypeName) -> TensorType:
    """The elements in another dtype: floats lose their fraction in integers, bool is whether an element is not 0.

    A float outside of an integer dtype becomes the nearest integer that the dtype has, and NaN becomes 0. Floats are
    rounded to the nearest one, halves to even, and those beyond the largest become infinite. The gradient flows
    between float dtypes and stops at others.
    """
    return TensorType(dtype, x.shape)


@cast.gradient
def cast_gradient(x: Value, dy: Value) -> Value | None:
    if x.dtype not in dtypes.REALS:
        return None
    return dy if dy.type == x.type.wide else cast(dy, dtype=dtypes.wide(x.dtype))


def widened(x: Value) -> Value:
    """Return the elements to compute with: in float32 those of 16-bit floats, else x itself."""
    return x if x.type == x.type.wide else cast(x, dtype=dtypes.wide(x.dtype))


@exact
@op(halves=True)
def identity(x: Value) -> TensorType:
    """Return the tensor itself."""
    return x.type


@identity.gradient
def identity_gradient(dy: Value) -> Value:
    return dy


@exact
@op(no_gradient=("x",), halves=True)
def stop_gradient(x: Value) -> TensorType:
    """Return the tensor itself, as if it were a constant: no gradient flows back."""
    return x.type


@stop_gradient.inference
def stop_gradient_inference(x: Value) -> Value:
    return x
