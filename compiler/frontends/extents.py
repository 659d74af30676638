"""Extents of axes while a program is imported: products of a number and of symbols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd, prod
from typing import NamedTuple

from compiler.errors import CompileError


class Extent(NamedTuple):
    """The extent of an axis, such as 49 * batch: a number and the symbols that multiply it, in alphabetical order."""

    number: int
    symbols: tuple[str, ...] = ()

    @staticmethod
    def of(extent: int | str) -> Extent:
        """Return an extent of a tensor's shape as a product."""
        return Extent(1, (extent,)) if isinstance(extent, str) else Extent(int(extent))

    def __str__(self) -> str:
        factors = [str(self.number)] if self.number != 1 or not self.symbols else []
        return " * ".join([*factors, *self.symbols])

    @property
    def is_plain(self) -> bool:
        """True for a number or a single symbol, which a shape can state."""
        return not self.symbols or (self.number == 1 and len(self.symbols) == 1)

    def plain(self) -> int | str:
        """Return the extent as a shape states it; raise CompileError for a product with a symbol."""
        if not self.is_plain:
            raise CompileError(
                f"an axis would have {self} elements, which no shape can state; import the module without "
                f"the symbol {self.symbols[-1]!r}"
            )
        return self.symbols[0] if self.symbols else self.number

    def known(self) -> int:
        """Return the number of elements; raise CompileError if it depends on a symbol."""
        if self.symbols:
            raise CompileError(
                f"an axis with {self} elements must have a number here; import the module without the symbol "
                f"{self.symbols[-1]!r}"
            )
        return self.number

    def bound(self, sizes: Mapping[str, int]) -> int:
        """Return the number of elements for these sizes of the symbols."""
        return prod([self.number, *(sizes[symbol] for symbol in self.symbols)])

    def times(self, other: Extent) -> Extent:
        """Return the product of two extents."""
        return Extent(self.number * other.number, tuple(sorted((*self.symbols, *other.symbols))))

    def over(self, other: Extent) -> Extent | None:
        """Return the quotient of two extents; None if it is no product."""
        left = list(self.symbols)
        for symbol in other.symbols:
            if symbol not in left:
                return None
            left.remove(symbol)
        if other.number == 0 or self.number % other.number:
            return None
        return Extent(self.number // other.number, tuple(left))

    def common(self, other: Extent) -> Extent:
        """Return the greatest common divisor of two extents."""
        left, shared = list(other.symbols), list[str]()
        for symbol in self.symbols:
            if symbol in left:
                left.remove(symbol)
                shared.append(symbol)
        return Extent(gcd(self.number, other.number), tuple(shared))


ONE = Extent(1)


def product(extents: Iterable[Extent]) -> Extent:
    """Return the product of extents; 1 if there are none."""
    made = ONE
    for extent in extents:
        made = made.times(extent)
    return made


def factored(shape: Sequence[Extent]) -> list[list[Extent]]:
    """Return for each extent of a shape its factors: the symbol and the number of a product such as 2 * batch."""
    return [[e] if e.is_plain else [Extent(1, e.symbols), Extent(e.number)] for e in shape]


def refined(a: Sequence[Extent], b: Sequence[Extent]) -> list[Extent] | None:
    """Return factors that refine two factorisations of one extent in row-major order; None if there are none.

    (batch, 4) and (batch, 2, 2) give (batch, 2, 2); (6, 4) and (4, 6) have none.
    """
    left, right, made = list(a), list(b), list[Extent]()
    while left and right:
        shared = left[0].common(right[0])
        here, there = left[0].over(shared), right[0].over(shared)
        if here is None or there is None or (here != ONE and there != ONE):
            return None
        made.append(shared)
        # the last factor varies fastest, so a split takes the slow part first
        left[:1] = [] if here == ONE else [here]
        right[:1] = [] if there == ONE else [there]
    return made if not left and not right else None
