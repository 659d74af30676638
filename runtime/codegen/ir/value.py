"""A value and its operators: `a * b + 1` writes two instructions.

A number takes the type of the value beside it, and a scalar is broadcast to the lanes of a vector beside it. Arithmetic
on numbers that are known while the IR is written needs no instruction: an index plus 0 is the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, isfinite
from typing import TYPE_CHECKING

from runtime.codegen.ir.types import MASK, Type

if TYPE_CHECKING:
    from runtime.codegen.ir.function import Function


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """The result of an instruction, an argument or a constant.

    Attributes:
        text: its name or number as LLVM spells it.
        type: its type.
        function: the function that defines it and may use it.
        known: its number, if it is a constant.
        multiple: a number that divides it, for an index: vectors begin at multiples of their lanes.
    """

    text: str
    type: Type
    function: Function
    known: float | None = None
    multiple: int = 1

    @property
    def element(self) -> Type:
        """The type of the elements at an address."""
        assert self.type.element is not None, f"{self.type} is no pointer"
        return self.type.element

    def __add__(self, other: Operand) -> Value:
        if self.type.element is not None:
            return self.function.address(self, other)
        if not self.type.is_float and _is(other, 0):
            return self
        return self._of_multiple(self._arithmetic("add", other), gcd(self.multiple, _multiple(other)))

    def __sub__(self, other: Operand) -> Value:
        if not self.type.is_float and _is(other, 0):
            return self
        return self._arithmetic("sub", other)

    def __mul__(self, other: Operand) -> Value:
        if _is(other, 1):
            return self
        return self._of_multiple(self._arithmetic("mul", other), self.multiple * _multiple(other))

    def __truediv__(self, other: Operand) -> Value:
        assert self.type.is_float, f"/ of {self.type}"
        return self if _is(other, 1) else self._arithmetic("div", other)

    def __radd__(self, other: Operand) -> Value:
        return self + other

    def __rmul__(self, other: Operand) -> Value:
        return self * other

    def __rsub__(self, other: Operand) -> Value:
        return self.like(other) - self

    def __rtruediv__(self, other: Operand) -> Value:
        return self.like(other) / self

    def __floordiv__(self, other: Operand) -> Value:
        """Divide non-negative integers."""
        assert not self.type.is_float, f"// of {self.type}"
        return self if _is(other, 1) else self._binary("udiv", other)

    def __mod__(self, other: Operand) -> Value:
        """Return the remainder of non-negative integers."""
        assert not self.type.is_float, f"% of {self.type}"
        return self._binary("urem", other)

    def __neg__(self) -> Value:
        if self.type.is_float:
            return self.function.emit(f"fneg {self.type} {self.text}", self.type)
        return 0 - self

    def __and__(self, other: Operand) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._binary("xor", other)

    def __invert__(self) -> Value:
        return self ^ (1 if self.type.kind == "mask" else -1)

    def __lshift__(self, other: Operand) -> Value:
        return self if _is(other, 0) else self._binary("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        if _is(other, 0):
            return self
        return self._binary("ashr" if self.type.kind == "signed" else "lshr", other)

    def __lt__(self, other: Operand) -> Value:
        return self._compare("lt", other)

    def __le__(self, other: Operand) -> Value:
        return self._compare("le", other)

    def __gt__(self, other: Operand) -> Value:
        return self._compare("gt", other)

    def __ge__(self, other: Operand) -> Value:
        return self._compare("ge", other)

    def equal(self, other: Operand) -> Value:
        """Return a mask of the lanes in which both are equal; NaN is equal to nothing."""
        return self._compare("eq", other)

    def not_equal(self, other: Operand) -> Value:
        """Return a mask of the lanes in which both differ; NaN differs from everything."""
        return self._compare("ne", other)

    def like(self, other: Operand) -> Value:
        """Return a number or a scalar in the type of this value."""
        if not isinstance(other, Value):
            return self.function.constant(self.type, other)
        if self.type.lanes and not other.type.lanes:
            return self.function.splat(other, self.type.lanes)
        return other

    def _arithmetic(self, name: str, other: Operand) -> Value:
        if self.type.is_float:
            return self._binary(f"f{name}", other)
        return self._binary(name, other)

    def _of_multiple(self, value: Value, multiple: int) -> Value:
        """Return the new value with its known divisor; 0 is a multiple of everything."""
        if multiple == 1 or self.type.is_float or self.type.lanes:
            return value
        return Value(value.text, value.type, value.function, value.known, multiple or 1)

    def _pair(self, other: Operand) -> tuple[Value, Value]:
        right = self.like(other)
        left = right.like(self)
        assert left.type == right.type, f"{left.type} beside {right.type}"
        return left, right

    def _binary(self, instruction: str, other: Operand) -> Value:
        a, b = self._pair(other)
        return self.function.emit(f"{instruction} {a.type} {a.text}, {b.text}", a.type)

    def _compare(self, relation: str, other: Operand) -> Value:
        a, b = self._pair(other)
        if a.type.is_float:
            instruction = f"fcmp {'une' if relation == 'ne' else f'o{relation}'}"
        elif relation in ("eq", "ne"):
            instruction = f"icmp {relation}"
        else:
            instruction = f"icmp {'s' if a.type.kind == 'signed' else 'u'}{relation}"
        return self.function.emit(f"{instruction} {a.type} {a.text}, {b.text}", MASK.of(a.type.lanes))


Operand = Value | int | float
"""A value, or a number that takes the type of the value beside it."""

Index = Value | int
"""A number of elements, as a value or as a number that is known while the IR is written."""


def _multiple(operand: Operand) -> int:
    number = operand.known if isinstance(operand, Value) else operand
    if number is None:
        return operand.multiple if isinstance(operand, Value) else 1
    return int(number) if isfinite(number) and number == int(number) else 1


def _is(operand: Operand, number: int) -> bool:
    known = operand.known if isinstance(operand, Value) else operand
    return known == number
