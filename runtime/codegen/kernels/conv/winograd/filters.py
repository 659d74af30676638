"""The filters of Winograd's filtering: transformed to 16 positions, each in panels as the product reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.kernels.conv.winograd.plan import WinogradPlan
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS, POSITIONS, of_taps
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.pair_chains import pair_of_row, store_depth, vectors_of_depth, whole_groups
from runtime.codegen.kernels.pair_products import in_pairs, rounded_wide
from runtime.codegen.kernels.steps import KernelContext, KernelStep, Prepack
from runtime.codegen.kernels.tiles import by_size

DEPTH_VECTORS_PER_ITEM: Final = 4
"""Vectors of the depth in a work item: transposed filters are read along it, and single cache lines take long to load.
"""


class TransformedFilters:
    """The kernel step that writes transformed filters to shared scratch, by panel, position and source channel.

    Attributes:
        thread_elements: elements of scratch of a thread.
    """

    def __init__(self, element: Type, plan: WinogradPlan) -> None:
        self.element, self.plan = element, plan
        self.vector = element.of(plan.lanes)
        self.rows = min(DEPTH_VECTORS_PER_ITEM * plan.lanes, -(-plan.shape.deep // plan.lanes) * plan.lanes)
        self.across = -(-plan.shape.deep // self.rows)
        size = POSITIONS * plan.width * self.rows * plan.elements
        self.thread_elements = size if plan.shape.is_filter_transposed else 0

    def step(self) -> KernelStep:
        """Return the kernel step; work items are some vectors of the depth of a panel."""
        plan = self.plan
        prepack = None if self.thread_elements else Prepack((1,), (0,))
        return KernelStep(self.write, plan.panels * self.across, plan.of_filters, prepack=prepack)

    def write(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the part of a panel for some source channels."""
        f, plan = context.f, self.plan
        for item in f.range(start, stop):
            panel, part = f.index(item) // self.across, f.index(item) % self.across
            for columns in by_size(f, plan.shape.wide, plan.width, panel):
                for rows in by_size(f, plan.shape.deep, self.rows, part):
                    fill = self._transposed if plan.shape.is_filter_transposed else self._straight
                    fill(context, panel, part * self.rows, columns, rows)

    def _straight(self, context: KernelContext, panel: Value, first: Value, columns: int, rows: int) -> None:
        """Transform with vectors of result channels."""
        f, plan, w = context.f, self.plan, context.operand(1)
        each, wide = plan.shape.of_pairs + 1, plan.shape.wide
        line = w + (first * (each * wide) + panel * plan.width)
        to = context.shared_scratch(0, self.element) + (panel * plan.panel + first * (plan.elements * plan.width))
        for row, channels in self._rows_of_panel(f, rows):
            for v in range(0, columns, plan.lanes):
                tail = min(plan.lanes, columns - v)
                found = [self._transformed(line + (c * wide + v), tail) for c in channels]
                if plan.elements == 2:
                    stored = [rounded_wide(x) for x in found[0]]
                else:
                    stored = in_pairs(*found) if plan.shape.of_pairs else found[0]
                for position, x in enumerate(stored):
                    f.store(x, to + (f.index(row) * plan.width + v), position * self._step)

    def _rows_of_panel(self, f: Function, rows: int) -> Iterator[tuple[Index, Sequence[Value]]]:
        """Yield each row of the panel for `rows` source channels or pairs, and the channels that it has."""
        plan, numbers = self.plan, self.plan.numbers
        whole = whole_groups(rows) if numbers == 2 and f.target.chains_pairs else 0
        for d in f.range(0, whole):
            pair, half = pair_of_row(f.index(d))
            yield f.index(d), [pair * 2 + half + 2, pair * 2 + half]  # of a chain, the later number is below
        for d in f.range(whole, rows * plan.elements):
            yield f.index(d), [f.index(d) * numbers + k for k in range(numbers)]

    def _transposed(self, context: KernelContext, panel: Value, first: Value, columns: int, rows: int) -> None:
        """Transform with vectors of source channels, and transpose the results."""
        f, plan, w = context.f, self.plan, context.operand(1)
        memory_budget, size = context.thread_scratch(0, self.element), plan.width * self.rows * plan.elements
        each, numbers = plan.shape.of_pairs + 1, plan.numbers
        own = f.cast(memory_budget, BFLOAT16) if numbers == 2 else memory_budget
        for c in f.range(0, columns):
            line = w + ((panel * plan.width + c) * plan.shape.channels + first * each)
            to = own + f.index(c) * (self.rows * each)
            for v, tail, is_combined in self._vectors(f, rows * each):
                for position, x in enumerate(self._transformed(line + v, tail)):
                    if plan.shape.of_pairs:
                        store_depth(x, to + position * (size * numbers), v, tail, is_combined)
                    else:
                        f.store(x, to, position * size + v)
        to = context.shared_scratch(0, self.element) + (panel * plan.panel + first * (plan.elements * plan.width))
        deep = rows * plan.elements
        for position in f.range(0, POSITIONS):
            matrix = Matrix(memory_budget + f.index(position) * size, 1, self.rows * plan.elements)
            packed_right(f, matrix, to + f.index(position) * self._step, deep, columns, plan.width, deep, self.vector)

    def _vectors(self, f: Function, channels: int) -> Iterator[tuple[Index, int, bool]]:
        """Yield the vectors of `channels` source channels, those of `vectors_of_depth` if they are pairs."""
        lanes = self.plan.lanes
        if self.plan.shape.of_pairs:
            yield from vectors_of_depth(f, channels, lanes)
            return
        for v in range(0, channels, lanes):
            yield v, min(lanes, channels - v), False

    def _transformed(self, line: Value, count: int) -> list[Value]:
        """Return the positions of a vector of `count` channels of every tap."""
        f, plan = line.function, self.plan
        taps = [
            [f.load(line, self._tap(i, j), plan.lanes, count) for j in range(FILTER_TAPS)] for i in range(FILTER_TAPS)
        ]
        return [x for row in of_taps(taps) for x in row]

    @property
    def _step(self) -> int:
        """Stride of the positions in a panel, in elements."""
        return self.plan.deep * self.plan.width

    def _tap(self, i: int, j: int) -> int:
        """Return the offset of the tap that is multiplied with the pixel in row `i` and column `j` of a window."""
        rows, columns = self.plan.shape.rows.phases[0], self.plan.shape.columns.phases[0]
        tap = (rows.filters + i * rows.onward) * FILTER_TAPS + columns.filters + j * columns.onward
        return tap * self.plan.shape.channels * self.plan.shape.wide
