"""Traits: facts about an operator, besides its types and gradient, declared above it for passes.

    @exact
    @grows
    @op(halves=True)
    def broadcast_to(x: Value, *, shape: Shape) -> TensorType: ...

The contract of an operator (`runtime.contract`) states the facts that a machine without the registry needs as well: its
effects, whether it is a view, how its rows depend on rows, and the number of its operations.
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
        exact: True if its result has the same bits on every machine, so a compiler may compute it; for operands of any
            dtype, or of integers and bool only.
        grows: True if its result may have many more elements than its operands.
        repeats: True if every element of its result is an element of its operand.
        example: a call for dtype inference, if operands of one shape do not do.
        checked_through: name of the operator through which tests check this one's gradient, because it takes a result
            of that operator.
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


def example(*shapes: Shape, **attributes: Attribute) -> Callable[[T], T]:
    """Declare a call that inference accepts: operands of these shapes, and attributes without a default."""
    return lambda op: _with(op, example=Example(shapes, attributes))


def checked_through(layer: str) -> Callable[[T], T]:
    """Declare that tests check this operator's gradient through another one, whose result it takes."""
    return lambda op: _with(op, checked_through=layer)


def _with(op: T, **traits: Any) -> T:
    op.traits = replace(op.traits, **traits)
    return op
