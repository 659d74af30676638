"""A convolution with filters of 3 x 3, or the gradient of its input, by Winograd's minimal filtering F(2 x 2, 3 x 3).

4 multiply-adds for a place, and a pair of channels, instead of 9. A unit has a block of tiles and a part of the panels
of channels: it transforms the pixels of its tiles to 16 positions, multiplies at each of them the tiles with the panel,
and transforms back while sums are in near caches. What is not finite is made again, place by place.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import any_lane, is_nan, where
from runtime.codegen.kernels.conv.correlation import lines, part_of
from runtime.codegen.kernels.conv.plan import WANTED, Shape
from runtime.codegen.kernels.conv.winograd.again import Again, written
from runtime.codegen.kernels.conv.winograd.filters import Filters
from runtime.codegen.kernels.conv.winograd.plan import GAIN, is_taken, planned
from runtime.codegen.kernels.conv.winograd.tiles import transform_pixels
from runtime.codegen.kernels.conv.winograd.transforms import POSITIONS, SIDE, of_sums
from runtime.codegen.kernels.stages import Stage, Stages, Work
from runtime.codegen.kernels.tiles import UNROLL, Along, Ask, by_size, starts, tile
from runtime.codegen.machine import LINE, Target

NANOSECONDS: Final = 0.4
"""Of a cycle."""


class Winograd:
    """The loops."""

    def __init__(self, target: Target, element: Type, shape: Shape) -> None:
        self.element, self.shape, self.plan = element, shape, planned(target, element.bits, shape)
        self.vector = element.of(self.plan.lanes)
        self.filters, self.again = Filters(element, self.plan), Again(element, self.plan)

    @staticmethod
    def takes(element: Type, shape: Shape) -> bool:
        """Whether there are such loops for it."""
        return is_taken(element.bits, shape)

    def is_wanted(self, cycles: float) -> bool:
        """Whether they take less time than what takes so many cycles."""
        return self.plan.cycles * GAIN < cycles

    def stages(self) -> Stages:
        """What transforms the filters; the pixels, if several units need them; and what computes."""
        plan, item = self.plan, self.element.bits // 8
        several = plan.parts > 1
        transform = Stage(self.transform, plan.blocks * self._pieces, plan.of_pixels * NANOSECONDS)
        compute = Stage(self.compute, plan.blocks * plan.parts, (plan.cycles - plan.of_filters) * NANOSECONDS)
        room = max(self.filters.room, self.again.filters, 0 if several else plan.block)
        shared = (plan.filters, plan.blocks * plan.block) if several else (plan.filters,)
        own = room, max(POSITIONS * plan.sums, self.again.pixels)
        stages = (self.filters.stage(), *[transform] * several, compute)
        return Stages(stages, tuple(size * item for size in shared), tuple(size * item for size in own))

    # What is transformed.

    @property
    def _pieces(self) -> int:
        """Units of a block whose pixels are transformed by a stage of their own."""
        return min(-(-WANTED // self.plan.blocks), self.plan.few)

    def transform(self, work: Work, start: Value, stop: Value) -> None:
        """Units are some of the tiles of a block."""
        f, plan, pieces = work.f, self.plan, self._pieces
        for unit in f.range(start, stop):
            block, piece = f.index(unit) // pieces, f.index(unit) % pieces
            first, last = part_of(f, plan.tiles, block, plan.blocks)
            count = f.index(last) - first
            tiles = count * piece // pieces, count * (piece + 1) // pieces
            self._transform(work, work.shared(1, self.element) + block * plan.block, first, tiles)

    def _transform(self, work: Work, to: Value, first: Index, tiles: tuple[Index, Index]) -> None:
        source = work.inputs[0]
        assert source is not None, "a convolution has a source"
        transform_pixels(work.f, self.plan.tiling, self.plan.laid, source, to, first, tiles)

    # What is computed.

    def compute(self, work: Work, start: Value, stop: Value) -> None:
        """Units are blocks, and of each a part of the panels."""
        f, plan = work.f, self.plan
        bad = f.local()
        for unit in f.range(start, stop):
            block = f.index(unit) // plan.parts
            first, last = part_of(f, plan.tiles, block, plan.blocks)
            panels = part_of(f, plan.panels, f.index(unit) % plan.parts, plan.parts)
            count = plan.most if plan.most == plan.few else last - first
            if plan.parts == 1:
                at = work.own(0, self.element)
                self._transform(work, at, first, (0, count))
            else:
                at = work.shared(1, self.element) + block * plan.block
            f.store(f.index(0), bad)
            for panel in f.range(*panels):
                for columns in by_size(f, self.shape.wide, plan.width, f.index(panel)):
                    self._multiply(work, at, f.index(panel), columns, count)
                    finite = self._finish(work, f.index(panel), columns, first, count)
                    f.store(where(finite, f.load(bad), f.index(1)), bad)
            with f.when(f.load(bad).equal(1)):
                for panel in f.range(*panels):
                    self.again.write(work, first, last, f.index(panel))

    def _multiply(self, work: Work, at: Value, panel: Value, columns: int, count: Index) -> None:
        """The products of all positions with a panel."""
        f, plan, deep = work.f, self.plan, self.shape.deep
        filters, sums = work.shared(0, self.element) + panel * plan.panel, work.own(1, self.element)
        rows = [i * plan.tile for i in range(plan.rows)]
        for position in f.range(0, POSITIONS):
            right = filters + f.index(position) * (deep * plan.width)
            for t in starts(f, count, plan.rows):
                left = at + (f.index(position) * plan.position + f.index(t) * plan.tile)
                asks = [self._asking(f, right + deep * plan.width, t)] if not plan.is_near else []
                found = tile(f, left, rows, right, columns, self.vector, [Along(deep, 1, plan.width)], asks)
                to = sums + (f.index(position) * plan.sums + f.index(t) * plan.width)
                for i, line in enumerate(lines(found, len(rows))):
                    for v, x in enumerate(line):
                        f.store(x, to, i * plan.width + v * plan.lanes)

    def _asking(self, f: Function, following: Value, t: Index) -> Ask:
        """Asks, in the tiles from the t-th on, for their share of the filters that are read next."""
        plan, line = self.plan, LINE * 8 // self.element.bits
        tiles, turns = -(-plan.few // plan.rows), max(self.shape.deep // UNROLL, 1)
        each = -(-self.shape.deep * plan.width // (line * tiles * turns))
        begin = following + f.index(t) // plan.rows * (turns * each * line)

        def ask(i: Index) -> None:
            for far in range(each):
                f.prefetch(begin, i * (each * line // UNROLL) + far * line)

        return ask

    def _finish(self, work: Work, panel: Value, columns: int, first: Index, count: Index) -> Value:
        """The places of a block, from what a panel made of its tiles; whether all are finite."""
        f, plan = work.f, self.plan
        zero = f.constant(self.vector, 0)
        loop = f.loop(0, count, 1, [zero])
        for t, [seen] in loop:
            tile = plan.tiling.at(f.index(first) + t)
            at = work.own(1, self.element) + f.index(t) * plan.width
            for v in range(0, columns, plan.lanes):
                positions = [
                    [f.load(at, (i * SIDE + j) * plan.sums + v, plan.lanes) for j in range(SIDE)] for i in range(SIDE)
                ]
                results = of_sums(positions)
                for i, j, place, exists in plan.tiling.places(tile):
                    seen = f.fma(results[i][j], zero, seen)  # 0 times what is not finite is NaN
                    written(work, plan, place, exists, panel * plan.width + v, columns - v, [results[i][j]])
            loop.carry([seen])
        return ~any_lane(is_nan(loop.results[0]))
