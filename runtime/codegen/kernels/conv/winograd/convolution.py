"""A convolution with 3 x 3 filters, or the gradient of its input, by Winograd's minimal filtering F(2 x 2, 3 x 3).

It takes 4 multiply-adds for an output pixel and a pair of channels, instead of 9. A work item has a block of tiles and
a part of the panels of channels. It transforms the pixels of its tiles to 16 positions, multiplies the tiles by the
panel at each position, and transforms back while the sums are in the caches. Nominal panels of a block with results
that are not finite are computed again, pixel by pixel.

Operands of bfloat16 may be multiplied as pairs of channels: transformed pixels and filters are rounded to bfloat16.
"""

from __future__ import annotations

from runtime.codegen.costs import WINOGRAD_OF_PAIRS_PENALTY, WINOGRAD_PENALTY
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.types import BFLOAT16
from runtime.codegen.ir.words import any_lane, is_nan, minimum, where
from runtime.codegen.kernels.conv.plan import ConvShape, packed_filter_cycles
from runtime.codegen.kernels.conv.winograd.filters import TransformedFilters
from runtime.codegen.kernels.conv.winograd.non_finite import NonFiniteTiles, written
from runtime.codegen.kernels.conv.winograd.plan import MAX_NOTED_PANELS, is_taken, plan_winograd
from runtime.codegen.kernels.conv.winograd.tiles import BlockOfTiles, transform_pixels
from runtime.codegen.kernels.conv.winograd.transforms import POSITIONS, TILE_PIXELS, of_sums
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, DepthLoop, Prefetch, Tile
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.kernels.tiles import by_size, prepared_tile, starts, store_rows
from runtime.codegen.machine import CACHE_LINE_BYTES, Target


