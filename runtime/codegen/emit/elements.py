"""Groups of pointwise nodes only: loops over the domain, vectors along its last axis."""

from __future__ import annotations

from math import prod
from typing import Final

from prograd_proto.dtypes import ITEM_BYTES
from runtime.codegen.costs import ELEMENT_CYCLES, MIN_PREFETCHED_BYTES
from runtime.codegen.emit.body import body_of, counted
from runtime.codegen.emit.row_tiles import row_tiles_of_indices
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.instructions import instructions
from runtime.codegen.ir import Index, Value
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.nest import Nest, along, leading, nest, offset_of, over, row_major, spread
from runtime.codegen.machine import PREFETCH_BYTES, Target
from runtime.codegen.rules import KernelContext, KernelStep, KernelSteps

VECTORS_PER_ITEM: Final = 16
"""Vectors in a work item of a group of one axis."""

WANTED_ITEMS: Final = 32
"""Number of work items that gives every thread a share."""

ROW_AXES: Final = 2
"""Axes of rows and columns."""

ROWS_TOGETHER: Final = 4
"""Rows that are computed together, so that an operand of columns is read once for all of them."""

MAX_UNROLLED_INSTRUCTIONS: Final = 96
"""Upper bound on the instructions for a vector of a group whose rows are computed together.

The code is written once for each row, and one load less does not matter beside a sine or an exponential.
"""


def element_steps(target: Target, kernel: GroupKernel) -> KernelSteps:
    """Return one kernel step, whose work items are ranges of the line, or positions of the other axes."""
    domain = kernel.group.domain
    steps = {name: kernel.strides(name, domain) for name in kernel.table}
    loops = nest(domain, steps | counted(kernel.group.nodes, kernel.types, domain))
    cost = prod(domain) * (2 + len(kernel.group.nodes)) * ELEMENT_CYCLES
    if len(loops.extents) < 2:
        return _of_one_axis(target, kernel, loops, cost)
    if of_columns := _of_columns(target, kernel, loops):
        return _of_rows(kernel, loops, of_columns, cost)
    count = leading(loops.extents[:-1], WANTED_ITEMS)

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, body = context.f, body_of(context, kernel, kernel.group.nodes)
        streams = _streams(kernel, loops)

        def indices(first: list[Index]) -> None:
            over(f, loops.extents[count:-1], line, first)

        def line(at: list[Index]) -> None:
            along(f, loops.extents[-1], body.lanes, lambda i, lanes, valid: vector([*at, i], lanes, valid))

        def vector(at: list[Index], lanes: int, valid: int) -> None:
            _prefetch(context, kernel, loops, streams, at)
            body.at(loops.strides, at, lanes, valid)

        spread(f, loops.extents[:count], start, stop, indices)

    items = prod(loops.extents[:count])
    return KernelSteps((KernelStep(write, items, cost, row_tiles=row_tiles_of_indices(kernel, items)),))


def _of_rows(kernel: GroupKernel, loops: Nest, of_columns: list[str], cost: float) -> KernelSteps:
    """Return the kernel step for a domain of rows and columns: a few rows at a time, then the others one by one."""

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, body = context.f, body_of(context, kernel, kernel.group.nodes)
        streams = _streams(kernel, loops)

        def rows(first: Index, together: int) -> None:
            def vectors(i: Index, lanes: int, valid: int) -> None:
                kept = {name: body.operand(name, loops.strides, [first, i], lanes, valid) for name in of_columns}
                for row in range(together):
                    at = [first + row, i]
                    _prefetch(context, kernel, loops, streams, at)
                    body.at(loops.strides, at, lanes, valid, kept)

            along(f, loops.extents[-1], body.lanes, vectors)

        whole = start + (stop - start) // ROWS_TOGETHER * ROWS_TOGETHER
        for row in f.range(start, whole, ROWS_TOGETHER):
            rows(row, ROWS_TOGETHER)
        for row in f.range(whole, stop):
            rows(row, 1)

    items = loops.extents[0]
    return KernelSteps((KernelStep(write, items, cost, row_tiles=row_tiles_of_indices(kernel, items)),))


def _of_columns(target: Target, kernel: GroupKernel, loops: Nest) -> list[str]:
    """Return the operands with one element for each column of a domain of two axes, if reading them once saves time."""
    nodes = kernel.group.nodes
    if target.is_compact or len(loops.extents) != ROW_AXES or len(nodes) > MAX_UNROLLED_INSTRUCTIONS:
        return []
    if sum(instructions(target, node, kernel.types) or 1 for node in nodes) > MAX_UNROLLED_INSTRUCTIONS:
        return []
    names = dict.fromkeys(name for node in kernel.group.nodes for name in node.inputs if name in loops.strides)
    return [name for name in names if loops.strides[name] == (0, 1) and name not in kernel.stored]


def _streams(kernel: GroupKernel, loops: Nest) -> list[str]:
    """Return the operands that come from far and are read in the order of memory."""
    return [
        name
        for name in kernel.table
        if name not in kernel.stored
        and kernel.types[name].nbytes >= MIN_PREFETCHED_BYTES
        and name in loops.strides
        and loops.strides[name] == row_major(loops.extents, loops.extents)
    ]


def _prefetch(context: KernelContext, kernel: GroupKernel, loops: Nest, names: list[str], at: list[Index]) -> None:
    """Prefetch what is read `PREFETCH_BYTES` after this position: the hardware does not prefetch that far."""
    for name in names:
        ahead = PREFETCH_BYTES // ITEM_BYTES[kernel.types[name].dtype]
        context.f.prefetch(context.addresses[name] + offset_of(at, loops.strides[name]), ahead, 2)


def _of_one_axis(target: Target, kernel: GroupKernel, loops: Nest, cost: float) -> KernelSteps:
    extent = prod(loops.extents)
    block = VECTORS_PER_ITEM * target.vector_bytes  # a multiple of the lanes of any element

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        f, body = context.f, body_of(context, kernel, kernel.group.nodes)
        if extent <= block:
            along(f, extent, body.lanes, lambda i, lanes, valid: body.at(loops.strides, [i], lanes, valid))
            return
        whole, streams = extent // body.lanes * body.lanes, _streams(kernel, loops)
        for i in f.range(start * block, minimum(stop * block, whole), body.lanes):
            _prefetch(context, kernel, loops, streams, [i])
            body.at(loops.strides, [i], body.lanes, body.lanes)
        if whole < extent:
            with f.when(stop * block >= extent):
                body.at(loops.strides, [whole], body.lanes, extent - whole)

    row_tiles = None if extent % block else row_tiles_of_indices(kernel, extent // block)
    return KernelSteps((KernelStep(write, -(-extent // block), cost, row_tiles=row_tiles),))
