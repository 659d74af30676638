"""The gradient of a filter of 3 x 3 by Winograd's minimal filtering, turned around: F(3 x 3, 2 x 2).

At each of 16 positions the transformed pixels of all tiles are multiplied with the transformed gradients of their
places and added over tiles; the sums become the gradient. What is not finite is made again, tap by tap.
"""

from __future__ import annotations

from typing import Final

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import any_lane, is_nan, where
from runtime.codegen.kernels.conv.correlation import lines, part_of
from runtime.codegen.kernels.conv.filters import Filters
from runtime.codegen.kernels.conv.winograd.filter_again import FilterAgain
from runtime.codegen.kernels.conv.winograd.gradient_plan import are_taken, planned_filters
from runtime.codegen.kernels.conv.winograd.plan import GAIN
from runtime.codegen.kernels.conv.winograd.tiles import transform_pixels, vectors_of, zeros_of
from runtime.codegen.kernels.conv.winograd.transforms import PLACES, POSITIONS, SIDE, TAPS, of_gradients, of_products
from runtime.codegen.kernels.matmul import in_shares
from runtime.codegen.kernels.stages import Stage, Stages, Work
from runtime.codegen.kernels.tiles import UNROLL, Along, Ask, by_size, tile
from runtime.codegen.machine import LINE, Target

NANOSECONDS: Final = 0.4
"""Of a cycle."""

WANTED: Final = 8
"""Units of what is transformed, or transformed back."""


