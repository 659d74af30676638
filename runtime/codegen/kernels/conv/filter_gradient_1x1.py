"""The gradient of a 1x1 filter: a product whose depth is all pixels.

A work item goes through a part of the pixels, block by block. It copies pixels of both operands in the order of memory,
and every tile of the filter reads the copies. Without them, each tile would read a small part of every pixel, far from
the next. The sums of parts are added at the end, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Final

from runtime.codegen.costs import multiply_add_cycles
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.types import WIDENED_BFLOAT16
from runtime.codegen.ir.words import minimum
from runtime.codegen.kernels.conv.borders import first_operand, from_channel, onward, write_computed
from runtime.codegen.kernels.conv.filter_plan import BLOCK_PIXELS, FilterGradient, equal_ranges
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS
from runtime.codegen.kernels.copies import copied
from runtime.codegen.kernels.depth import DepthLoop, Prefetch, Tile
from runtime.codegen.kernels.matmul.plan import shares
from runtime.codegen.kernels.pair_chains import chain_columns, elements_of_pair, row_of_pair
from runtime.codegen.kernels.pair_products import GROUP_PAIRS, copied_pairs
from runtime.codegen.kernels.partial_sums import reduction_step
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import ComputedOperand, KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.kernels.tiles import add_rows, by_size, prefetching, prepared_tile
from runtime.codegen.machine import NOMINAL_LANES, Target

MIN_BLOCKS: Final = 2 * WANTED_ITEMS
"""Least number of blocks; with fewer, work items are panels of the filter."""


class FilterGradient1x1:
    """The loops, for 1x1 filters in one group.

    With pairs of bfloat16, a pair has the same column of two neighbouring lines, and `lines` counts pairs of lines.
    """

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.target = target
        planned = shape.planned(target)
        self.shape = planned.kept(target)
        self.together = 2 if shape.of_pairs else 1
        self.elements = elements_of_pair(target) if shape.of_pairs else 1
        self.is_chained = shape.of_pairs and target.chains_pairs
        self.vector = shape.element.of(shape.lanes)
        self.columns = shape.columns.pixels
        self.lines, self.height, self.blocks = _blocks(shape)
        self.parts = min(WANTED_ITEMS, self.blocks)
        self.ranges = min(max(target.wanted_items(WANTED_ITEMS) // self.parts, 1), self.shape.across)
        self.deep_ranges = self._deep_ranges()
        self.own_deep = self.shape.deep // self.deep_ranges
        is_even = self.blocks % self.parts == 0 and self.ranges == self.deep_ranges == 1
        self.in_order = self.blocks // self.parts if is_even else 1
        self.tiles = sum(many for _, many in shares(self.own_deep, self.shape.most))
        self.panel = self.height * self.columns * self.elements * self.shape.width
        self.cycles: float = shape.places // self.together * planned.cycles(target)

    @staticmethod
    def applies(target: Target, shape: FilterGradient) -> bool:
        """Return True for 1x1 filters in one group, with enough output pixels for all work items."""
        least = NOMINAL_LANES if shape.of_bfloat16 else target.nominal.lanes(shape.element.bits)
        alone = all(side.window == 1 and side.before == 0 for side in (shape.rows, shape.columns))
        inside = all((side.pixels - 1) * side.stride < side.source for side in (shape.rows, shape.columns))
        return alone and inside and shape.groups == 1 and shape.deep >= least and _blocks(shape)[2] >= MIN_BLOCKS

    def steps(self) -> KernelSteps:
        """Return the kernel steps: the sums of parts, and their addition."""
        shape, item = self.shape, self.shape.element.bits // 8
        steps = shape.size * self.lines * self.columns
        cost = multiply_add_cycles(self.target, shape.lanes, steps)
        join = reduction_step(shape.element, shape.lanes, shape.size, self.parts)
        own = self.height * self.columns * self.elements * shape.pixel * item, self.panel * shape.across * item
        is_whole = self.lines % self.height == 0
        items, in_order = self.parts * self.ranges * self.deep_ranges * self.in_order, self.in_order
        ranges = gcd(self.parts, self.blocks) * in_order
        own_images = batch_parts(ranges, shape.images, 0, 1, in_order=in_order) if is_whole else None
        sums = KernelStep(self.part, items, cost, batch_parts=own_images, in_order=in_order)
        return KernelSteps((sums, join), (self.parts * shape.size * item,), own)

    def _deep_ranges(self) -> int:
        """Return the number of equal ranges of input channels, whole vectors each, if panels are too few."""
        if not self.target.has_many_threads:
            return 1
        wanted = self.target.wanted_items(WANTED_ITEMS) // (self.parts * self.ranges)
        return equal_ranges(self.shape.deep, self.shape.lanes, wanted)

    def part(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the sums; work items are blocks in order, or ranges of panels or input channels in parts of all blocks.

        All ranges of panels copy the same pixels of the input, and all ranges of channels those of the gradient.
        """
        f, shape = context.f, self.shape
        if self.in_order > 1:
            for item in f.range(start, stop):
                number = f.index(item)
                to = context.shared_scratch(0, shape.element) + number // self.in_order * shape.size
                is_first = (number % self.in_order).equal(0)
                self._block(context, number, to, is_first, (0, shape.across), f.index(0))
            return
        for item in f.range(start, stop):
            number, deep = f.index(item), f.index(0)
            if self.deep_ranges > 1:
                number, deep = number // self.deep_ranges, number % self.deep_ranges * self.own_deep
            part, of_part = number // self.ranges, number % self.ranges
            panels = part_of(f, shape.across, of_part, self.ranges) if self.ranges > 1 else (0, shape.across)
            to = context.shared_scratch(0, shape.element) + part * shape.size
            first, end = part_of(f, self.blocks, part, self.parts)
            for number in f.range(first, end):
                self._block(context, f.index(number), to, f.index(number).equal(first), panels, deep)

    def _block(
        self,
        context: KernelContext,
        number: Value,
        to: Value,
        is_first: Value,
        panels: tuple[Index, Index],
        deep: Value,
    ) -> None:
        """Add the sums of a block of pixels, or store them if it is the first block of a part."""
        f, shape = context.f, self.shape
        line = number * self.height
        count = self.height if self.lines % self.height == 0 else minimum(self.lines - line, self.height)
        self._copy(context, line, count, panels, deep)
        for panel in f.range(*panels):
            for columns in by_size(f, shape.wide, shape.width, f.index(panel)):
                self._panel(context, f.index(panel), columns, line, count, to, is_first, deep)

    def _copy(
        self, context: KernelContext, first: Value, count: Index, range_of: tuple[Index, Index], deep: Value
    ) -> None:
        """Copy lines of pixels of the input, from a channel on, and a range of panels of those of the gradient."""
        f, shape, x, dy = context.f, self.shape, first_operand(context), context.operand(1)
        if self.elements > 1:
            x = x.widened() if isinstance(x, ComputedOperand) else f.cast(x, WIDENED_BFLOAT16)
            dy = f.cast(dy, WIDENED_BFLOAT16)
        pixels, panels = context.thread_scratch(0, shape.element), context.thread_scratch(1, shape.element)
        rows, columns = shape.rows, shape.columns
        is_combined = self._combines(count)
        for i in f.range(0, count):
            lines = [(first + i) * self.together + k for k in range(self.together)]
            starts = [line // rows.pixels * rows.source + line % rows.pixels * rows.stride for line in lines]
            for column in f.range(0, self.columns, 2 if is_combined else 1):
                for row, seen in self._rows(f.index(i) * self.columns + column, is_combined):
                    places = [(line, f.index(column) + far) for line, far in seen]
                    insides = [(starts[line], place * columns.stride) for line, place in places]
                    sources = [onward(x, start * columns.source + inside, shape.deep) for start, inside in insides]
                    to = pixels + row * shape.pixel
                    if self.deep_ranges > 1:
                        sources, to = [from_channel(source, deep) for source in sources], to + deep
                    self._copy_pixel(f, sources, to, self.own_deep, shape.deep)
                    gradients = [dy + (lines[line] * self.columns + place) * shape.wide for line, place in places]
                    self._copy_panels(f, gradients, panels + row * shape.width, range_of)
        if self.is_chained and not is_combined:
            self._chain(f, pixels + deep, panels, count * self.columns, range_of)

    def _copy_panels(self, f: Function, gradients: list[Value], to: Value, range_of: tuple[Index, Index]) -> None:
        """Copy a row of a range of panels from the gradients of a pixel, or of two."""
        wide, width = self.shape.wide, self.shape.width
        for panel in f.range(*range_of):
            for many in by_size(f, wide, width, f.index(panel)):
                sources = [at + f.index(panel) * width for at in gradients]
                self._copy_pixel(f, sources, to + f.index(panel) * self.panel, many, wide)

    def _combines(self, count: Index) -> bool:
        """Return True if words are combined as they are copied: a block of `count` pairs of lines has whole groups."""
        pairs = count * self.columns if isinstance(count, int) else self.columns
        return self.is_chained and self.columns % 2 == 0 and pairs % GROUP_PAIRS == 0

    def _rows(self, position: Value, is_combined: bool) -> Iterator[tuple[Value, list[tuple[int, int]]]]:
        """Yield the rows of a copy for a pair of pixels, or two neighbours, and the line and column of each pixel."""
        if is_combined:
            for half in range(2):  # of a chain, the later pixel is below
                yield row_of_pair(position, half), [(half, 1), (half, 0)]
        elif self.elements > 1:
            for line in range(2):
                yield position * 2 + line, [(line, 0)]
        else:
            yield position, [(line, 0) for line in range(self.together)]

    def _chain(self, f: Function, pixels: Value, panels: Value, pairs: Index, range_of: tuple[Index, Index]) -> None:
        """Combine words of the copies to neighbours of a chain."""
        shape = self.shape
        chain_columns(f, pixels, self.own_deep, shape.pixel, pairs, self.vector)
        for panel in f.range(*range_of):
            for many in by_size(f, shape.wide, shape.width, f.index(panel)):
                chain_columns(f, panels + f.index(panel) * self.panel, many, shape.width, pairs, self.vector)

    def _copy_pixel(
        self, f: Function, sources: Sequence[Value | ComputedOperand], to: Value, count: int, between: int
    ) -> None:
        """Copy elements of a pixel, or of a pair of pixels; compute them if they are not in memory.

        Pixels are `between` elements apart.
        """
        first, second = sources[0], sources[-1]
        if isinstance(first, ComputedOperand):
            other = second if isinstance(second, ComputedOperand) and len(sources) > 1 else None
            write_computed(f, first, to, count, self.vector, between=between, other=other)
        elif len(sources) > 1 and isinstance(second, Value):
            copied_pairs(f, first, second, to, count, self.vector)
        else:
            copied(f, first, to, count, self.vector)

    def _panel(
        self,
        context: KernelContext,
        panel: Value,
        columns: int,
        line: Value,
        count: Index,
        to: Value,
        is_first: Value,
        deep: Value,
    ) -> None:
        """Add the sums of a panel over a block of pixels, for the input channels from `deep` on."""
        f, shape = context.f, self.shape
        pixels, right = (
            context.thread_scratch(0, shape.element),
            context.thread_scratch(1, shape.element) + panel * self.panel,
        )
        depth = [DepthLoop(count * self.columns, shape.pixel, shape.width)]
        start, before = 0, panel * self.tiles
        for size, many in shares(self.own_deep, shape.most):
            for own in f.range(start, start + size * many, size):
                c = f.index(own) + deep if self.deep_ranges > 1 else own
                pixel = to + (f.index(c) * shape.wide + panel * shape.width)
                ahead = self._ahead(context, line, before + (f.index(c) - start) // size)
                operands = Tile.of(pixels + c, [*range(size)], right, columns, self.vector, depth, ahead)
                sums = prepared_tile(operands, of_pairs=shape.of_pairs)
                add_rows(sums, pixel, shape.wide, columns, is_first)
            start, before = start + size * many, before + many

    def _ahead(self, context: KernelContext, line: Value, number: Value) -> list[Prefetch]:
        """Return prefetches of the next block, the share of a numbered tile."""
        shape, x, dy = self.shape, context.inputs[0], context.operand(1)
        next_place = (line + self.height) * (self.columns * self.together)
        of_x = context.computed_operand.operands if context.computed_operand else [x] if x else []
        if shape.rows.stride * shape.columns.stride > 1:
            of_x = []
        asked: list[Prefetch] = []
        for operand, channels in (*((of, shape.deep) for of in of_x), (dy, shape.wide)):
            step = -(-channels * self.together // (self.tiles * shape.across))
            share = number * (step * self.height * self.columns)
            asked.append(prefetching(context.f, operand + next_place * channels + share, step))
        return asked


def _blocks(shape: FilterGradient) -> tuple[int, int, int]:
    """Return the lines of all images, or pairs of them, the lines of a block, and the number of blocks."""
    lines = shape.images * shape.rows.pixels // (2 if shape.of_pairs else 1)
    height = min(max(BLOCK_PIXELS // shape.columns.pixels, 1), lines)
    return lines, height, -(-lines // height)
