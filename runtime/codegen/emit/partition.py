"""The partition of a product for threads, along rows, columns or depth, so that each finds its part in its own caches.

A core reads data slowly that another core has written, so large operands should stay in the same caches from product to
product. If the weights are large, which are read and written in every step, parts are whole rows of the weights: halves
of the depth forwards, rows of the result in the gradient of the weights, columns of it in the gradient of the input. If
a batch has many more rows than a layer has inputs, parts are rows of the batch: rows of the result forwards and in the
gradient of the input, halves of the depth in the gradient of the weights. Operands larger than the caches stay in no
cache.
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

from runtime.codegen.costs import (
    CONFLICTING_ROWS_PENALTY,
    MAX_LAST_PART_SHARE,
    MAX_UNSPLIT_SLOWDOWN,
    MIN_SPLIT_CYCLES,
    PACKED_ELEMENT_CYCLES,
    REMOTE_CACHE_PENALTY,
    RESULT_CYCLES,
    RIGHT_OPERAND_CYCLES,
    multiply_add_penalty,
)
from runtime.codegen.emit.body import counted
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.nodes import Additions
from runtime.codegen.kernels.matmul import MatmulPlan, plan_product, tile_cycles
from runtime.codegen.kernels.matmul.plan import CONFLICT_STRIDE_BYTES, PAGE_BYTES, is_streamed
from runtime.codegen.kernels.matmul.shape import MIN_LOCALITY_BYTES, ProductShape
from runtime.codegen.kernels.nest import Nest, Pieces, nest, pieces_of
from runtime.codegen.machine import Target
from runtime.codegen.rules import Product

LEFT, RIGHT = "left factor", "right factor"  # no tensor has a space in its name


MAX_PARTS: Final = 8
"""Upper bound on the parts of one matrix on few threads; each part copies its own operands."""

ENOUGH_MATRICES: Final = 8
"""Number of matrices that is enough for few threads without partitions."""

MAX_PARTS_PER_THREAD: Final = 2
"""Upper bound on the parts of one matrix for each of many threads."""


def product_shape(kernel: GroupKernel) -> ProductShape:
    """Return the matrices of a group's product: neighbouring axes are merged where all operands are contiguous."""
    node, domain = kernel.group.nodes[0], kernel.group.domain
    assert isinstance(node.rule, Product), "only asked of groups that begin with one"
    factors = node.rule.factors(*(kernel.layout(name) for name in node.inputs), **node.attributes)
    assert factors is not None, "only read where there is code for it"
    beside = {name for other in kernel.group.nodes[1:] for name in other.inputs} | set(kernel.stored)
    steps = {name: kernel.strides(name, domain) for name in kernel.table if name in beside}
    steps |= counted(kernel.group.nodes, kernel.types, domain)
    steps |= {LEFT: factors.left[:-1], RIGHT: factors.right[:-1]}
    rows = nest(domain[:-1], {name: step[:-1] for name, step in steps.items()})
    is_row = (
        bool(rows.extents) and not rows.strides[RIGHT][-1]
    )  # otherwise the last axis has a right factor for each position
    m, around = (rows.extents[-1], rows.extents[:-1]) if is_row else (1, rows.extents)
    kept = {name: (*step, *(() if is_row else (0,)), steps[name][-1]) for name, step in rows.strides.items()}
    left, right = (kept[LEFT][-2], factors.left[-1]), (factors.right[-1], kept[RIGHT][-1])
    before = {name for other in kernel.group.prologue for name in other.outputs}
    computed = node.inputs[0] in before, node.inputs[1] in before
    k, depth = factors.depth, 0
    if kernel.types[node.inputs[0]].dtype == "bfloat16":
        k, depth = -(-k // 2), k
    shape = ProductShape(
        Nest((*around, m, domain[-1]), kept), m, domain[-1], k, left, right, computed=computed, depth=depth
    )
    if kernel.additions is Additions.LANES and domain[-1] > 1:
        return _exchanged(shape)
    is_column = domain[-1] == 1 < m and kernel.additions is not Additions.LANES
    return _transposed(shape) if is_column and (depth or left[0] == 1 != left[1]) else shape


def _transposed(shape: ProductShape) -> ProductShape:
    """Return one column as a row along the left operand, if all tensors that are read with it allow that."""
    exchanged = _exchanged(shape)
    return exchanged if all(step[-1] in (0, 1) for step in exchanged.loops.strides.values()) else shape


def _exchanged(shape: ProductShape) -> ProductShape:
    """Return a product with its operands exchanged, and rows and columns with them."""
    computed = shape.computed
    steps = {name: (*step[:-2], step[-1], step[-2]) for name, step in shape.loops.strides.items()}
    steps[LEFT], steps[RIGHT] = steps[RIGHT], steps[LEFT]
    loops = Nest((*shape.loops.extents[:-2], shape.n, shape.m), steps)
    (row, left), (right, column) = shape.left, shape.right
    return ProductShape(
        loops,
        shape.n,
        shape.m,
        shape.k,
        (column, right),
        (left, row),
        is_transposed=True,
        computed=(computed[1], computed[0]),
        depth=shape.depth,
    )


class Partition(NamedTuple):
    """A product in parts; only the last of its columns and the last of its rows may be smaller than the others."""

    rows: Pieces
    columns: Pieces
    depth: Pieces

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of parts along the depth, rows and columns."""
        return self.depth.pieces, self.rows.pieces, self.columns.pieces

    @property
    def parts(self) -> int:
        """The number of parts."""
        return prod(self.counts)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Distinct rows and columns of parts."""
        rows, columns = {self.rows.size, self.rows.last}, {self.columns.size, self.columns.last}
        return [(m, n) for m in rows for n in columns]


def cost_of(target: Target, bits: int, shape: ProductShape) -> float:
    """Return the cycles of one matrix: its multiply-adds, its result and its right operand."""
    step = tile_cycles(target, target.lanes(bits), shape.m, shape.n) * multiply_add_penalty(target)
    return step * shape.k + shape.m * shape.n * RESULT_CYCLES + shape.n * shape.k * RIGHT_OPERAND_CYCLES


def partitioned(target: Target, bits: int, shape: ProductShape, matrices: int, *, halved: bool) -> Partition:
    """Return the cheapest partition of one matrix: into rows or columns, and along the depth if `halved`.

    No bit depends on a partition along rows and columns: an element is the same sum in every part.
    """
    m, n, k, lanes = shape.m, shape.n, shape.k, target.lanes(bits)
    streamed = not shape.of_pairs and is_streamed(bits, m, n, k, shape.right)
    narrowest = PAGE_BYTES * 8 // bits if streamed else lanes
    most = -(-MAX_PARTS_PER_THREAD * target.threads // matrices) if target.has_many_threads else MAX_PARTS
    enough = target.wanted_items(ENOUGH_MATRICES)
    wanted = min(int(cost_of(target, bits, shape) / MIN_SPLIT_CYCLES), most) if matrices < enough else 1
    if matrices == 1 and shape.keeps_batch and shape.kept * bits // 8 >= MIN_LOCALITY_BYTES:
        wanted = max(wanted, 2)  # each thread has its rows
    whole = Partition(*(pieces_of(extent, max(extent, 1)) for extent in (m, n, k)))
    if halved:
        beside = max(min(wanted // 2, n // (narrowest if streamed else 2 * lanes)), 1)
        return whole._replace(depth=pieces_of(k, k // 2), columns=_of_vectors(n, beside, lanes))
    cuts = [whole]
    step = 2 if wanted <= 2 * MAX_PARTS else target.threads // 4
    for parts in range(step, wanted + 1, step):
        cuts += [whole._replace(rows=pieces_of(m, -(-m // parts)))] if parts <= m and not streamed else []
        cuts += [whole._replace(columns=_of_vectors(n, parts, lanes))] if parts * narrowest <= n else []
    return min(cuts, key=lambda partition: _cost_of_partition(target, bits, shape, partition, matrices))


def _of_vectors(columns: int, parts: int, lanes: int) -> Pieces:
    return pieces_of(columns, -(-columns // (parts * lanes)) * lanes)


def _cost_of_partition(target: Target, bits: int, shape: ProductShape, partition: Partition, matrices: int) -> float:
    """Return the cycles of all parts, copies of operands included; one part keeps another thread waiting.

    For many threads, return the cycles until the last of them is done, times their number.
    """
    m, n = partition.rows.size, partition.columns.size
    plan = plan_of(target, bits, shape, m, n, shape.k)
    copied = (plan.pack_left * m + plan.pack_right * n) * plan.elements
    far = not plan.pack_right and n > plan.width and shape.right[0] * bits // 8 % CONFLICT_STRIDE_BYTES == 0
    cycles = tile_cycles(target, plan.lanes, m, n) * (CONFLICTING_ROWS_PENALTY if far else 1)
    part = (cycles + copied * PACKED_ELEMENT_CYCLES) * shape.k
    stays = shape.kept * bits // 8 < target.l2_bytes
    of_columns = stays and (shape.is_of_weights or shape.keeps_batch)
    strange = (partition.columns if of_columns else partition.rows).pieces > 1
    waiting = MAX_UNSPLIT_SLOWDOWN if partition.parts == 1 else 1 + MAX_LAST_PART_SHARE / partition.parts
    parts = partition.parts * waiting
    if target.has_many_threads:
        parts = -(-partition.parts * matrices // target.threads) * target.threads / matrices
    return part * parts * (REMOTE_CACHE_PENALTY if strange else 1)


def plan_of(target: Target, bits: int, shape: ProductShape, m: int, n: int, k: int) -> MatmulPlan:
    """Return the plan for a part of these sizes."""
    left, right, packed = shape.left, shape.right, shape.packed
    reads_pairs = shape.reads_pairs and not target.adds_pairs
    return plan_product(target, bits, m, n, k, left, right, packed, of_pairs=shape.of_pairs, reads_pairs=reads_pairs)
