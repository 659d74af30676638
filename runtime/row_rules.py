"""Row rules: the fact of an operator that tells when row i of its result depends on row i of its operands alone.

    @kernel(softmax_rule, rows=along_other_axes)

An operator without a row rule may mix rows. `runtime.rows.row_wise` follows the rows of a whole entry with these rules.

A rule returns True if the following holds for the op: if index i along axis 0 of each operand that *has rows* belongs
to row i, index i along axis 0 of the first result does so too. For operands without rows it then follows that the
result has *equal rows*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class RowOperand(NamedTuple):
    """An operand, as a row rule sees it.

    Attributes:
        shape: its shape.
        has_rows: True if index i along axis 0 belongs to row i; otherwise the operand is the same for all rows.
        has_equal_rows: True if all elements along axis 0 are equal, in an operand that is the same for all rows.
    """

    shape: tuple[int, ...]
    has_rows: bool = False
    has_equal_rows: bool = False

    @property
    def is_row_by_row(self) -> bool:
        """True if index i along axis 0 may be read as row i."""
        return self.has_rows or self.has_equal_rows

    def is_repeated(self, rank: int) -> bool:
        """Return True if broadcasting to a tensor of this rank with rows gives every row the same elements."""
        return len(self.shape) < rank or not self.shape or self.shape[0] == 1 or self.has_equal_rows


Operands = Sequence[RowOperand | None]
"""Operands of an op in order, None for an absent one."""

RowRule = Callable[[Operands, tuple[int, ...], Mapping[str, Any]], bool]
"""A function from the operands, the shape of the first result, and the attributes by name."""


def pointwise(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if operands with rows have the result's axis 0, and all others are repeated for every row."""
    rank = len(result)
    return all(len(x.shape) == rank if x.has_rows else x.is_repeated(rank) for x in operands if x is not None)


def first_operand(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if only the first operand has rows, for an op that computes each index along axis 0 by itself."""
    return has_rows(operands[0]) and not any(has_rows(x) for x in operands[1:])


def along_other_axes(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True as `first_operand` does, if axis 0 is not among the op's `axes`, or is not its `axis`."""
    x = operands[0]
    if x is None or not x.shape:
        return False
    axes: list[int] = list(attributes["axes"]) if "axes" in attributes else [attributes["axis"]]
    return bool(axes) and all(axis % len(x.shape) for axis in axes) and first_operand(operands, result, attributes)


def each_operand(operands: Operands, result: tuple[int, ...], attributes: Mapping[str, Any]) -> bool:
    """Return True if every operand has rows or equal rows, for an op that treats all indices along axis 0 alike."""
    return all(x.is_row_by_row for x in operands if x is not None)


def has_rows(x: RowOperand | None) -> bool:
    """Return True for an operand that is present and has rows."""
    return x is not None and x.has_rows
