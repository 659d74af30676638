"""Copies of the elements: in another dtype, unchanged, or with the gradient cut."""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from prograd_proto.dtypes import DTypeName
from registry.op import op
from registry.value import Value


@op
def cast(x: Value, *, dtype: DTypeName) -> TensorType:
    """The elements in another dtype: floats lose their fraction in integers, bool is whether an element is not 0.

    A float that the integer dtype cannot hold gives an unspecified number. The gradient flows between
    float dtypes and stops at others.
    """
    return TensorType(dtype, x.shape)


@cast.gradient
def cast_gradient(x: Value, dy: Value) -> Value | None:
    return cast(dy, dtype=x.dtype) if x.dtype in dtypes.FLOATS else None


@op
def identity(x: Value) -> TensorType:
    """The tensor itself."""
    return x.type


@identity.gradient
def identity_gradient(dy: Value) -> Value:
    return dy


@op(no_gradient=("x",))
def stop_gradient(x: Value) -> TensorType:
    """The tensor itself, as if it were a constant: no gradient flows back."""
    return x.type


@stop_gradient.inference
def stop_gradient_inference(x: Value) -> Value:
    return x
