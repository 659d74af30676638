"""Output pixels that Winograd's filtering cannot compute: those near numbers that are not finite.

Sums of pixels carry NaN and Inf to output pixels that do not see them, and make NaN of Inf - Inf; a sum of large pixels
may overflow where the result does not. All of these show as an output pixel that is not finite. Then its block is
computed again by ordinary sums of products.
"""

from __future__ import annotations

from itertools import product

from runtime.codegen.ir import Index, Type, Value
from runtime.codegen.ir.words import where
from runtime.codegen.kernels.conv.winograd.plan import WinogradPlan
from runtime.codegen.kernels.conv.winograd.tiles import ImageTile
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS, TILE_OUTPUTS, TILE_PIXELS
from runtime.codegen.kernels.copies import copied
from runtime.codegen.kernels.depth import DepthLoop, Tile
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.kernels.tiles import by_size, lines, tile


class NonFiniteTiles:
    """The loops.

    Attributes:
        filters: elements of the thread's first scratch, for a panel of the untransformed filter.
        pixels: elements of its second scratch, for the pixels that a tile sees.
    """

    def __init__(self, element: Type, plan: WinogradPlan) -> None:
        self.element, self.plan = element, plan
        self.vector = element.of(plan.lanes)
        self.filters = FILTER_TAPS * FILTER_TAPS * plan.shape.deep * plan.width
        self.pixels = TILE_PIXELS * TILE_PIXELS * plan.shape.deep

    def write(self, context: KernelContext, first: Index, stop: Index, panel: Value) -> None:
        """Compute the output pixels of a range of tiles in a panel of channels."""
        f, plan = context.f, self.plan
        for columns in by_size(f, plan.shape.wide, plan.width, panel):
            self._pack(context, panel, columns)
            for number in f.range(first, stop):
                self._tile(context, plan.tiling.at(f.index(number)), panel, columns)

    def _pack(self, context: KernelContext, panel: Value, columns: int) -> None:
        """Pack the filter tap by tap, in the order in which a tile of pixels reads it."""
        f, plan, w = context.f, self.plan, context.operand(1)
        shape, to, size = plan.shape, context.thread_scratch(0, self.element), plan.shape.deep * plan.width
        rows, across = shape.rows.phases[0], shape.columns.phases[0]
        for tap in f.range(0, FILTER_TAPS * FILTER_TAPS):
            i, j = f.index(tap) // FILTER_TAPS, f.index(tap) % FILTER_TAPS
            at = w + ((i * rows.onward + rows.filters) * FILTER_TAPS + j * across.onward + across.filters) * (
                shape.deep * shape.wide
            )
            matrix = Matrix(at, 1, shape.deep) if shape.is_filter_transposed else Matrix(at, shape.wide)
            matrix = matrix.moved(0, panel * plan.width)
            packed_right(f, matrix, to + f.index(tap) * size, shape.deep, columns, plan.width, shape.deep, self.vector)

    def _tile(self, context: KernelContext, at: ImageTile, panel: Value, columns: int) -> None:
        f, plan, source = context.f, self.plan, context.operand(0)
        deep, copy = plan.shape.deep, context.thread_scratch(1, self.element)
        for i, line in enumerate(plan.tiling.pixels(f, source, deep, at)):
            for j, pixel in enumerate(line):
                copied(f, pixel, copy + (i * TILE_PIXELS + j) * deep, deep, self.vector)
        rows = [(i * TILE_PIXELS + j) * deep for i, j in product(range(TILE_OUTPUTS), repeat=2)]
        nothing = [f.constant(self.vector, 0)] * (len(rows) * -(-columns // plan.lanes))
        loop = f.loop(0, FILTER_TAPS * FILTER_TAPS, 1, nothing)
        for tap, totals in loop:
            down, aside = f.index(tap) // FILTER_TAPS, f.index(tap) % FILTER_TAPS
            left = copy + (down * TILE_PIXELS + aside) * deep
            right = context.thread_scratch(0, self.element) + f.index(tap) * (deep * plan.width)
            sums = tile(Tile.of(left, rows, right, columns, self.vector, [DepthLoop(deep, 1, plan.width)]))
            if plan.shape.is_filter_transposed:
                sums = self._seen(at, down, aside, sums)
            loop.carry([total + x for total, x in zip(totals, sums, strict=True)])
        results = lines(loop.results, len(rows))
        for i, j, position, exists in plan.tiling.outputs(at):
            written(context, plan, position, exists, panel * plan.width, columns, results[i * TILE_OUTPUTS + j])

    def _seen(self, at: ImageTile, down: Value, aside: Value, sums: list[Value]) -> list[Value]:
        """Return sums with 0 for pixels beyond the border: 0 times a filter with NaN or Inf would be NaN."""
        top, left = self.plan.tiling.corner(at)
        found: list[Value] = []
        for (i, j), line in zip(
            product(range(TILE_OUTPUTS), repeat=2), lines(sums, TILE_OUTPUTS * TILE_OUTPUTS), strict=True
        ):
            inside = self.plan.tiling.is_inside(top + down + i, left + aside + j)
            found += [where(inside, x, 0) for x in line]
        return found


def written(
    context: KernelContext,
    plan: WinogradPlan,
    pixel: Value,
    exists: Value | None,
    channel: Value,
    columns: int,
    vectors: list[Value],
) -> None:
    """Pass finished vectors of an output pixel to the epilogue, from `channel` on, if the pixel exists."""
    if exists is not None:
        with context.f.when(exists):
            written(context, plan, pixel, None, channel, columns, vectors)
        return
    for v, x in enumerate(vectors):
        tail = min(plan.lanes, columns - v * plan.lanes)
        if context.finish is not None:
            context.finish(x, pixel, channel + v * plan.lanes, tail)
        else:
            context.f.store(x, context.outputs[0] + (pixel * plan.shape.wide + channel), v * plan.lanes, tail)
