"""Rounding to integers and division with a remainder; the gradient of a rounding step is 0."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.ops.reduce import sum_to
from registry.traits import exact, exact_for_integers, idempotent, identity_operands
from registry.value import Operand, Value


@idempotent
@exact
@op(no_gradient=("x",))
def floor(x: Value) -> TensorType:
    """Return the largest integer that is not above x; the gradient is 0 everywhere."""
    ...


@idempotent
@exact
@op(no_gradient=("x",))
def ceil(x: Value) -> TensorType:
    """Return the smallest integer that is not below x; the gradient is 0 everywhere."""
    ...


@idempotent
@exact
@op(no_gradient=("x",))
def round(x: Value) -> TensorType:
    """Return the nearest integer, ties to even; the gradient is 0 everywhere."""
    ...


@idempotent
@exact
@op(no_gradient=("x",))
def trunc(x: Value) -> TensorType:
    """Return x rounded towards 0; the gradient is 0 everywhere."""
    ...


@identity_operands(1, None)
@exact_for_integers
@op(no_gradient=("a", "b"))
def floor_div(a: Operand, b: Operand) -> TensorType:
    """Return the quotient a / b rounded down; an integer divided by 0 gives 0. The gradient is 0 everywhere."""
    ...


@exact_for_integers
@op
def remainder(a: Operand, b: Operand) -> TensorType:
    """Return a - b * floor(a / b), the remainder with the sign of b.

    It is Python's a % b. For integers and b = 0 it is 0.
    """
    ...


@remainder.gradient
def remainder_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(-dy * floor_div(a, b), b)


@exact_for_integers
@op
def fmod(a: Operand, b: Operand) -> TensorType:
    """Return a - b * trunc(a / b), the remainder with the sign of a.

    It is C's fmod, and for integers C's a % b. For integers and b = 0 it is 0.
    """
    ...


@fmod.gradient
def fmod_gradient(a: Value, b: Value, dy: Value) -> tuple[Value, Value]:
    return sum_to(dy, a), sum_to(-dy * trunc(a / b), b)
