"""Symbols of an export: PyTorch's expressions of sizes as extents."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compiler.errors import CompileError
from compiler.frontends.arranged import Arranged, arranged
from compiler.frontends.extents import ONE, Extent
from compiler.frontends.pieces import number_of
from registry import Block, Value


@dataclass(frozen=True)
class Sizes:
    """The symbols of an export.

    Attributes:
        names: our symbols by those of PyTorch.
        sizes: sizes of our symbols, for each trial in which constants are computed.
        known: by PyTorch's symbol of a number of data, the number, which only constants determine.
        rows: by such a symbol, the number of all rows from which a mask picks this many.
        most: the largest sizes for which constants were found to hold.
        above_one: our symbols for whose size 1 the module does something else.
    """

    names: Mapping[str, str]
    sizes: Sequence[Mapping[str, int]]
    known: dict[str, int] = field(default_factory=dict[str, int])
    rows: dict[str, Extent] = field(default_factory=dict[str, Extent])
    most: list[int] = field(default_factory=list[int])
    above_one: set[str] = field(default_factory=set[str])

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.sizes)

    def shape(self, extents: Sequence[Any]) -> tuple[Extent, ...]:
        """Return the extents of a shape; raise CompileError for a size that is no product."""
        return tuple(map(self.extent, extents))

    def extent(self, size: Any) -> Extent:
        """Return a size as an extent; raise CompileError if it is no product of a number and symbols."""
        expression = _expression(size)
        if isinstance(expression, int):
            return Extent(expression)
        made = ONE
        for factor in expression.args if expression.is_Mul else (expression,):
            made = made.times(self.factor(factor, expression))
        return made

    def value(self, size: Any) -> Any:
        """Return a size as an extent, or as a number if it is not an extent, such as a float."""
        if isinstance(size, float | bool):
            return size
        expression = _expression(size)
        of_data = {str(symbol) for symbol in getattr(expression, "free_symbols", ())} - {*self.names, *self.known}
        if _is_product(size) and not of_data:
            return self.extent(size)
        return Unsized(str(size), None if of_data or not _is_polynomial(expression) else expression, self)

    def learn(self, size: Any, numbers: Sequence[int]) -> None:
        """Note the number of a symbol of data that constants determine, if it is equal in all trials."""
        expression = _expression(size)
        if getattr(expression, "is_Symbol", False) and str(expression) not in self.names and len({*numbers}) == 1:
            self.known[str(expression)] = int(numbers[0])

    def pick(self, size: Any, extent: Extent) -> None:
        """Note the number of all rows of which a mask picks as many as a symbol of data."""
        self.rows[str(_expression(size))] = extent

    def factor(self, factor: Any, whole: Any = None) -> Extent:
        """Return a number or a symbol as an extent; raise CompileError for another factor of `whole`."""
        if factor.is_Integer:
            return Extent(int(factor))
        if factor.is_Symbol and str(factor) in self.names:
            return Extent(1, (self.names[str(factor)],))
        if str(factor) in self.known:
            return Extent(self.known[str(factor)])
        if str(factor) in self.rows:
            return self.rows[str(factor)]
        if factor.is_Symbol and str(factor).startswith("u"):
            raise CompileError(
                "makes a tensor whose size depends on data; keep all rows and use torch.where(mask, x, 0)"
            )
        elements = re.sub(r"\w+", lambda name: self.names.get(name[0], name[0]), str(whole))
        used = [repr(ours) for ours in dict.fromkeys(self.names.values()) if ours in re.findall(r"\w+", elements)]
        without = f"; import the module without the symbol {' or '.join(used)}" if used else ""
        raise CompileError(f"an axis has {elements} elements, which is no product of a number and symbols{without}")


@dataclass(frozen=True)
class Unsized:
    """A size that is no product: only checks of the export read it, or pointwise operators if it is a polynomial.

    Attributes:
        text: the size as PyTorch writes it.
        expression: the polynomial of PyTorch's symbols; None for other sizes.
        sizes: the symbols.
    """

    text: str
    expression: Any = None
    sizes: Sizes | None = None

    def counted(self, block: Block) -> Arranged:
        """Return a polynomial as a tensor of rank 0, int64."""
        return arranged(self._value(block, self.expression))

    def in_trial(self, number: int) -> int:
        """Return the number of a polynomial in a trial."""
        assert self.sizes is not None
        symbols = self.expression.free_symbols
        return int(self.expression.subs({s: self.sizes.factor(s).bound(self.sizes.sizes[number]) for s in symbols}))

    def _value(self, block: Block, expression: Any) -> Value:
        assert self.sizes is not None
        if expression.is_Add or expression.is_Mul:
            first, *others = (self._value(block, each) for each in expression.args)
            for other in others:
                first = first + other if expression.is_Add else first * other
            return first
        return number_of(block, self.sizes.factor(expression), "int64")


def _expression(size: Any) -> Any:
    """Return the expression of a size with symbols; a number as it is."""
    return getattr(getattr(size, "node", None), "expr", size)


def _is_polynomial(expression: Any) -> bool:
    """Return True for sums and products of numbers and symbols."""
    if expression.is_Add or expression.is_Mul:
        return all(map(_is_polynomial, expression.args))
    return bool(expression.is_Integer or expression.is_Symbol)


def _is_product(size: Any) -> bool:
    expression = _expression(size)
    return isinstance(expression, int) or bool(
        expression.is_Symbol
        or expression.is_Integer
        or (expression.is_Mul and all(f.is_Symbol or f.is_Integer for f in expression.args))
    )
