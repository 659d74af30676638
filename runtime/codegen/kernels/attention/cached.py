"""The attention of new positions to cached ones: only those that are there are read.

1. A group of heads shares its keys and values, and the queries of all its heads are rows of one block or several.
2. Keys are numbered from the first cached position that a query sees, whole panels further on if there is a window. The
   mask is a causal one that begins at the number of cached positions.
3. Whole panels of cached keys and values are read as they lie. What follows them, the last cached ones and the new
   ones, is copied to one place. So a result is the sum of two products with values.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from prograd_proto import TensorType
from runtime.codegen.ir import DTYPES, INT64, Index, Value
from runtime.codegen.ir.words import convert, maximum, minimum, where
from runtime.codegen.kernels.attention.heads import Block, Heads, heads_of, over_blocks
from runtime.codegen.kernels.attention.products import Products, computed
from runtime.codegen.kernels.attention.rows import MemoryLayout, Scratch, contiguous, copy_rows, own_places
from runtime.codegen.kernels.attention.weights import Softmax
from runtime.codegen.kernels.indices import index_dtype
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout
from runtime.codegen.kernels.op_types import OpTypes
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps
from runtime.codegen.machine import Target

PANEL_VECTORS: Final = 12
"""Nominal vectors of which keys take a multiple, so that all panels are whole: tiles have 1, 2, 3, 4 or 6 vectors."""


def cached(target: Target, op: OpTypes, layouts: Sequence[Layout] = ()) -> KernelSteps:
    """Return the kernel step; `layouts` are those of k, v, keys and values, contiguous if none are given."""
    q, *operands, _ = op.present
    k, v, keys, _ = operands
    (texts, groups, new, _), window = k.static_shape, op.attributes["window"]
    multiple = target.nominal.lanes(DTYPES[q.dtype].bits) * PANEL_VECTORS
    earlier = min(keys.static_shape[2], window + multiple) if window else keys.static_shape[2]
    most = _up_to_multiple(earlier + new, multiple)
    of_group = [TensorType(q.dtype, (texts, groups, most, x.static_shape[3])) for x in (k, v)]
    rows = TensorType(q.dtype, (texts, groups, q.static_shape[1] // groups * new, q.static_shape[3]))
    heads = heads_of(target, rows, of_group[0], of_group[1], None, causal=False, scale=op.attributes["scale"])
    assert most % heads.nominal_panel == most % heads.panel == 0, "all panels are whole"
    memory = MemoryLayout(layouts or contiguous(operands), own_places([(*rows.static_shape[:3], heads.width)]))

    products, last = Products(heads), _up_to_multiple(heads.nominal_panel - 1 + new, heads.nominal_panel)
    panels = products.columns_size(heads.depth)
    scratch = Scratch((panels, heads.rows * heads.row, heads.rows, last * heads.depth, last * heads.width), ())

    def write(context: KernelContext, start: Value, stop: Value) -> None:
        results = _Results(context, products, memory, scratch, rows, new, window)
        over_blocks(context, heads, start, stop, results.begin_group, results.write)

    items = heads.images * heads.heads * heads.blocks
    return KernelSteps((KernelStep(write, items, heads.cycles),), thread_scratch=scratch.nbytes(heads.item))


def _up_to_multiple(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


class _Results:
    """The results of a work item.

    Attributes:
        panels: panels of keys.
        weights, line: weights of a block, and a number for each of its queries.
        last_keys, last_values: keys and values behind whole panels.
    """

    def __init__(
        self,
        context: KernelContext,
        products: Products,
        memory: MemoryLayout,
        scratch: Scratch,
        rows: TensorType,
        new: int,
        window: int,
    ) -> None:
        self.context, self.products, self.heads, self.f = context, products, products.heads, context.f
        self.new, self.window = new, window
        _, *operands, _ = context.inputs
        [self.q] = MemoryLayout(contiguous([rows]), []).operands_of([context.operand(0)])
        self.k, self.v, self.keys, self.values = memory.operands_of(operands)
        [self.y] = memory.results_of(context.outputs)
        self.lengths = context.operand(-1)
        (self.panels, self.weights, self.line, keys, values), _ = scratch.addresses(context, self.heads.element)
        self.last_keys, self.last_values = Matrix(keys, self.heads.depth), Matrix(values, self.heads.width)

    def begin_group(self, group: Value) -> None:
        """Begin a group of heads: pack its keys, and copy the values behind whole panels."""
        f, heads, panel = self.f, self.heads, self.heads.nominal_panel
        first, length = self._cached(group // heads.groups)
        whole = self._whole(length)
        for cached, new, to in ((self.keys, self.k, self.last_keys), (self.values, self.v, self.last_values)):
            copy_rows(f, cached.of(group).moved(first + whole, 0), to, length - whole, to.row)
            copy_rows(f, new.of(group), to.moved(length - whole, 0), self.new, to.row)
        count = length - whole + self.new
        end = (count + (panel - 1)) // panel * panel
        unused, nothing = (end - count) * heads.width, f.constant(heads.element.of(heads.lanes), 0)
        for at in f.range(0, unused, heads.lanes):
            f.store(nothing, self.last_values.moved(count, 0).at, at, minimum(unused - at, heads.lanes))
        self._pack(self.keys.of(group).moved(first, 0), 0, whole)
        self._pack(self.last_keys, whole, end)

    def _pack(self, source: Matrix, to: Index, count: Value) -> None:
        """Pack whole nominal panels of keys; `to` is the number of the first of them."""
        heads, panel = self.heads, self.heads.nominal_panel
        for i in self.f.range(0, count, panel):
            at = self.panels + (self.f.index(to) + i) * heads.depth
            self.products.write_columns(self.f, source.moved(i, 0), heads.depth, at, panel)

    def write(self, group: Value, block: Block) -> None:
        """Write the results of a block."""
        f, heads, products = self.f, self.heads, self.products
        q, to = (x.of(group).moved(block.first, 0) for x in (self.q, self.y))
        first, length = self._cached(block.image)
        whole, seen = self._whole(length), length + self.new
        products.by_keys(f, block.rows, q, self.panels, heads.depth, seen, self.weights, scale=heads.scale)
        columns = computed(heads, seen, heads.keys)
        _Seen(self.context, heads, block, columns, length, self.new, self.window).all_rows(self.weights, self.line)

        def earlier(x: Value, i: Index, j: Index, count: int) -> None:
            f.store(x, to.moved(i, j).at, 0, count)

        def all_of(x: Value, i: Index, j: Index, count: int) -> None:
            at = to.moved(i, j).at
            f.store((f.load(at, 0, heads.lanes, count) + x) * f.load(self.line, i), at, 0, count)

        weights, values = Matrix(self.weights, heads.row), self.values.of(group).moved(first, 0)
        products.over_keys(f, block.rows, weights, values, heads.width, whole, earlier)
        weights, values = weights.moved(0, whole), self.last_values
        products.over_keys(f, block.rows, weights, values, heads.width, columns - whole, all_of)

    def _cached(self, text: Value) -> tuple[Index, Value]:
        """Return the first cached position of a text that a query sees, a panel's, and the number from it on."""
        length = convert(self.f.load(self.lengths, text), INT64)
        length = minimum(maximum(length, 0), self.keys.shape[2])
        if not self.window:
            return 0, length
        panel = self.heads.nominal_panel
        first = maximum(length + 1 - self.window, 0) // panel * panel
        return first, length - first

    def _whole(self, length: Value) -> Value:
        return length // self.heads.nominal_panel * self.heads.nominal_panel


class _Seen(Softmax):
    """The softmax of positions up to that of the query, which is the number of cached ones and its own number."""

    def __init__(
        self, context: KernelContext, heads: Heads, block: Block, columns: Index, length: Value, new: int, window: int
    ) -> None:
        super().__init__(context, heads, block, None, columns)
        self.length, self.new, self.window = length, new, window

    def _seen(self, x: Value, i: Index, j: Index) -> Value:
        f, lanes = self.f, self.heads.lanes
        index = DTYPES[index_dtype(2 * self.heads.keys)]
        own = self.length + ((self.f.index(self.block.first) + i) % self.new - j)
        behind = f.counting(index.of(lanes))
        is_seen = behind <= convert(own, index)
        if self.window:
            is_seen = is_seen & (behind > convert(own - self.window, index))
        return where(is_seen, x, -inf)
