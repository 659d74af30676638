"""Traits: facts about an operator, besides its types and gradient, declared above it for passes.

    @exact
    @grows
    @op
    def broadcast_to(x: Value, *, shape: Shape) -> TensorType: ...

The contract of an operator (`runtime.contract`) states the facts that a machine without the registry needs as well: its
effects, whether it is a view, how its rows depend on rows, and the number of its operations.

To add a trait:

1. A field of `Traits` in `registry/traits.py` with its docstring, and the decorator that sets it.
2. The decorator at the declarations that have the trait, and the passes that read it: `find_op(op.type).traits`.
   Operators of plugins use the same decorator.
3. A fact that the runtime needs as well is a field of `Contract` in `runtime/contract.py`, set by an argument of
   `@kernel`, because `runtime` does not import the registry. A test finds tables of operator names outside of
   declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, TypeVar

from prograd_proto import Attribute
from prograd_proto.tensor_types import Shape


@dataclass(frozen=True)
class Example:
    """A call that the operator's inference accepts: shapes of the operands, and attributes without a default."""

    shapes: tuple[Shape, ...]
    attributes: dict[str, Attribute]


@dataclass(frozen=True)
class IdentityOperand:
    """An identity element: an op with this number as one of two operands returns the other one, with equal bits.

    Attributes:
        number: the number, for operands of bool and integer dtypes.
        floats: the number for floats, with the sign of a zero; None if floats have none.
        either: True if it may be either operand; otherwise it is the second one.
    """

    number: float
    floats: float | None
    either: bool


@dataclass(frozen=True)
class Traits:
    """The traits of an operator.

    Attributes:
        exact: True if its result has the same bits on every machine, so a compiler may compute it; for operands of any
            dtype, or of integers and bool only.
        grows: True if its result may have many more elements than its operands.
        repeats: True if every element of its result is an element of its operand.
        copies: True if the result is the operand, bit by bit, wherever both have the same type.
        idempotent: True if f(f(x)) has the bits of f(x).
        involution: True if f(f(x)) has the bits of x.
        keeps_single: True if the result has the bits of the operand whenever all reduced axes, in the attribute `axes`,
            have extent 1; for operands of any dtype, or of integers and bool only.
        lowered: names of the operands that mixed precision rounds to bfloat16.
        follows: names of the operands that may be rounded to bfloat16 with the first result, which has as many digits.
        stops: True if the elements of its operands may stop the run, such as an index that is out of range.
        identity_operand: the number that leaves the other operand as it is.
        example: a call for dtype inference, if operands of one shape do not do.
        checked_through: name of the operator through which tests check this one's gradient, because it takes a result
            of that operator.
    """

    exact: Literal["", "always", "for integers"] = ""
    grows: bool = False
    repeats: bool = False
    copies: bool = False
    idempotent: bool = False
    involution: bool = False
    keeps_single: Literal["", "always", "for integers"] = ""
    lowered: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    stops: bool = False
    identity_operand: IdentityOperand | None = None
    example: Example | None = None
    checked_through: str = ""


class HasTraits(Protocol):
    """An operator."""

    traits: Traits


T = TypeVar("T", bound=HasTraits)


def exact(op: T) -> T:
    """Declare that IEEE 754, integer arithmetic or copying fixes the bits of the result."""
    return _with(op, exact="always")


def exact_for_integers(op: T) -> T:
    """Declare an operator exact for integers and bool; floats are summed, or 0.0 and -0.0 compared."""
    return _with(op, exact="for integers")


def grows(op: T) -> T:
    """Declare that the result may have many more elements than the operands."""
    return _with(op, grows=True)


def repeats(op: T) -> T:
    """Declare that every element of the result is an element of the operand."""
    return _with(op, repeats=True)


def copies(op: T) -> T:
    """Declare that the result is the operand wherever both have the same type."""
    return _with(op, copies=True)


def idempotent(op: T) -> T:
    """Declare that applying the operator to its own result gives equal bits, also for NaN and -0.0."""
    return _with(op, idempotent=True)


def involution(op: T) -> T:
    """Declare that applying the operator twice gives the bits of the operand, also for NaN and -0.0."""
    return _with(op, involution=True)


def keeps_single(op: T) -> T:
    """Declare that reducing single elements gives their bits."""
    return _with(op, keeps_single="always")


def keeps_single_integers(op: T) -> T:
    """Declare that reducing single integers gives their bits; for floats, 0.0 + -0.0 is 0.0."""
    return _with(op, keeps_single="for integers")


def stops(op: T) -> T:
    """Declare that the elements of the operands may stop the run, such as an index that is out of range."""
    return _with(op, stops=True)


def lowered(*operands: str) -> Callable[[T], T]:
    """Declare the operands that mixed precision rounds: those of products, whose sums stay float32."""
    return lambda op: _with(op, lowered=operands)


def follows(*operands: str) -> Callable[[T], T]:
    """Declare the operands that mixed precision may read from bfloat16; the first result is as narrow as they are."""
    return lambda op: _with(op, follows=operands)


def identity_operand(number: float, *, either: bool = False) -> Callable[[T], T]:
    """Declare the identity element.

    The other operand keeps its bits if the second operand, or either one, has this number everywhere.
    """
    return lambda op: _with(op, identity_operand=IdentityOperand(number, number, either))


def identity_operands(integers: float, floats: float | None, *, either: bool = False) -> Callable[[T], T]:
    """Declare as `identity_operand` does, with numbers for integers and for floats; None if floats have none."""
    return lambda op: _with(op, identity_operand=IdentityOperand(integers, floats, either))


def example(*shapes: Shape, **attributes: Attribute) -> Callable[[T], T]:
    """Declare a call that inference accepts: operands of these shapes, and attributes without a default."""
    return lambda op: _with(op, example=Example(shapes, attributes))


def checked_through(layer: str) -> Callable[[T], T]:
    """Declare that tests check this operator's gradient through another one, whose result it takes."""
    return lambda op: _with(op, checked_through=layer)


def _with(op: T, **traits: Any) -> T:
    op.traits = replace(op.traits, **traits)
    return op
