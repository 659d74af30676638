"""Exclusive or, bitwise operations on integers, and tests for NaN and infinities; without gradient."""

from __future__ import annotations

from prograd_proto import TensorType
from registry.op import op
from registry.traits import exact, identity_operand, involution
from registry.value import Operand, Value


@identity_operand(0, either=True)
@exact
@op(differentiable=False)
def logical_xor(a: Operand, b: Operand) -> TensorType:
    """Return True where exactly one operand is true; bool only."""
    ...


@exact
@op(differentiable=False)
def bitwise_and(a: Operand, b: Operand) -> TensorType:
    """Return the bits that are set in both integers, in two's complement."""
    ...


@identity_operand(0, either=True)
@exact
@op(differentiable=False)
def bitwise_or(a: Operand, b: Operand) -> TensorType:
    """Return the bits that are set in either integer, in two's complement."""
    ...


@identity_operand(0, either=True)
@exact
@op(differentiable=False)
def bitwise_xor(a: Operand, b: Operand) -> TensorType:
    """Return the bits that are set in exactly one of the integers, in two's complement."""
    ...


@involution
@exact
@op(differentiable=False)
def bitwise_not(x: Value) -> TensorType:
    """Return the bits that are not set in an integer: -x - 1, or 255 - x for uint8."""
    ...


@identity_operand(0)
@exact
@op(differentiable=False)
def left_shift(a: Operand, b: Operand) -> TensorType:
    """Return the integer a with its bits shifted up by b positions.

    The result is 0 if b is negative or shifts all bits out.
    """
    ...


@identity_operand(0)
@exact
@op(differentiable=False)
def right_shift(a: Operand, b: Operand) -> TensorType:
    """Return the integer a with its bits shifted down by b positions; the sign is kept.

    The result is 0, or -1 for negative a, if b is negative or shifts all bits out.
    """
    ...


@op(differentiable=False)
def isnan(x: Value) -> TensorType:
    """Return True where x is NaN; floats only."""
    ...


@exact
@op(differentiable=False)
def isinf(x: Value) -> TensorType:
    """Return True where x is infinite, of either sign; floats only."""
    ...


@exact
@op(differentiable=False)
def isfinite(x: Value) -> TensorType:
    """Return True where x is neither infinite nor NaN; floats only."""
    ...
