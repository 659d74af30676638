"""What passes ask of an operator besides its types and gradient: traits, said above its declaration.

    @exact
    @grows
    @op(halves=True)
    def broadcast_to(x: Value, *, shape: Shape) -> TensorType: ...

What an op costs is a rule, attached by `Op.cost`.
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
class Traits:
    """The traits of an operator.

    Attributes:
        exact: its result has the same bits on every machine, for operands of any dtype or of integers and bool only;
            so a compiler may compute it.
        grows: its result may have many more elements than its operands.
        repeats: its result has no element that its operand has not.
        example: a call to learn from where operands of one shape do not do.
        checked_through: the operator through which its own gradient is checked, because it takes a result of that.
    """

    exact: Literal["", "always", "for integers"] = ""
    grows: bool = False
    repeats: bool = False
    example: Example | None = None
    checked_through: str = ""


class HasTraits(Protocol):
    """An operator."""

    traits: Traits


T = TypeVar("T", bound=HasTraits)


def exact(op: T) -> T:
    """IEEE 754 or the arithmetic of integers fixes the bits of the result, or they are those of operands."""
    return _with(op, exact="always")


def exact_for_integers(op: T) -> T:
    """As `exact`, but where floats are added up, or either of 0.0 and -0.0 may be chosen, machines differ."""
    return _with(op, exact="for integers")


def grows(op: T) -> T:
    """Return the result may have many more elements than the operands."""
    return _with(op, grows=True)


def repeats(op: T) -> T:
    """Return the result has no element that the operand has not."""
    return _with(op, repeats=True)


def example(*shapes: Shape, **attributes: Attribute) -> Callable[[T], T]:
    """Operands of these shapes, with these attributes besides the defaults, are a call that inference accepts."""
    return lambda op: _with(op, example=Example(shapes, attributes))


def checked_through(layer: str) -> Callable[[T], T]:
    """Return the tests check this operator's gradient through another one, whose result it takes as an operand."""
    return lambda op: _with(op, checked_through=layer)


def _with(op: T, **traits: Any) -> T:
    op.traits = replace(op.traits, **traits)
    return op
