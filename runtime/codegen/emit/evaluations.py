"""The number of times that a group computes each element of a computed operand: once in each part that packs it."""

from __future__ import annotations

from math import prod

from runtime.codegen.emit.large_products import is_large, partition_of_large
from runtime.codegen.emit.partition import LEFT, RIGHT, partitioned, plan_of, product_shape
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Additions
from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.matmul.shape import ProductShape
from runtime.codegen.machine import Target
from runtime.codegen.rules import CustomKernel


def evaluations(target: Target, kernel: GroupKernel) -> int | None:
    """Return the number of times that a group computes each element of its computed operand; None if it cannot."""
    node = kernel.group.nodes[0]
    if isinstance(node.rule, CustomKernel):
        can_make = node.rule.plan_with_prologue
        return 1 if can_make and can_make(target, node.op_types(kernel.types)) else None
    shape = product_shape(kernel)
    number = shape.computed.index(True)
    columns = kernel.types[kernel.group.prologue[-1].outputs[0]].static_shape[-1]
    *around, _, _ = shape.loops.strides[(LEFT, RIGHT)[number]]
    strides = (shape.left, shape.right)[number]
    if sorted(strides) != [1, columns] or any(step % columns for step in around):
        return None
    matrices = prod(extent for extent, step in zip(shape.loops.extents[:-2], around, strict=True) if not step)
    parts = _parts(target, kernel, shape)[number]
    return parts and parts * matrices


def _parts(target: Target, kernel: GroupKernel, shape: ProductShape) -> tuple[int, int | None]:
    """Return the numbers of parts of a result that compute each element of its left operand, and of its right one."""
    bits = DTYPES[kernel.types[kernel.group.nodes[0].outputs[0]].dtype].bits
    if kernel.additions is Additions.LANES:
        return 1, None
    if is_large(kernel, shape):
        blocks = partition_of_large(target, bits, shape)
        return blocks.columns.pieces * -(-blocks.columns.size // blocks.plan.block_columns), 1
    around = prod(shape.loops.extents[:-2])
    partition = partitioned(target, bits, shape, around, halved=kernel.additions is Additions.HALVES)
    plan = plan_of(target, bits, shape, partition.rows.size, partition.columns.size, partition.depth.size)
    return partition.columns.pieces * -(-partition.columns.size // plan.block_columns), partition.rows.pieces
