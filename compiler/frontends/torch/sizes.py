"""Symbols of an export: PyTorch's expressions of sizes as extents."""

# pyright: basic
# PyTorch is imported by name and has no types here, nor have the lambdas of a table.

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.errors import CompileError
from compiler.frontends.extents import ONE, Extent


@dataclass(frozen=True)
class Sizes:
    """The symbols of an export.

    Attributes:
        names: our symbols by those of PyTorch.
        sizes: sizes of our symbols, for each trial in which constants are computed.
    """

    names: Mapping[str, str]
    sizes: Sequence[Mapping[str, int]]

    @property
    def trials(self) -> int:
        """The number of trials."""
        return len(self.sizes)

    def shape(self, extents: Sequence[Any]) -> tuple[Extent, ...]:
        """Return the extents of a shape; raise CompileError for what is no product."""
        return tuple(map(self.extent, extents))

    def extent(self, size: Any) -> Extent:
        """Return a size as an extent; raise CompileError if it is no product of a number and symbols."""
        expression = getattr(getattr(size, "node", None), "expr", size)
        if isinstance(expression, int):
            return Extent(expression)
        made = ONE
        for factor in expression.args if expression.is_Mul else (expression,):
            made = made.times(self._factor(factor, expression))
        return made

    def value(self, size: Any) -> Any:
        """Return a size as an extent, or a number that is none, such as a float."""
        return (
            size if isinstance(size, float | bool) else self.extent(size) if _is_product(size) else Unsized(str(size))
        )

    def in_trial(self, extent: Extent, number: int) -> int:
        """Return the size of an extent in a trial."""
        made = extent.number
        for symbol in extent.symbols:
            made *= self.sizes[number][symbol]
        return made

    def _factor(self, factor: Any, whole: Any) -> Extent:
        if factor.is_Integer:
            return Extent(int(factor))
        if factor.is_Symbol and str(factor) in self.names:
            return Extent(1, (self.names[str(factor)],))
        raise CompileError(f"an axis has {self._named(whole)} elements, which is no product of a number and symbols")

    def _named(self, expression: Any) -> str:
        text = str(expression)
        for theirs, ours in self.names.items():
            text = text.replace(theirs, ours)
        return text


@dataclass(frozen=True)
class Unsized:
    """A size that is no product, which only checks of the export read."""

    text: str


def _is_product(size: Any) -> bool:
    expression = getattr(getattr(size, "node", None), "expr", size)
    return isinstance(expression, int) or bool(
        expression.is_Symbol
        or expression.is_Integer
        or (expression.is_Mul and all(f.is_Symbol or f.is_Integer for f in expression.args))
    )
