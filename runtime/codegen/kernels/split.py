"""Totals split into blocks or parts, while the IR is written or while it runs."""

from __future__ import annotations

from collections.abc import Iterator

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import minimum


def in_blocks(f: Function, total: int, most: int) -> Iterator[tuple[Index, int]]:
    """Give starts and sizes: a loop over whole blocks, and the rest."""
    whole = total // most * most
    for i in f.range(0, whole, most):
        yield i, most
    if whole < total:
        yield whole, total - whole


def part_of(f: Function, total: int, number: Index, parts: int) -> tuple[Index, Index]:
    """Return the first of `total` things that belong to a part, and the one after the last."""
    if parts == 1:
        return 0, total
    return f.index(number) * total // parts, (f.index(number) + 1) * total // parts


def least_of(a: Index, b: Index) -> Index:
    """Return the smaller index, known or not."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return minimum(a, b) if isinstance(a, Value) else minimum(b, a) if isinstance(b, Value) else a


def power_of_two_up_to(most: int) -> int:
    """Return the largest power of two up to `most`; 1 if there is none."""
    return 1 << max(most.bit_length() - 1, 0)
