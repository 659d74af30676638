"""The gradient of a filter for channels with numbers that are not finite: a sum of products for each element."""

from __future__ import annotations

from runtime.codegen.ir import Index
from runtime.codegen.kernels.conv.filter_gradient import inside_of, seen_at
from runtime.codegen.kernels.conv.filter_plan import FilterGradient
from runtime.codegen.kernels.conv.winograd.transforms import FILTER_TAPS
from runtime.codegen.kernels.depth import DepthLoop, Tile
from runtime.codegen.kernels.matmul.plan import tile_shape
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.kernels.tiles import by_size, lines, tile
from runtime.codegen.machine import Target


class NonFiniteChannels:
    """The loops."""

    def __init__(self, target: Target, shape: FilterGradient) -> None:
        self.shape, self.vector = shape, shape.element.of(shape.lanes)
        self.width = tile_shape(target, shape.lanes, 1, shape.wide)[1] * shape.lanes

    def write(self, context: KernelContext, first: Index, stop: Index) -> None:
        """Compute the gradient for these input channels."""
        f, shape, x, dy = context.f, self.shape, context.operand(0), context.operand(1)
        line, image = shape.columns.pixels * shape.wide, shape.rows.pixels * shape.columns.pixels * shape.wide
        row, whole = shape.columns.source * shape.deep, shape.rows.source * shape.columns.source * shape.deep
        for i in f.range(0, FILTER_TAPS):
            top, height = inside_of(f, shape.rows, i, 0, shape.rows.pixels)
            for j in f.range(0, FILTER_TAPS):
                left, width = inside_of(f, shape.columns, j, 0, shape.columns.pixels)
                at = (
                    x
                    + seen_at(shape.rows, f.index(i), top) * row
                    + seen_at(shape.columns, f.index(j), left) * shape.deep
                )
                right = dy + f.index(top) * line + f.index(left) * shape.wide
                depth = [
                    DepthLoop(shape.images, whole, image),
                    DepthLoop(height, row, line),
                    DepthLoop(width, shape.deep, shape.wide),
                ]
                for c in f.range(first, stop):
                    to = context.outputs[0] + ((f.index(i) * FILTER_TAPS + j) * shape.deep + c) * shape.wide
                    for panel in f.range(0, -(-shape.wide // self.width)):
                        begin = f.index(panel) * self.width
                        for columns in by_size(f, shape.wide, self.width, f.index(panel)):
                            sums = tile(Tile.of(at + c, [0], right + begin, columns, self.vector, depth))
                            for v, total in enumerate(lines(sums, 1)[0]):
                                tail = min(shape.lanes, columns - v * shape.lanes)
                                f.store(total, to + begin, v * shape.lanes, tail)
