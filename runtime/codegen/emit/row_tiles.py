"""Row tiles: work items that process the rows of a batch in order, as those of the groups before and after do.

A thread that computes a row tile of one layer may continue with the same tile of the next, without waiting: see
`lowering.tiled_chains`. This module determines the tensors of a group's table of which a tile reads its own rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from runtime.codegen.kernels.steps import RowTiles
from runtime.codegen.lowering.group_kernel import GroupKernel


def row_tiles_of_indices(
    kernel: GroupKernel, count: int, others: Iterable[str] = (), whole: str = ""
) -> RowTiles | None:
    """Return `count` equal ranges of the positions of a group's domain in row-major order.

    Return None unless they write their own rows. They read their own rows of operands with a position for each of the
    domain, or for each of its first axes, and of `others`. They read all rows of `whole`.
    """
    if not kernel.group.domain or not all(_has_rows(kernel, name) for name in kernel.stored):
        return None
    own = [name for name in kernel.table if name != whole and _has_rows(kernel, name)]
    return row_tiles(kernel, count, kernel.group.domain[0], [*others, *own])


def row_tiles(kernel: GroupKernel, count: int, rows: int, reads: Iterable[str]) -> RowTiles | None:
    """Return `count` equal row tiles that read their own rows of these tensors; None if there is one tile."""
    names = set(reads)
    indices = frozenset(i for i, name in enumerate(kernel.table) if name in names)
    return RowTiles(count, rows, indices) if count > 1 and indices else None


def has_rows_apart(kernel: GroupKernel, name: str, rows: int, apart: int) -> bool:
    """Return True if a tensor has `rows` rows along its first axis, with a stride of `apart` elements."""
    type = kernel.types[name]
    return (
        bool(type.rank)
        and type.static_shape[0] == rows
        and prod(type.static_shape[1:]) == apart
        and _is_whole(kernel, name)
    )


def _has_rows(kernel: GroupKernel, name: str) -> bool:
    """Return True if the first axis of a tensor is that of the domain."""
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
