"""Whole numbers: rounding, division with a remainder. All have steps; between them the gradient of a step is 0."""

from __future__ import annotations

from prograd_proto import TensorType, dtypes
from registry.op import op
from registry.ops.reduce import sum_to
from registry.shapes import broadcast_type, require_float
from registry.traits import exact, exact_for_integers
from registry.value import Operand, Value

NUMERIC = dtypes.FLOATS | dtypes.INTEGERS


@exact
@op(no_gradient=("x",))
def floor(x: Value) -> TensorType:
    """Return the largest whole number that is not above x; the gradient is 0 everywhere."""
    require_float(x)
    return x.type


@exact
@op(no_gradient=("x",))
def ceil(x: Value) -> TensorType:
    """Return the smallest whole number that is not below x; the gradient is 0 everywhere."""
    require_float(x)
    return x.type


@exact
@op(no_gradient=("x",))
def round(x: Value) -> TensorType:
    """Return the nearest whole number, of two equally near ones the even one; the gradient is 0 everywhere."""
    require_float(x)
    return x.type


@exact
@op(no_gradient=("x",))
def trunc(x: Value) -> TensorType:
    """Return the whole number next to x towards 0; the gradient is 0 everywhere."""
    require_float(x)
    return x.type


@exact_for_integers
@op(no_gradient=("a", "b"))
def floor_div(a: Operand, b: Operand) -> TensorType:
    """Return the quotient a / b rounded down; an integer divided by 0 gives 0. The gradient is 0 everywhere."""
    return broadcast_type(a, b, among=NUMERIC)


@exact_for_integers
@op
def remainder(a: Operand, b: Operand) -> TensorType:
    """Return the rest of the division that rounds down, a - b * floor(a / b), with the sign of b.

    It is Python's a % b. For integers and b = 0 it is 0.
    """
    return broadcast_type(a, b, among=NUMERIC)


@remainder.gradient
def remainder_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(-dy * floor_div(a, b), b)


@exact_for_integers
@op
def fmod(a: Operand, b: Operand) -> TensorType:
    """Return the rest of the division that rounds towards 0, a - b * trunc(a / b), with the sign of a.

    It is C's fmod, for integers C's a % b. For integers and b = 0 it is 0.
    """
    return broadcast_type(a, b, among=NUMERIC)


@fmod.gradient
def fmod_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(-dy * trunc(a / b), b)
