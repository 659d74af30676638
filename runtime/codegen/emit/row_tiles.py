"""Row tiles: work items that process the rows of a batch in order, as those of the groups before and after do.

A thread that computes a row tile of one layer may continue with the same tile of the next, without waiting: see
`lowering.tiled_chains`. This module determines the tensors of a group's table of which a tile reads its own rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import Final

from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.kernels.steps import KernelStep, KernelSteps, RowTiles
from runtime.codegen.rules import Pointwise

IMAGE_AXES: Final = 4
"""Axes of a batch of images: images, rows, columns and channels."""


def row_tiles_of_indices(
    kernel: GroupKernel, count: int, others: Iterable[str] = (), whole: Collection[str] = ()
) -> RowTiles | None:
    """Return `count` equal ranges of the positions of a group's domain in row-major order.

    Return None unless they write their own rows. They read their own rows of operands with a position for each of the
    domain, or for each of its first axes, and of `others`. They read all rows of `whole`: the extents of these may be
    those of the domain by chance, as in products of square matrices.
    """
    if not kernel.group.domain or not all(_has_rows(kernel, name) for name in kernel.stored):
        return None
    own = [name for name in kernel.table if name not in whole and _has_rows(kernel, name)]
    return row_tiles(kernel, count, kernel.group.domain[0], [*others, *own])


def row_tiles_of_product(
    kernel: GroupKernel, shape: ProductShape, operands: tuple[str, str], count: int
) -> RowTiles | None:
    """Return `count` equal ranges of the rows of a product's result; see `row_tiles_of_indices`.

    `operands` are the left and the right one. A tile reads its own rows of the left one if they lie one after the
    other, and of what that is computed from; it reads all rows of the right one.
    """
    left, right = operands
    computed = {name for node in kernel.group.prologue for name in node.inputs}
    if left == right or not has_rows_apart(kernel, left, shape.m, shape.left[0]):
        return row_tiles_of_indices(kernel, count, whole={left, right, *computed})
    return row_tiles_of_indices(kernel, count, (left,), {right, *computed} if shape.computed[1] else {right})


def row_tiles(kernel: GroupKernel, count: int, rows: int, reads: Iterable[str], runs: int = 0) -> RowTiles | None:
    """Return `count` equal row tiles that read their own rows of these tensors; None if there is one tile.

    One thread computes each of `runs` equal ranges of them in order; 0 for tiles in any order.
    """
    names = set(reads)
    indices = frozenset(i for i, name in enumerate(kernel.table) if name in names)
    return RowTiles(count, rows, indices, runs or count) if count > 1 and indices else None


def row_tiles_of_images(kernel: GroupKernel, steps: KernelSteps) -> KernelSteps:
    """Return the kernel steps of a custom kernel, whose parts of the images of a batch are row tiles.

    The other nodes of the group read their operands at the pixels of an image, or whole: see `can_produce` and
    `can_follow_convolution`.
    """
    first, *epilogue = kernel.group.nodes

    def tiled(step: KernelStep) -> KernelStep:
        parts = step.batch_parts
        if parts is None:
            return step
        operands = {x for number, x in enumerate(first.inputs) if number in parts.reads}
        whole = {x for number, x in enumerate(first.inputs) if number not in parts.reads}
        for node in (*kernel.group.prologue, *epilogue):
            (operands if isinstance(node.rule, Pointwise) else whole).update(node.inputs)
        images = [x for x in kernel.table if x in operands - whole and _has_images(kernel, x, parts.images)]
        return step._replace(row_tiles=row_tiles(kernel, parts.parts, parts.images, images, parts.runs))

    return steps._replace(steps=tuple(map(tiled, steps.steps)))


def _has_images(kernel: GroupKernel, name: str, images: int) -> bool:
    """Return True if a tensor consists of images."""
    shape = kernel.types[name].static_shape
    return len(shape) == IMAGE_AXES and shape[0] == images and _is_whole(kernel, name)


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