class Winograd:
    """The loops."""

    def __init__(self, target: Target, element: Type, shape: ConvShape) -> None:
        self.element, self.shape, self.plan = element, shape, plan_winograd(target, element.bits, shape)
        self.vector = element.of(self.plan.lanes)
        self.filters = TransformedFilters(element, self.plan)
        self.again = NonFiniteTiles(element, self.plan.of_channels)

    @staticmethod
    def applies(target: Target, element: Type, shape: ConvShape) -> bool:
        """Return True for 3 x 3 windows that move pixel by pixel over float32 images of one group."""
        del target
        return is_taken(element.bits, shape)

    @property
    def cycles(self) -> float:
        """Cycles of all steps, and of reading the filter, which the prices of other variants contain too."""
        penalty = WINOGRAD_OF_PAIRS_PENALTY if self.shape.of_pairs else WINOGRAD_PENALTY
        return self.plan.cycles * penalty + packed_filter_cycles(self.element.bits, self.shape)

    def steps(self) -> KernelSteps:
        """Return the kernel steps: transform filters, then pixels if several work items read them, then compute."""
        plan, item = self.plan, self.element.bits // 8
        several = plan.parts > 1
        transform = KernelStep(self.transform, plan.blocks * self._pieces, plan.of_pixels)
        own_images = batch_parts(plan.blocks, self.shape.images, 0)
        cost = plan.cycles - plan.of_filters
        compute = KernelStep(self.compute, plan.blocks * plan.parts, cost, batch_parts=own_images)
        memory_budget = max(self.filters.thread_elements, self.again.filters, 0 if several else plan.block)
        shared = (plan.filters, plan.blocks * plan.block) if several else (plan.filters,)
        own = memory_budget, max(POSITIONS * plan.sums, self.again.pixels)
        steps = (self.filters.step(), *[transform] * several, compute)
        return KernelSteps(steps, tuple(size * item for size in shared), tuple(size * item for size in own))

    # Transforms.

    @property
    def _pieces(self) -> int:
        """Number of work items of a block whose pixels a kernel step of its own transforms."""
        return min(-(-self.plan.wanted // self.plan.blocks), self.plan.few)

    def transform(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Transform pixels; work items are some of the tiles of a block."""
        f, plan, pieces = context.f, self.plan, self._pieces
        for item in f.range(start, stop):
            block, piece = f.index(item) // pieces, f.index(item) % pieces
            first, last = part_of(f, plan.tiles, block, plan.blocks)
            count = f.index(last) - first
            tiles = count * piece // pieces, count * (piece + 1) // pieces
            self._transform(context, context.shared_scratch(1, self.element) + block * plan.block, first, tiles)

    def _transform(self, context: KernelContext, to: Value, first: Index, tiles: tuple[Index, Index]) -> None:
        source = context.operand(0)
        to = context.f.cast(to, BFLOAT16) if self.plan.numbers == 2 else to
        transform_pixels(context.f, self.plan.tiling, self.plan.laid, source, to, BlockOfTiles(first, tiles, tiles[1]))

    # Computation.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; a work item has a block and a part of the panels."""
        f, plan = context.f, self.plan
        bad = f.local()
        for item in f.range(start, stop):
            block = f.index(item) // plan.parts
            first, last = part_of(f, plan.tiles, block, plan.blocks)
            panels = self._panels(f, f.index(item) % plan.parts)
            count = plan.most if plan.most == plan.few else last - first
            if plan.parts == 1:
                at = context.thread_scratch(0, self.element)
                self._transform(context, at, first, (0, count))
            else:
                at = context.shared_scratch(1, self.element) + block * plan.block
            f.store(f.index(0), bad)
            for panel in f.range(*panels):
                for columns in by_size(f, self.shape.wide, plan.width, f.index(panel)):
                    self._multiply(context, at, f.index(panel), columns, count)
                    finite = self._finish(context, f.index(panel), columns, first, count)
                    f.store(f.load(bad) | where(finite, f.index(0), self._noted(context, panel)), bad)
            with f.when(f.load(bad).not_equal(0)):
                for panel in f.range(*panels):
                    with f.when((f.load(bad) & self._noted(context, panel)).not_equal(0)):
                        self.again.write(context, first, last, f.index(panel))

    def _panels(self, f: Function, part: Value) -> tuple[Index, Index]:
        """Return the panels of a part, which has whole nominal panels."""
        plan = self.plan
        if plan.parts == 1 or plan.panels_per_nominal == 1:
            return part_of(f, plan.panels, part, plan.parts)
        first, stop = part_of(f, plan.nominal_panels, part, plan.parts)
        return first * plan.panels_per_nominal, minimum(f.index(stop) * plan.panels_per_nominal, plan.panels)

    def _noted(self, context: KernelContext, panel: Index) -> Value:
        """Return the bit of a nominal panel in the word of those that are not finite; with many, that of all."""
        f, plan = context.f, self.plan
        if plan.nominal_panels > MAX_NOTED_PANELS:
            return f.index(1)
        number = f.index(panel)
        return f.index(1) << (number // plan.panels_per_nominal if plan.panels_per_nominal > 1 else number)

    def _multiply(self, context: KernelContext, at: Value, panel: Value, columns: int, count: Index) -> None:
        """Compute the products at all positions with a panel."""
        f, plan = context.f, self.plan
        filters, sums = (
            context.shared_scratch(0, self.element) + panel * plan.panel,
            context.thread_scratch(1, self.element),
        )
        rows = [i * plan.tile for i in range(plan.rows)]
        for position in f.range(0, POSITIONS):
            right = filters + f.index(position) * (plan.deep * plan.width)
            for t in starts(f, count, plan.rows):
                left = at + (f.index(position) * plan.position + f.index(t) * plan.tile)
                asks = [self._asking(f, right + plan.deep * plan.width, t)] if not plan.is_near else []
                depth = [DepthLoop(self.shape.deep, 1, plan.width)]
                operands = Tile.of(left, rows, right, columns, self.vector, depth, asks)
                found = prepared_tile(operands, of_pairs=self.shape.of_pairs)
                store_rows(found, sums + (f.index(position) * plan.sums + f.index(t) * plan.width), plan.width)

    def _asking(self, f: Function, following: Value, t: Index) -> Prefetch:
        """Return the prefetch of the next position's filters, of which the tile from number `t` on has its share."""
        plan, line = self.plan, CACHE_LINE_BYTES * 8 // self.element.bits
        tiles, iterations = -(-plan.few // plan.rows), max(self.shape.deep // UNROLLED_DEPTH_STEPS, 1)
        each = -(-plan.deep * plan.width // (line * tiles * iterations))
        begin = following + f.index(t) // plan.rows * (iterations * each * line)

        def ask(i: Index) -> None:
            for far in range(each):
                f.prefetch(begin, i * (each * line // UNROLLED_DEPTH_STEPS) + far * line)

        return ask

    def _finish(self, context: KernelContext, panel: Value, columns: int, first: Index, count: Index) -> Value:
        """Write the output pixels of a block from its products with a panel; return True if all are finite."""
        f, plan = context.f, self.plan
        zero = f.constant(self.vector, 0)
        loop = f.loop(0, count, 1, [zero])
        for t, [seen] in loop:
            tile = plan.tiling.at(f.index(first) + t)
            at = context.thread_scratch(1, self.element) + f.index(t) * plan.width
            for v in range(0, columns, plan.lanes):
                positions = [
                    [f.load(at, (i * TILE_PIXELS + j) * plan.sums + v, plan.lanes) for j in range(TILE_PIXELS)]
                    for i in range(TILE_PIXELS)
                ]
                results = of_sums(positions)
                for i, j, pixel, exists in plan.tiling.outputs(tile):
                    seen = f.fma(results[i][j], zero, seen)  # 0 times infinity or NaN is NaN
                    written(context, plan, pixel, exists, panel * plan.width + v, columns - v, [results[i][j]])
            loop.carry([seen])
        return ~any_lane(is_nan(loop.results[0]))
