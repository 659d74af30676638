"""The gradient of a 3 x 3 filter by Winograd's minimal filtering, transposed: F(3 x 3, 2 x 2).

At each of 16 positions, the transformed pixels of all tiles are multiplied by the transformed gradients of their output
pixels and summed over tiles; the sums become the gradient. Results that are not finite are computed again, tap by tap.

Operands of bfloat16 may be multiplied as pairs of images: the same tile of two neighbouring images. Transformed pixels
and gradients are rounded to bfloat16 then.
"""

from __future__ import annotations

from dataclasses import replace

from runtime.codegen.costs import WINOGRAD_PENALTY
from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import any_lane, is_nan, where
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.kernels.conv.plan import WANTED_ITEMS
from runtime.codegen.kernels.conv.winograd.gradient_plan import (
    ITEM_CHANNEL_MULTIPLE,
    are_taken,
    planned_filters,
)
from runtime.codegen.kernels.conv.winograd.non_finite_filters import NonFiniteChannels
from runtime.codegen.kernels.conv.winograd.tiles import (
    BlockOfTiles,
    ImageTile,
    in_row,
    transform_pixels,
    vectors_of,
    zeros_of,
)
from runtime.codegen.kernels.conv.winograd.transforms import (
    FILTER_TAPS,
    POSITIONS,
    TILE_OUTPUTS,
    TILE_PIXELS,
    of_gradients,
    of_products,
)
from runtime.codegen.kernels.depth import UNROLLED_DEPTH_STEPS, DepthLoop, Prefetch, Tile
from runtime.codegen.kernels.matmul import in_shares
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, batch_parts
from runtime.codegen.kernels.tiles import add_rows, by_size, prepared_tile, store_rows
from runtime.codegen.machine import CACHE_LINE_BYTES, Target