class WinogradFilters:
    """The loops."""

    def __init__(self, target: Target, shape: Filters) -> None:
        self.shape, self.plan = shape, planned_filters(target, shape)
        self.element, self.vector = shape.element, shape.element.of(shape.lanes)
        self.again = FilterAgain(target, shape)

    @staticmethod
    def takes(shape: Filters) -> bool:
        """Whether there are such loops for it."""
        return are_taken(shape)

    def is_wanted(self, cycles: float) -> bool:
        """Whether they take less time than what takes so many cycles."""
        return self.plan.cycles * GAIN < cycles

    def stages(self) -> Stages:
        """The operands are the input and the gradient of the result."""
        plan, item = self.plan, self.plan.item
        cost = plan.cycles * NANOSECONDS
        pixels, gradients = plan.laid.size * item, plan.gradients * item
        if plan.is_near:
            add = Stage(self.add, plan.parts, cost)
            join = Stage(self.join, min(WANTED, self.shape.deep), cost / 16)
            return Stages((add, join), (plan.parts * self._sums * item,), (pixels, gradients))
        transform = Stage(self.transform, min(WANTED, plan.most), plan.of_tiles * NANOSECONDS)
        multiply = Stage(self.multiply, plan.units, cost)
        return Stages((transform, multiply), (pixels, gradients), (POSITIONS * plan.channels * plan.width * item,))

    # Sums that stay near: units are parts of all tiles.

    @property
    def _sums(self) -> int:
        """Elements of the sums of a part."""
        return POSITIONS * self.shape.deep * self.shape.wide

    def add(self, work: Work, start: Value, stop: Value) -> None:
        """Units are parts: block by block, transformed and added to what is there."""
        f, plan, wide = work.f, self.plan, self.shape.wide
        pixels, gradients = (work.own(i, self.element) for i in range(2))
        each = plan.blocks // plan.parts
        for unit in f.range(start, stop):
            to = work.shared(0, self.element) + unit * self._sums
            for number in f.range(0, each):
                first, last = part_of(f, plan.tiling.tiles, f.index(unit) * each + number, plan.blocks)
                count = plan.most if plan.most == plan.few else last - first
                self._transform(work, pixels, gradients, first, (0, count))
                is_first = f.index(number).equal(0)
                for panel in f.range(0, plan.panels):
                    for columns in by_size(f, wide, plan.width, f.index(panel)):
                        at, depth = to + f.index(panel) * plan.width, self.shape.deep * wide
                        self._multiply(f, pixels, gradients, f.index(panel), columns, count, at, wide, depth, is_first)

    def join(self, work: Work, start: Value, stop: Value) -> None:
        """Units are channels of the input: all parts added in order, and transformed back."""
        f, shape = work.f, self.shape
        bad, units = f.local(), min(WANTED, shape.deep)
        for unit in f.range(start, stop):
            channels = part_of(f, shape.deep, f.index(unit), units)
            f.store(f.index(0), bad)
            for c in f.range(*channels):
                for v, tail in vectors_of(f, shape.wide, shape.lanes):
                    at = work.shared(0, self.element) + (f.index(c) * shape.wide + v)
                    sums = [self._added(f, at + p * shape.deep * shape.wide, tail) for p in range(POSITIONS)]
                    finite = self._back(work, sums, f.index(c) * shape.wide + v, tail)
                    f.store(where(finite, f.load(bad), f.index(1)), bad)
            with f.when(f.load(bad).equal(1)):
                self.again.write(work, *channels)

    def _added(self, f: Function, at: Value, tail: int) -> Value:
        total = f.load(at, 0, self.shape.lanes, tail)
        for part in range(1, self.plan.parts):
            total = total + f.load(at, part * self._sums, self.shape.lanes, tail)
        return total

    # Sums that are many, of few tiles: units are channels of the input.

    def transform(self, work: Work, start: Value, stop: Value) -> None:
        """Units are some of the tiles."""
        f, plan = work.f, self.plan
        pixels, gradients = (work.shared(i, self.element) for i in range(2))
        for unit in f.range(start, stop):
            tiles = part_of(f, plan.most, f.index(unit), min(WANTED, plan.most))
            self._transform(work, pixels, gradients, 0, tiles)

    def multiply(self, work: Work, start: Value, stop: Value) -> None:
        """Units are channels of the input: by panels the sums of all tiles, transformed back while they are near."""
        f, plan, shape = work.f, self.plan, self.shape
        pixels, gradients, sums = work.shared(0, self.element), work.shared(1, self.element), work.own(0, self.element)
        bad = f.local()
        for unit in f.range(start, stop):
            begin, depth = f.index(unit) * plan.channels, plan.channels * plan.width
            f.store(f.index(0), bad)
            for panel in f.range(0, plan.panels):
                for columns in by_size(f, shape.wide, plan.width, f.index(panel)):
                    self._multiply(
                        f,
                        pixels + unit * (POSITIONS * plan.laid.position),
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
                            place = (begin + c) * shape.wide + (f.index(panel) * plan.width + v)
                            finite = self._back(work, found, place, min(shape.lanes, columns - v))
                            f.store(where(finite, f.load(bad), f.index(1)), bad)
            with f.when(f.load(bad).equal(1)):
                self.again.write(work, begin, begin + plan.channels)

    # What both do.

    def _transform(self, work: Work, pixels: Value, gradients: Value, first: Index, tiles: tuple[Index, Index]) -> None:
        """The pixels of these tiles of the block that begins with the first, and the gradients of their places."""
        f, plan, shape, (x, dy) = work.f, self.plan, self.shape, work.inputs
        assert x is not None, "the input is there"
        assert dy is not None, "the gradient of the result is there"
        transform_pixels(f, plan.tiling, plan.laid, x, pixels, first, tiles)
        nothing = zeros_of(f, dy, shape.wide)
        for t in f.range(*tiles):
            found: list[list[Value]] = [[nothing] * PLACES for _ in range(PLACES)]
            for i, j, place, exists in plan.tiling.places(plan.tiling.at(f.index(first) + t)):
                at = dy + place * shape.wide
                found[i][j] = at if exists is None else where(exists, at, nothing)
            for panel in f.range(0, plan.panels):
                for columns in by_size(f, shape.wide, plan.width, f.index(panel)):
                    to = gradients + (f.index(panel) * (POSITIONS * plan.gradient) + f.index(t) * plan.width)
                    begin = f.index(panel) * plan.width
                    for v in range(0, columns, shape.lanes):
                        tail = min(shape.lanes, columns - v)
                        places = [[f.load(at + begin, v, shape.lanes, tail) for at in line] for line in found]
                        for i, line in enumerate(of_gradients(places)):
                            for j, x in enumerate(line):
                                f.store(x, to, (i * SIDE + j) * plan.gradient + v)

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
        """The sums over so many tiles of all positions; rows and positions of them are so far apart."""
        plan, lanes = self.plan, self.shape.lanes
        depth = [Along(count, plan.laid.tile, plan.width)]
        for p in f.range(0, POSITIONS):
            right = gradients + (panel * POSITIONS + p) * plan.gradient
            left = pixels + f.index(p) * plan.laid.position
            for c, size in in_shares(f, plan.tiles_of_rows):
                at = to + (f.index(p) * position + f.index(c) * row)
                asks = [] if plan.is_near else [self._asking(f, right + plan.gradient, c)]
                found = lines(tile(f, left + c, [*range(size)], right, columns, self.vector, depth, asks), size)
                places = [
                    (i * row + v * lanes, min(lanes, columns - v * lanes), x)
                    for i, line in enumerate(found)
                    for v, x in enumerate(line)
                ]
                if is_first is None:
                    for far, _, x in places:
                        f.store(x, at, far)
                    continue
                with f.when(is_first):
                    for far, tail, x in places:
                        f.store(x, at, far, tail)
                with f.when(~is_first):
                    for far, tail, x in places:
                        f.store(f.load(at, far, lanes, tail) + x, at, far, tail)

    def _asking(self, f: Function, following: Value, c: Index) -> Ask:
        """Asks, in the tile of channels from the c-th on, for its share of the gradients that are read next."""
        plan, line = self.plan, LINE // self.plan.item
        turns = max(plan.most // UNROLL, 1)
        each = -(-plan.gradient // (line * turns * sum(many for _, many in plan.tiles_of_rows)))
        begin = following + f.index(c) // min(size for size, _ in plan.tiles_of_rows) * (turns * each * line)

        def ask(i: Index) -> None:
            for far in range(each):
                f.prefetch(begin, i * (each * line // UNROLL) + far * line)

        return ask

    def _back(self, work: Work, sums: list[Value], place: Value, tail: int) -> Value:
        """Write all taps of a vector of the gradient; whether they are finite."""
        f, shape = work.f, self.shape
        zero = f.constant(self.vector, 0)
        seen = zero
        for i, line in enumerate(of_products([sums[k : k + SIDE] for k in range(0, POSITIONS, SIDE)])):
            for j, x in enumerate(line):
                seen = f.fma(x, zero, seen)  # 0 times what is not finite is NaN
                f.store(x, work.outputs[0] + place, (i * TAPS + j) * shape.deep * shape.wide, tail)
        return ~any_lane(is_nan(seen))
