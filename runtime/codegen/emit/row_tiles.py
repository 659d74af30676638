"""Strips: units that go through the rows of a batch in order, as do those of the groups before and after.

Who computes a strip of one layer may go on with the same strip of the next, and nobody has to wait: see
`lowering.tiled_chains`. Here is what of a group's table such a strip reads its own rows of.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from runtime.codegen.kernels.steps import RowTiles
from runtime.codegen.lowering.group_kernel import GroupKernel


def row_tiles_of_indices(kernel: GroupKernel, count: int, others: Iterable[str] = ()) -> RowTiles | None:
    """So many equal stretches of the places of a group's domain in row-major order, if they write their own rows.

    Of operands that have a place for each of the domain, or one for each of its first axes, they read their own rows;
    and of these others.
    """
    if not kernel.group.domain or not all(_has_rows(kernel, name) for name in kernel.stored):
        return None
    return row_tiles(
        kernel, count, kernel.group.domain[0], [*others, *filter(lambda x: _has_rows(kernel, x), kernel.table)]
    )


def row_tiles(kernel: GroupKernel, count: int, rows: int, reads: Iterable[str]) -> RowTiles | None:
    """So many equal strips of rows, that read their own rows of these tensors; none if there is one."""
    names = set(reads)
    indices = frozenset(i for i, name in enumerate(kernel.table) if name in names)
    return RowTiles(count, rows, indices) if count > 1 and indices else None


def has_rows_apart(kernel: GroupKernel, name: str, rows: int, apart: int) -> bool:
    """Whether a tensor has so many rows along its first axis, whose elements lie so far from those of the next."""
    type = kernel.types[name]
    return (
        bool(type.rank)
        and type.static_shape[0] == rows
        and prod(type.static_shape[1:]) == apart
        and _is_whole(kernel, name)
    )


def _has_rows(kernel: GroupKernel, name: str) -> bool:
    """Whether the first axis of a tensor is that of the domain."""
    type, domain = kernel.types[name], kernel.group.domain
    of_rows = name in kernel.group.row_values and 0 not in kernel.group.reduced_axes
    return (
        bool(type.rank)
        and type.static_shape[0] == domain[0]
        and (type.rank == len(domain) or of_rows)
        and _is_whole(kernel, name)
    )


def _is_whole(kernel: GroupKernel, name: str) -> bool:
    return name not in kernel.views
