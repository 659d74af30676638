"""Loops over the taps below a window, or over output positions, that carry values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import maximum, minimum
from runtime.codegen.kernels.conv.filter_plan import FilterAxis

MAX_UNROLLED_TAPS: Final = 16
"""Number of taps up to which a loop over them is unrolled."""

Bounds = tuple[Index, Index]
"""The first tap, position or pixel of an axis, and the one after the last."""


class Fold:
    """A loop over rows and columns that carries values; few known iterations are unrolled.

        fold = Fold(f, rows, columns, [total])
        for i, j, [total] in fold:
            fold.carry([total + seen(i, j)])
        [total] = fold.results

    Attributes:
        results: values of the last iteration.
    """

    def __init__(self, f: Function, rows: Bounds, columns: Bounds, carry: Sequence[Value] = ()) -> None:
        self._f, self._rows, self._columns = f, rows, columns
        self.results = list(carry)

    def carry(self, values: list[Value]) -> None:
        """Pass the values to the next iteration."""
        self.results = values

    def __iter__(self) -> Iterator[tuple[Index, Index, list[Value]]]:
        known = [range(a, b) for a, b in (self._rows, self._columns) if isinstance(a, int) and isinstance(b, int)]
        most = 1 if self._f.target.is_compact else MAX_UNROLLED_TAPS
        if len(known) == 2 and len(known[0]) * len(known[1]) <= most:
            for i, j in product(*known):
                yield i, j, self.results
            return
        outer = self._f.loop(*self._rows, 1, self.results)
        for i, carried in outer:
            inner = self._f.loop(*self._columns, 1, carried)
            for j, values in inner:
                self.results = values
                yield i, j, values
                inner.carry(self.results)
            outer.carry(inner.results)
        self.results = outer.results


def is_inside(side: FilterAxis) -> bool:
    """Return True if no window extends beyond the image."""
    return not side.before and (side.pixels - 1) * side.stride + side.window <= side.source


def inside(f: Function, side: FilterAxis, pixel: Index) -> Bounds:
    """Return the taps at an output position that are inside of the image."""
    if is_inside(side):
        return 0, side.window
    begin = f.index(pixel) * side.stride - side.before
    return maximum(0 - begin, 0), minimum(side.source - begin, side.window)


def seeing(f: Function, side: FilterAxis, pixel: Index) -> Bounds:
    """Return the output positions at which some tap sees a pixel."""
    at = f.index(pixel) + side.before
    first = maximum(at - (side.window - side.stride), 0) // side.stride
    return first, maximum(minimum(at // side.stride + 1, side.pixels), first)