class WinogradFilterGradient:
    """The loops."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.shape, self.plan = shape, planned_filters(target, shape)
        self._nominal = planned_filters(target.nominal, shape.on(target.nominal))
        self.element, self.vector = shape.element, shape.element.of(shape.lanes)
        self.again = NonFiniteChannels(target, replace(shape, images=self._images, of_pairs=False))

    @staticmethod
    def applies(target: Target, shape: FilterGradient) -> bool:
        """Return True for 3 x 3 windows that move pixel by pixel over float32 images of one group."""
        del target
        return are_taken(shape)

    @property
    def _images(self) -> int:
        """The number of images."""
        return self.shape.images * (self.shape.of_pairs + 1)

    @property
    def cycles(self) -> float:
        """Cycles of all steps on the nominal target: this price chooses a variant, and so sets bits."""
        return self._nominal.cycles * WINOGRAD_PENALTY

    def steps(self) -> KernelSteps:
        """Return the kernel steps; the operands are the input and the gradient of the result."""
        plan, item = self.plan, self.plan.item
        cost = plan.cycles
        pixels, gradients = plan.laid.size * item, plan.gradients * item
        if plan.is_near:
            own_images = batch_parts(plan.parts, self._images, 0, 1)
            add = KernelStep(self.add, plan.parts * plan.ranges, cost, batch_parts=own_images)
            join = KernelStep(self.join, min(WANTED_ITEMS, self.shape.deep), cost / 16)
            return KernelSteps((add, join), (plan.parts * self._sums * item,), (pixels, gradients))
        transform = KernelStep(self.transform, min(plan.wanted, plan.most), plan.of_tiles)
        multiply = KernelStep(self.multiply, plan.work_items, cost)
        return KernelSteps((transform, multiply), (pixels, gradients), (POSITIONS * plan.channels * plan.width * item,))

    # Sums that stay in the caches: work items are parts of all tiles.

    @property
    def _sums(self) -> int:
        """Elements of the sums of a part."""
        return POSITIONS * self.shape.deep * self.shape.wide

    def add(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Transform and multiply block by block, and add to the sums; work items are ranges of panels in parts."""
        f, plan, wide = context.f, self.plan, self.shape.wide
        pixels, gradients = (context.thread_scratch(i, self.element) for i in range(2))
        each = plan.blocks // plan.parts
        for item in f.range(start, stop):
            part, panels = f.index(item) // plan.ranges, self._panels(f, f.index(item) % plan.ranges)
            to = context.shared_scratch(0, self.element) + part * self._sums
            for number in f.range(0, each):
                first, last = part_of(f, plan.tiling.tiles, part * each + number, plan.blocks)
                count = plan.most if plan.most == plan.few else last - first
                self._transform(context, pixels, gradients, BlockOfTiles(first, (0, count), count), panels)
                is_first = f.index(number).equal(0)
                for panel in f.range(*panels):
                    for columns in by_size(f, wide, plan.width, f.index(panel)):
                        at, depth = to + f.index(panel) * plan.width, self.shape.deep * wide
                        self._multiply(f, pixels, gradients, f.index(panel), columns, count, at, wide, depth, is_first)

    def _panels(self, f: Function, number: Value) -> tuple[Index, Index]:
        """Return the panels of a range."""
        return part_of(f, self.plan.panels, number, self.plan.ranges) if self.plan.ranges > 1 else (0, self.plan.panels)

    def join(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Add all parts in order and transform back; work items are input channels."""
        f, shape = context.f, self.shape
        bad, items = f.local(), min(WANTED_ITEMS, shape.deep)
        for item in f.range(start, stop):
            channels = part_of(f, shape.deep, f.index(item), items)
            f.store(f.index(0), bad)
            for c in f.range(*channels):
                for v, tail in vectors_of(f, shape.wide, shape.lanes):
                    at = context.shared_scratch(0, self.element) + (f.index(c) * shape.wide + v)
                    sums = [self._added(f, at + p * shape.deep * shape.wide, tail) for p in range(POSITIONS)]
                    finite = self._back(context, sums, f.index(c) * shape.wide + v, tail)
                    f.store(where(finite, f.load(bad), f.index(1)), bad)
            with f.when(f.load(bad).equal(1)):
                self.again.write(context, *channels)

    def _added(self, f: Function, at: Value, tail: int) -> Value:
        total = f.load(at, 0, self.shape.lanes, tail)
        for part in range(1, self.plan.parts):
            total = total + f.load(at, part * self._sums, self.shape.lanes, tail)
        return total

    # Many sums of few tiles: work items are input channels.

    def transform(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Transform all tiles; work items are some of them."""
        f, plan = context.f, self.plan
        pixels, gradients = (context.shared_scratch(i, self.element) for i in range(2))
        for item in f.range(start, stop):
            tiles = part_of(f, plan.most, f.index(item), min(plan.wanted, plan.most))
            self._transform(context, pixels, gradients, BlockOfTiles(0, tiles, plan.most), (0, plan.panels))

    def multiply(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Compute the sums of all tiles by panels, and transform them back from the caches.

        Work items are input channels.
        """
        f, plan, shape = context.f, self.plan, self.shape
        pixels, gradients, sums = (
            context.shared_scratch(0, self.element),
            context.shared_scratch(1, self.element),
            context.thread_scratch(0, self.element),
        )
        bad = f.local()
        for item in f.range(start, stop):
            begin, depth = f.index(item) * plan.channels, plan.channels * plan.width
            f.store(f.index(0), bad)
            for panel in f.range(0, plan.panels):
                for columns in by_size(f, shape.wide, plan.width, f.index(panel)):
                    self._multiply(
                        f,
                        pixels + item * (POSITIONS * plan.laid.position),
                        gradients,
                        f.index(panel),
                        columns,
                        plan.most,
                        sums,
                        plan.width,
                        depth,
                        None,
                    )
                    for c in f.range(0, plan.channels):
                        for v in range(0, columns, shape.lanes):
                            at = sums + (f.index(c) * plan.width + v)
                            found = [f.load(at, p * depth, shape.lanes) for p in range(POSITIONS)]
                            pixel = (begin + c) * shape.wide + (f.index(panel) * plan.width + v)
                            finite = self._back(context, found, pixel, min(shape.lanes, columns - v))
                            note = f.index(1) << f.index(c) // ITEM_CHANNEL_MULTIPLE
                            f.store(f.load(bad) | where(finite, f.index(0), note), bad)
            with f.when(f.load(bad).not_equal(0)):
                for c in f.range(0, plan.channels, ITEM_CHANNEL_MULTIPLE):
                    with f.when((f.load(bad) >> f.index(c) // ITEM_CHANNEL_MULTIPLE & 1).not_equal(0)):
                        self.again.write(context, begin + c, begin + c + ITEM_CHANNEL_MULTIPLE)

    # Used by both.

    def _transform(
        self,
        context: KernelContext,
        pixels: Value,
        gradients: Value,
        block: BlockOfTiles,
        panels: tuple[Index, Index],
    ) -> None:
        """Transform the pixels of some tiles, and panels of their gradients."""
        f, plan, shape, x, dy = context.f, self.plan, self.shape, context.operand(0), context.operand(1)
        transform_pixels(f, plan.tiling, plan.laid, x, pixels, block)
        for row, own in block.rows(f, plan.tiling):
            images = self._outputs(f, dy, own)
            for panel in f.range(*panels):
                for columns in by_size(f, shape.wide, plan.width, f.index(panel)):
                    to = gradients + (f.index(panel) * (POSITIONS * plan.gradient) + f.index(row) * plan.width)
                    begin = f.index(panel) * plan.width
                    for v in range(0, columns, shape.lanes):
                        tail = min(shape.lanes, columns - v)
                        found = [_transformed(f, outputs, begin, v, shape.lanes, tail) for outputs in images]
                        for number, x in enumerate(in_row(plan.tiling, found)):
                            f.store(x, to, number * plan.gradient + v)

    def _outputs(self, f: Function, dy: Value, own: list[ImageTile]) -> list[list[list[Value]]]:
        """Return the addresses of the gradients of each tile's output pixels."""
        nothing, wide = zeros_of(f, dy, self.shape.wide), self.shape.wide
        images: list[list[list[Value]]] = []
        for of_image in own:
            found = [[nothing] * TILE_OUTPUTS for _ in range(TILE_OUTPUTS)]
            for i, j, pixel, exists in self.plan.tiling.outputs(of_image):
                at = dy + pixel * wide
                found[i][j] = at if exists is None else where(exists, at, nothing)
            images.append(found)
        return images

    def _multiply(
        self,
        f: Function,
        pixels: Value,
        gradients: Value,
        panel: Value,
        columns: int,
        count: Index,
        to: Value,
        row: int,
        position: int,
        is_first: Value | None,
    ) -> None:
        """Compute the sums over `count` tiles at all positions; `row` and `position` are their strides."""
        plan = self.plan
        depth = [DepthLoop(count, plan.laid.tile, plan.width)]
        for p in f.range(0, POSITIONS):
            right = gradients + (panel * POSITIONS + p) * plan.gradient
            left = pixels + f.index(p) * plan.laid.position
            for c, size in in_shares(f, plan.tiles_of_rows):
                at = to + (f.index(p) * position + f.index(c) * row)
                asks = [] if plan.is_near else [self._asking(f, right + plan.gradient, c)]
                operands = Tile.of(left + c, [*range(size)], right, columns, self.vector, depth, asks)
                sums = prepared_tile(operands, of_pairs=self.shape.of_pairs)
                if is_first is None:
                    store_rows(sums, at, row)
                else:
                    add_rows(sums, at, row, columns, is_first)

    def _asking(self, f: Function, following: Value, c: Index) -> Prefetch:
        """Return the prefetch of the next gradients, of which the tile from channel `c` on has its share."""
        plan, line = self.plan, CACHE_LINE_BYTES // self.plan.item
        iterations = max(plan.most // UNROLLED_DEPTH_STEPS, 1)
        each = -(-plan.gradient // (line * iterations * sum(many for _, many in plan.tiles_of_rows)))
        begin = following + f.index(c) // min(size for size, _ in plan.tiles_of_rows) * (iterations * each * line)

        def ask(i: Index) -> None:
            for far in range(each):
                f.prefetch(begin, i * (each * line // UNROLLED_DEPTH_STEPS) + far * line)

        return ask

    def _back(self, context: KernelContext, sums: list[Value], pixel: Value, tail: int) -> Value:
        """Write all taps of a vector of the gradient; return a vector that is NaN in lanes that are not finite."""
        f, shape = context.f, self.shape
        zero = f.constant(self.vector, 0)
        seen = zero
        for i, line in enumerate(of_products([sums[k : k + TILE_PIXELS] for k in range(0, POSITIONS, TILE_PIXELS)])):
            for j, x in enumerate(line):
                seen = f.fma(x, zero, seen)  # 0 times infinity or NaN is NaN
                f.store(x, context.outputs[0] + pixel, (i * FILTER_TAPS + j) * shape.deep * shape.wide, tail)
        return ~any_lane(is_nan(seen))


def _transformed(f: Function, outputs: list[list[Value]], begin: Value, v: int, lanes: int, tail: int) -> list[Value]:
    """Return the positions of a vector of channels of these output pixels."""
    found = of_gradients([[f.load(at + begin, v, lanes, tail) for at in line] for line in outputs])
    return [x for line in found for x in line]
