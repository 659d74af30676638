"""What a recurrent layer is, and how its work is divided: stages are time steps, units panels of its states.

A panel has vectors of states, and the gates that belong to them: what a cell needs of a product is made by one unit.
Its vectors of weights lie in pairs, as the product takes them: so a pair of all depths stays in the nearest cache.
"""

from __future__ import annotations

from typing import NamedTuple

from runtime.engines.native.forms.stages import Work
from runtime.engines.native.ir import Function, Index, Type, Value


class Layer(NamedTuple):
    """A recurrent layer.

    Attributes:
        element: of all tensors but the mask.
        rows: of the batch.
        times: how many steps.
        states: of a row.
        gates: how many vectors of preactivations belong to one of states.
        reverse: whether the last step is the first one.
        lanes: of a vector.
        rate: multiply-adds in a nanosecond.
    """

    element: Type
    rows: int
    times: int
    states: int
    gates: int
    reverse: bool
    lanes: int
    rate: float

    @property
    def vector(self) -> Type:
        """Of states."""
        return self.element.of(self.lanes)

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return self.element.bits // 8

    @property
    def wide(self) -> int:
        """Preactivations of a row."""
        return self.gates * self.states

    @property
    def beside(self) -> int:
        """Vectors of states in a panel: so many that pairs come out even, if there are that many."""
        return min(1 if self.gates % 2 == 0 else 2, -(-self.states // self.lanes))

    @property
    def width(self) -> int:
        """States of a panel."""
        return self.beside * self.lanes

    @property
    def panels(self) -> int:
        """Of all states."""
        return -(-self.states // self.width)

    @property
    def pairs(self) -> list[int]:
        """How many vectors of weights each pair has: the last may have one."""
        vectors = self.beside * self.gates
        return [min(2, vectors - first) for first in range(0, vectors, 2)]

    @property
    def panel_size(self) -> int:
        """Elements of a panel of weights."""
        return self.states * self.beside * self.gates * self.lanes

    @property
    def sums_size(self) -> int:
        """Elements of what the product of a panel gives."""
        return self.rows * self.beside * self.gates * self.lanes

    @property
    def apart(self) -> int:
        """Elements from row to row of copies of states: a little more than a power of two."""
        return self.states + self.lanes

    @property
    def wide_apart(self) -> int:
        """Likewise, of copies of preactivations."""
        return self.wide + self.lanes

    @property
    def cost(self) -> float:
        """Nanoseconds of the product of a step, and of the cells."""
        return self.rows * self.wide * (self.states / self.rate + 0.4)

    def time(self, f: Function, step: Value, backwards: bool = False) -> Value:
        """The position of a step, counted from the one that is computed first."""
        return f.index(self.times - 1) - step if self.reverse != backwards else step


def address(work: Work, number: int) -> Value:
    """Of an operand that is there."""
    x = work.inputs[number]
    assert x is not None, "only a mask is optional"
    return x


def hides(work: Work, number: int, layer: Layer, row: Index, time: Index) -> Value | None:
    """Whether a step of a row does not count, alone; None without a mask."""
    mask = work.inputs[number] if number < len(work.inputs) else None
    return None if mask is None else work.f.load(mask, row * layer.times + time).equal(0)
