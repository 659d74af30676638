"""A convolution, or the gradient of its input: a product whose rows are pixels and whose depth is taps and channels.

A work item copies its part of the source, padded with zeros, into scratch of its thread, and computes with it panel by
panel of the filter. If the filter is larger than the images, a work item is one panel for all images instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from runtime.codegen.costs import PACKED_ELEMENT_CYCLES, multiply_add_cycles
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import maximum, minimum, where
from runtime.codegen.kernels.conv.axes import Axis, AxisPhase
from runtime.codegen.kernels.conv.borders import Border, Images, bordered, first_operand, onward
from runtime.codegen.kernels.conv.plan import ConvPlan, ConvShape, ConvTile
from runtime.codegen.kernels.depth import DepthLoop, PairForm, Prefetch, Tile
from runtime.codegen.kernels.matmul import Matrix, Operand, PairedMatrix, in_shares
from runtime.codegen.kernels.matmul.packing import packed_right
from runtime.codegen.kernels.matmul.plan import shares
from runtime.codegen.kernels.pair_products import are_finite_exponents, largest_exponents
from runtime.codegen.kernels.split import part_of
from runtime.codegen.kernels.steps import KernelContext, KernelStep, KernelSteps, Prepack, batch_parts
from runtime.codegen.kernels.tiles import by_size, choice, prefetching, rows_of_tile, starts
from runtime.codegen.machine import CACHE_LINE_BYTES, Target


class Region(NamedTuple):
    """The part of the result that a work item computes: ranges of images, of output rows, and of panels."""

    images: tuple[Index, Index]
    rows: tuple[Index, Index]
    panels: tuple[Index, Index]


def correlation_steps(target: Target, element: Type, shape: ConvShape, plan: ConvPlan) -> KernelSteps:
    """Return the kernel steps: copies that all work items read, and the computation; operands are source and filter."""
    convolution = Correlation(element, shape, plan)
    item = element.bits // 8
    steps = multiply_add_cycles(target, plan.lanes, shape.steps)
    kernel_steps: list[KernelStep] = []
    shared: list[int] = []
    own: list[int] = []
    if plan.packs:
        size = convolution.panel_size * (1 if plan.by_panels else convolution.panels) * item
        (own if plan.by_panels else shared).append(size)
        if not plan.by_panels:
            pack = KernelStep(
                convolution.pack,
                convolution.panels * shape.taps,
                shape.filters * PACKED_ELEMENT_CYCLES,
                prepack=Prepack((1,), (0,)),
            )
            kernel_steps.append(pack)
    if plan.copies:
        size = convolution.border.size * item
        if plan.by_panels:
            kernel_steps.append(KernelStep(convolution.copy, shape.images, shape.source * PACKED_ELEMENT_CYCLES))
        (shared if plan.by_panels else own).append(size * (shape.images if plan.by_panels else convolution.most_images))
    if any(plan.splits[:2]):
        own.append(convolution.total_size * item)
    own_images = None if plan.by_panels else batch_parts(plan.images, shape.images, 0)
    items = plan.images * plan.rows * plan.columns
    kernel_steps.append(KernelStep(convolution.compute, items, steps, batch_parts=own_images))
    return KernelSteps(tuple(kernel_steps), tuple(shared), tuple(own))


class Correlation:
    """The loops of a convolution."""

    def __init__(self, element: Type, shape: ConvShape, plan: ConvPlan) -> None:
        self.element, self.shape, self.plan = element, shape, plan
        self.vector = element.of(plan.lanes)
        self.across = -(-shape.wide // plan.width)
        self.panels = shape.groups * self.across
        self.has_own_copy = plan.packs if plan.by_panels else plan.copies
        self.deep = shape.deep * plan.elements
        self.filter_size = shape.taps * self.deep * plan.width
        self.panel_size = self.filter_size + shape.taps * plan.lanes * plan.omits_border
        self.total_size = plan.block.images * plan.block.rows * plan.block.columns * plan.width
        self.most_images = -(-shape.images // plan.images)
        self.most_rows = -(-shape.rows.pixels // plan.rows)
        channels = shape.groups * self.deep
        self.border = Border.around(shape.rows, shape.columns, self.most_rows, channels, plan.pixel)
        if plan.omits_border:
            self.border = self.border._replace(gap=self._gap(self.border.size))

    def _gap(self, size: int) -> int:
        """Return the elements between images of this size, whose pixels then begin in different cache sets."""
        line = CACHE_LINE_BYTES * 8 // self.element.bits
        return -size % line + line * (-(-size // line) % 2 == 0)

    # Copies.

    def pack(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Pack the filter; work items are its taps in a panel."""
        f, shape = context.f, self.shape
        for item in f.range(start, stop):
            panel, tap = f.index(item) // shape.taps, f.index(item) % shape.taps
            self._pack_tap(context, context.shared_scratch(0, self.element) + panel * self.panel_size, panel, tap)

    def copy(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Copy the images; work items are images."""
        f, border, source = context.f, self.border, context.operand(0)
        image = border.rows * border.columns * border.between
        for item in f.range(start, stop):
            to = context.shared_scratch(0, self.element) + item * border.size
            bordered(f, border, source + item * image, to, 1, 0, border.height, self.vector, self.plan.is_chained)

    def _pack_tap(self, context: KernelContext, panel_at: Value, panel: Index, tap: Index) -> None:
        f, shape, width = context.f, self.shape, self.plan.width
        group, j = f.index(panel) // self.across, f.index(panel) % self.across
        to = panel_at + tap * (self.deep * width)
        matrix = self._filter(context, group, tap).moved(0, j * width)

        for columns in by_size(f, shape.wide, width, j):
            packed_right(f, matrix, to, shape.deep, columns, width, shape.deep, self.vector)
            if self.plan.omits_border:
                largest = largest_exponents(f, to, self.deep, columns, width, self.plan.lanes)
                f.store(largest, panel_at + (self.filter_size + tap * self.plan.lanes))

    def is_finite(self, packed: Matrix) -> Value | None:
        """Return True, as a scalar, if a panel is finite, so that taps may be left out; None if none are."""
        if not self.plan.omits_border:
            return None
        f, lanes = packed.at.function, self.plan.lanes
        noted = [f.load(packed.at + self.filter_size, tap * lanes, lanes) for tap in range(self.shape.taps)]
        return are_finite_exponents(noted)

    def _filter(self, context: KernelContext, group: Index, tap: Index) -> Operand:
        """Return the matrix of a tap of the filter, depth by output channels."""
        f, shape, w = context.f, self.shape, context.operand(1)
        deep = shape.channels
        of_tap = f.index(tap) * (shape.groups * deep * shape.wide)
        if shape.is_filter_transposed:
            matrix = Matrix(w + (of_tap + group * deep), 1, shape.groups * deep)
        else:
            matrix = Matrix(w + (of_tap + group * shape.wide), shape.groups * shape.wide)
        if not shape.of_pairs:
            return matrix
        is_widened, is_chained = self.plan.is_widened, self.plan.is_chained
        return PairedMatrix(matrix, is_left=False, depth=deep, is_widened=is_widened, is_chained=is_chained)

    # Computation.

    def compute(self, context: KernelContext, start: Value, stop: Value) -> None:
        """Write the computation; work items are ranges of images, of their rows, and of panels."""
        f, plan = context.f, self.plan
        for item in f.range(start, stop):
            rest, panels = f.index(item) // plan.columns, part_of(f, self.panels, item % plan.columns, plan.columns)
            images = part_of(f, self.shape.images, rest // plan.rows, plan.images)
            rows = part_of(f, self.shape.rows.pixels, rest % plan.rows, plan.rows)
            region = Region(images, rows, panels)
            at = self._source(context, region)
            for panel in f.range(*panels):
                self._panel(context, at, region, f.index(panel))

    def _source(self, context: KernelContext, region: Region) -> Images:
        """Return the padded part of the source that a region sees."""
        f, border, plan = context.f, self.border, self.plan
        line = border.columns * border.between
        first = region.rows[0] * self.shape.rows.step
        begin = onward(first_operand(context), region.images[0] * (border.rows * border.columns), border.between)
        if not plan.copies:
            assert isinstance(begin, Value), "it is in memory"
            return Images(begin + first * line, border.rows * line, line, border.between)
        if plan.by_panels:
            return Images(
                context.shared_scratch(0, self.element), border.size, border.width * border.pixel, border.pixel
            )
        count, rows = (stop - start for start, stop in (region.images, region.rows))
        height = (rows - self.most_rows) * self.shape.rows.step + border.height
        to, is_chained = context.thread_scratch(0, self.element), plan.is_chained
        return bordered(f, border, begin, to, count, first, height, self.vector, is_chained)

    def _panel(self, context: KernelContext, at: Images, region: Region, panel: Value) -> None:
        f, shape, plan = context.f, self.shape, self.plan
        group, j = panel // self.across, panel % self.across
        packed = self._packed(context, panel)
        finite = self.is_finite(packed)

        for columns in by_size(f, shape.wide, plan.width, j):
            for r in f.range(0, len(shape.rows.phases)):
                for c in f.range(0, len(shape.columns.phases)):
                    _Tiles(self, context, at, region, packed, finite, group, j * plan.width, columns, (r, c)).write()

    def _packed(self, context: KernelContext, panel: Value) -> Matrix:
        f, plan, size = context.f, self.plan, self.panel_size
        if not plan.packs:
            matrix = self._filter(context, 0, 0).moved(0, panel * plan.width)
            assert isinstance(matrix, Matrix), "pairs of a filter are packed"
            return matrix
        if not plan.by_panels:
            return Matrix(context.shared_scratch(0, self.element) + panel * size, plan.width)
        to = context.thread_scratch(0, self.element)
        for tap in f.range(0, self.shape.taps):
            self._pack_tap(context, to, panel, tap)
        return Matrix(to, plan.width)


class _RuntimePhase(NamedTuple):
    """The fields of a phase whose number is known at run time only."""

    first: Index
    pixels: Index
    taps: Index
    start: Index
    filters: Index
    onward: Index


class _Tiles:
    """The tiles of a panel in a phase."""

    def __init__(
        self,
        convolution: Correlation,
        context: KernelContext,
        at: Images,
        region: Region,
        packed: Matrix,
        finite: Value | None,
        group: Value,
        channel: Value,
        columns: int,
        phase: tuple[Index, Index],
    ) -> None:
        self.convolution, self.context, self.f, self.at, self.region, self.packed = (
            convolution,
            context,
            context.f,
            at,
            region,
            packed,
        )
        self.finite = finite
        self.shape, self.plan, self.columns = convolution.shape, convolution.plan, columns
        self.rows = _chosen(context.f, convolution.shape.rows.phases, phase[0])
        self.across = _chosen(context.f, convolution.shape.columns.phases, phase[1])
        self.channel = group * convolution.shape.wide + channel
        self.left = at.at + group * convolution.deep

    def write(self) -> None:
        """Write all tiles; the last tile of a line overlaps the one before, so that all are equally large."""
        f, block, (first, stop) = self.f, self.plan.block, self.region.rows
        height = minimum(f.index(stop), self.rows.pixels) - first if self.plan.rows > 1 else self.rows.pixels
        for n, images in self._images():
            tile = block._replace(images=images)
            for r in starts(f, height, block.rows):
                for c in starts(f, self.across.pixels, block.columns):
                    self._tile(n, r, c, tile)

    def _images(self) -> Iterator[tuple[Index, int]]:
        """Yield the first image and the number of images of tiles."""
        f, block, (first, stop) = self.f, self.plan.block, self.region.images
        if not self.plan.omits_border:
            for n in starts(f, stop - first, block.images):
                yield n, block.images
            return
        sizes = shares(self.shape.images, block.images)
        if isinstance(first, Value):  # a work item has one tile
            for size, _ in sizes:
                with f.when((stop - first).equal(size)):
                    yield 0, size
            return
        yield from in_shares(f, sizes)

    def _tile(self, n: Index, r: Index, c: Index, block: ConvTile) -> None:
        f, at = self.f, self.at
        rows, columns = self.shape.rows, self.shape.columns
        left = self.left + f.index(n) * at.image + (self.rows.start + f.index(r) * rows.step) * at.row
        left = left + (self.across.start + f.index(c) * columns.step) * at.pixel
        pixels = [(i, j, k) for i in range(block.images) for j in range(block.rows) for k in range(block.columns)]
        offsets = [i * at.image + j * rows.step * at.row + k * columns.step * at.pixel for i, j, k in pixels]
        sums = self._sums(left, offsets, r, c)
        height, width = (sum(phase.pixels for phase in axis.phases) for axis in (rows, columns))
        image, row = n + self.region.images[0], self.rows.first + (r + self.region.rows[0]) * rows.every
        pixel = (image * height + row) * width + self.across.first + c * columns.every
        onward = [(i * height + j * rows.every) * width + k * columns.every for i, j, k in pixels]
        self._finish(sums, pixel, onward)

    def _finish(self, sums: Iterable[list[Value]], pixel: Index, onward: list[int]) -> None:
        """Pass the vectors of a tile to the epilogue; `onward` has the distances of its pixels from the first."""
        lanes, channels, finish = self.plan.lanes, self.shape.groups * self.shape.wide, self.context.finish
        vectors = (
            (far, v * lanes, min(lanes, self.columns - v * lanes), x)
            for far, line in zip(onward, sums, strict=True)
            for v, x in enumerate(line)
        )
        if finish is not None:
            for far, c, tail, x in vectors:
                finish(x, pixel + far, self.channel + c, tail)
            return
        result = self.context.outputs[0] + (pixel * channels + self.channel)
        for far, c, tail, x in vectors:
            self.f.store(x, result, far * channels + c, tail)

    def _sums(self, left: Value, offsets: list[int], r: Index, c: Index) -> Iterable[list[Value]]:
        """Return the sums of a tile by pixel: each block of the depth is a chain, and the chains are added in order."""
        f, vector = self.f, self.convolution.vector
        right = self.packed.at + (self.rows.filters * self.shape.window[1] + self.across.filters) * self._tap
        loops, cut = self._depth()
        if self.finite is not None:
            for i, (phase, axis, position) in enumerate(
                ((self.rows, self.shape.rows, r + self.region.rows[0]), (self.across, self.shape.columns, c))
            ):
                first, stop = _taps_inside(f, phase, axis, position)
                first, stop = where(self.finite, first, f.index(0)), where(self.finite, stop, f.index(phase.taps))
                left, right = left + first * loops[i].left, right + first * loops[i].right
                loops[i] = loops[i]._replace(iterations=stop - first)
        if not cut:
            return self._tile_sums(left, offsets, right, loops, self._ahead(left, offsets))
        total = self.context.thread_scratch(int(self.convolution.has_own_copy), self.convolution.element)
        across = -(-self.columns // vector.lanes)
        count = len(offsets) * across
        for i in range(count):
            f.store(f.constant(vector, 0), total, i * vector.lanes)
        self._add(total, count, left, offsets, right, loops, cut)
        numbers = (range(i, i + across) for i in range(0, count, across))
        return ([f.load(total, i * vector.lanes, vector.lanes) for i in each] for each in numbers)

    def _tile_sums(
        self, left: Value, offsets: list[int], right: Value, loops: list[DepthLoop], asks: list[Prefetch]
    ) -> Iterator[list[Value]]:
        pairs = PairForm(self.plan.is_widened, self.plan.is_chained) if self.shape.of_pairs else None
        operands = Tile.of(left, offsets, right, self.columns, self.convolution.vector, loops, asks)
        return rows_of_tile(operands, pairs=pairs)

    def _ahead(self, left: Value, offsets: list[int]) -> list[Prefetch]:
        """Return prefetches of the next tile's pixels, if they follow in memory.

        The hardware prefetcher does not find them.
        """
        shape, block, far = self.shape, self.plan.block, len(offsets) * self.at.pixel
        follows = block.images == block.rows == 1 and shape.columns.step == 1
        if shape.taps > 1 or self.plan.copies or shape.groups > 1 or not follows:
            return []
        return [prefetching(self.f, left + far, len(offsets))]

    def _add(
        self, total: Value, count: int, left: Value, offsets: list[int], right: Value, loops: list[DepthLoop], cut: int
    ) -> None:
        f, vector = self.f, self.convolution.vector
        if cut:
            for i in f.range(0, loops[0].iterations):
                self._add(
                    total, count, left + i * loops[0].left, offsets, right + i * loops[0].right, loops[1:], cut - 1
                )
            return
        sums = self._tile_sums(left, offsets, right, loops, [])
        for i, x in enumerate(chain.from_iterable(sums)):
            f.store(f.load(total, i * vector.lanes, vector.lanes) + x, total, i * vector.lanes)

    @property
    def _tap(self) -> int:
        """Elements of a tap of the filter."""
        return self.convolution.deep * self.packed.row

    def _depth(self) -> tuple[list[DepthLoop], int]:
        """Return the loops of the depth, and the number of leading loops that are split."""
        shape, at, (by_rows, by_columns, pieces) = self.shape, self.at, self.plan.splits
        each = self.plan.elements
        next_row = each * self.packed.row
        rows = DepthLoop(self.rows.taps, shape.rows.apart * at.row, self.rows.onward * shape.window[1] * self._tap)
        columns = DepthLoop(self.across.taps, shape.columns.apart * at.pixel, self.across.onward * self._tap)
        if pieces > 1:
            size = shape.deep // pieces
            parts = DepthLoop(pieces, size * each, size * next_row)
            return [rows, columns, parts, DepthLoop(size, each, next_row)], 3
        channels = DepthLoop(shape.deep, each, next_row)
        goes_on = (
            not self.plan.omits_border
            and columns.left == self.convolution.deep
            and self.across.onward == 1
            and isinstance(columns.iterations, int)
        )
        if goes_on and not by_columns and isinstance(columns.iterations, int):
            return [rows, DepthLoop(columns.iterations * shape.deep, each, next_row)], int(by_rows)
        return [rows, columns, channels], by_rows + by_columns


def _taps_inside(f: Function, phase: _RuntimePhase, axis: Axis, position: Index) -> tuple[Value, Value]:
    """Return the first tap at a position that is inside of the source, and the one after the last."""
    start = phase.start + f.index(position) * axis.step - axis.before
    first = maximum(0 - start, 0)
    return first, maximum(minimum(axis.source - start, phase.taps), first)


def _chosen(f: Function, phases: Sequence[AxisPhase], number: Index) -> _RuntimePhase:
    return _RuntimePhase(*(choice(f, number, options) for options in zip(*phases, strict=True)))
