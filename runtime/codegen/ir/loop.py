"""Loops over indices, and loops while a condition holds; both carry values between iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import TYPE_CHECKING

from runtime.codegen.ir.types import INT64
from runtime.codegen.ir.value import Index, Value

if TYPE_CHECKING:
    from runtime.codegen.ir.function import Function


class Loop:
    """A loop, and the values that it carries between iterations.

        loop = f.loop(0, n, 16, carry=[total])
        for i, [total] in loop:
            loop.carry([total + f.load(x, i, lanes=16)])
        [total] = loop.results

    Attributes:
        results: values of the last iteration, or the initial values if there is none.
    """

    def __init__(
        self, function: Function, start: Index, stop: Index, step: int, carry: Sequence[Value], is_nonempty: bool
    ) -> None:
        self._f, self._start, self._stop, self._step, self._is_nonempty = function, start, stop, step, is_nonempty
        self.results = list(carry)
        self._carried = False

    def carry(self, values: Sequence[Value]) -> None:
        """Pass the values to the next iteration."""
        assert [v.type for v in values] == [v.type for v in self.results], "a loop carries the types that it began with"
        self.results, self._carried = list(values), True

    def __iter__(self) -> Iterator[tuple[Index, list[Value]]]:
        if not isinstance(self._start, int) or not isinstance(self._stop, int):
            yield from self._tested_at_bottom() if self._is_nonempty else self._tested_at_top()
        elif self._start + self._step < self._stop:
            yield from self._tested_at_bottom()
        elif self._start < self._stop:
            yield self._start, list(self.results)
            self._check()

    def _tested_at_bottom(self) -> Iterator[tuple[Index, list[Value]]]:
        f, before, top, after = self._f, self._f.block, self._f.label(), self._f.label()
        f.line(f"br label %{top}")
        f.begin(top)
        i, inside, indices = self._phis()
        first = self.results
        yield i, inside
        self._check()
        following = i + self._step
        again = following < f.index(self._stop)
        latch = f.block
        f.line(f"br i1 {again.text}, label %{top}, label %{after}")
        self._put(indices, [i, *inside], [f.index(self._start), *first], before, [following, *self.results], latch)
        f.begin(after)

    def _tested_at_top(self) -> Iterator[tuple[Index, list[Value]]]:
        f, before, top, body, after = self._f, self._f.block, self._f.label(), self._f.label(), self._f.label()
        f.line(f"br label %{top}")
        f.begin(top)
        i, inside, indices = self._phis()
        first = self.results
        goes_on = i < f.index(self._stop)
        f.line(f"br i1 {goes_on.text}, label %{body}, label %{after}")
        f.begin(body)
        yield i, list(inside)
        self._check()
        following = i + self._step
        latch = f.block
        f.line(f"br label %{top}")
        self._put(indices, [i, *inside], [f.index(self._start), *first], before, [following, *self.results], latch)
        f.begin(after)
        self.results = inside

    def _phis(self) -> tuple[Value, list[Value], list[int]]:
        values = [Value(f"%{self._f.label()}", v.type, self._f) for v in self.results]
        begin = self._start.multiple if isinstance(self._start, Value) else self._start
        i = Value(f"%{self._f.label()}", INT64, self._f, multiple=gcd(begin, self._step))
        return i, values, [self._f.reserve() for _ in [i, *values]]

    def _put(
        self, indices: list[int], phis: list[Value], first: list[Value], before: str, following: list[Value], latch: str
    ) -> None:
        for index, phi, a, b in zip(indices, phis, first, following, strict=True):
            text = f"phi {phi.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]"
            self._f.put(index, f"  {phi.text} = {text}")

    def _check(self) -> None:
        assert self._carried or not self.results, "the body does not hand on what the loop carries"


class Repetition:
    """A loop with at least one iteration, which continues while a condition holds.

        loop = f.repeat([rest, left])
        for rest, left in loop:
            loop.carry([rest - step, left - 1], any_lane(left > 1))
        rest, left = loop.results

    Attributes:
        results: values of the last iteration.
    """

    def __init__(self, function: Function, carry: Sequence[Value]) -> None:
        self._f = function
        self.results = list(carry)
        self._again: Value | None = None

    def carry(self, values: Sequence[Value], again: Value) -> None:
        """Pass the values on; there is another iteration if the scalar condition `again` holds."""
        assert [v.type for v in values] == [v.type for v in self.results], "a loop carries the types that it began with"
        self.results, self._again = list(values), again

    def __iter__(self) -> Iterator[list[Value]]:
        f, before, top, after = self._f, self._f.block, self._f.label(), self._f.label()
        f.line(f"br label %{top}")
        f.begin(top)
        inside = [Value(f"%{f.label()}", value.type, f) for value in self.results]
        indices = [f.reserve() for _ in inside]
        first = self.results
        yield inside
        assert self._again is not None, "the body does not say whether there is another iteration"
        latch = f.block
        f.line(f"br i1 {self._again.text}, label %{top}, label %{after}")
        for index, phi, a, b in zip(indices, inside, first, self.results, strict=True):
            f.put(index, f"  {phi.text} = phi {phi.type} [ {a.text}, %{before} ], [ {b.text}, %{latch} ]")
        f.begin(after)


class Endless:
    """A loop without a count; values that change between iterations are in memory."""

    def __init__(self, function: Function, after: str) -> None:
        self._f, self._after = function, after

    def end_if(self, condition: Value) -> None:
        """Leave the loop here if a scalar condition holds."""
        goes_on = self._f.label()
        self._f.line(f"br i1 {condition.text}, label %{self._after}, label %{goes_on}")
        self._f.begin(goes_on)
