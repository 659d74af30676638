"""Positions that rows of indices select, checked and counted in row-major order."""

from __future__ import annotations

from typing import NamedTuple

from runtime.codegen.ir import INT64, UINT64, Index, Value
from runtime.codegen.ir.words import bits, convert, where
from runtime.codegen.kernels.steps import KernelContext


class Lookup(NamedTuple):
    """The positions that rows of indices can select.

    Attributes:
        extents: extents of the axes for which a row has an index each.
        rows: rows of indices of every batch, which has positions of its own; 0 if there is one batch.
    """

    extents: tuple[int, ...]
    rows: int = 0

    def row_number(self, context: KernelContext, indices: Value, row: Index) -> Value:
        """Return the number of the position that a row selects.

        It is the first one, and the runtime check fails, if an index is out of range.
        """
        assert 0 not in self.extents, "there is no first place"
        f, width = context.f, len(self.extents)
        index = f.index(row) // self.rows if self.rows else f.index(0)
        outside = f.index(0).not_equal(0)
        for i, extent in enumerate(self.extents):
            number = convert(f.load(indices, f.index(row) * width + i), INT64)
            outside = outside | (bits(number, UINT64) >= extent)
            index = index * extent + number
        with f.when(outside):
            context.fail_check()
        return where(outside, 0, index)
