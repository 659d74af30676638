"""Corrections that turn sums of products of codes into sums of products of differences from zero points.

With the codes x and w, their zero points p and q, v = w - 128 and r = q - 128, a sum over a window of n elements is

    sum (x - p) (w - q) = sum x v - p (sum v - n r) - r sum x

1. `sum x v` is what `vpdpbusd` adds. Padding is p, so it adds nothing to the left side. With `sdot` of NEON, x and p
   are 128 less throughout, which leaves their difference as it is.
2. `sum v` is stored behind the words of each row of taps of a panel, when the filter is packed.
3. `sum x` of each pixel and group is computed once for all panels, as a product with ones, if any r is not 0. Otherwise
   it is multiplied by 0, so that its memory may have any content.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final, NamedTuple

from runtime.codegen.ir import INT32, UINT8, Function, Value
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.depth import DepthLoop, PanelVector, Tile
from runtime.codegen.kernels.integers.shape import IntegerShape
from runtime.codegen.kernels.integers.sums import rows_of_sums
from runtime.codegen.kernels.integers.words import SIGN, SIGNS, has_signed_products, multiply_add, zero_point
from runtime.codegen.kernels.steps import KernelContext

ONE: Final = 0x01010101
"""The word of four ones."""


class Terms(NamedTuple):
    """The terms of the sums of a panel, in vectors of its channels.

    Attributes:
        own: the terms that depend on channels alone.
        rest: factors of the sums of windows; the products are subtracted.
    """

    own: Sequence[Value]
    rest: Sequence[Value]

    def of_pixel(self, windows: Value, number: int) -> list[Value]:
        """Return the terms of a pixel; sums of windows begin at this address."""
        f = windows.function
        window = f.splat(f.load(windows, number), self.own[0].type.lanes)
        return [own - rest * window for own, rest in zip(self.own, self.rest, strict=True)]


class Corrections:
    """The functions that write the corrections of a convolution."""

    def __init__(self, shape: IntegerShape, lanes: int, *, has_many_zeros: bool) -> None:
        self.shape, self.lanes, self.has_many_zeros = shape, lanes, has_many_zeros

    def store_sums(self, f: Function, words: Value, count: int, width: int) -> None:
        """Write the sums of `count` packed rows of `width` words behind them."""
        vector, starts = INT32.of(self.lanes), range(0, width, self.lanes)
        ones = f.constant(vector, ONE)
        ones = ones ^ SIGNS if has_signed_products(f.target) else ones
        loop = f.loop(0, count, 1, [f.constant(vector, 0) for _ in starts])
        for i, sums in loop:
            row = words + f.index(i) * width
            pairs = zip(starts, sums, strict=True)
            loop.carry([multiply_add(ones, f.load(row, j, self.lanes), x, UINT8) for j, x in pairs])
        for j, x in zip(starts, loop.results, strict=True):
            f.store(x, words + count * width, j)

    def terms(self, context: KernelContext, rows: Sequence[Value], channel: Value, count: int) -> Terms:
        """Return the terms of `count` channels, from the addresses of the sums of their rows of taps."""
        f, lanes, zero = context.f, self.lanes, context.operand(3)
        elements = self.shape.rows.window * self.shape.segments * self.shape.length
        p = convert(zero_point(context, 2), INT32)
        p = f.splat(p - SIGN if has_signed_products(f.target) else p, lanes)
        terms = Terms([], [])
        for j in range(0, count, lanes):
            if self.has_many_zeros:
                q = f.load(zero + channel, j, lanes, min(lanes, count - j))
            else:
                q = f.splat(f.load(zero), lanes)
            r, total = convert(q, INT32) - SIGN, f.load(rows[0], j, lanes)
            for row in rows[1:]:
                total = total + f.load(row, j, lanes)
            terms = Terms([*terms.own, p * (r * elements - total)], [*terms.rest, r])
        return terms

    @contextmanager
    def needed(self, context: KernelContext) -> Generator[None]:
        """Run the code inside only if some term needs sums of windows."""
        if self.has_many_zeros:
            yield
            return
        with context.f.when(zero_point(context, 3).not_equal(SIGN)):
            yield

    def store_windows(
        self,
        f: Function,
        left: Value,
        offsets: Sequence[int],
        outer: Sequence[DepthLoop],
        to: Value,
        *,
        in_matrix_tiles: bool,
    ) -> None:
        """Write the sums of the windows of successive pixels, which begin at `offsets` from an address.

        `outer` are the loops around the words of a segment.
        """
        begun: Callable[[int], Sequence[Value]] | None = None
        whole, rest = divmod(self.shape.length, 4)
        loops, lanes = [loop._replace(right=0) for loop in outer], self.lanes
        vectors, vector = [PanelVector(0, lanes)], INT32.of(lanes)
        for first, count, word in ((0, whole, ONE), (whole, int(rest > 0), ONE & ((1 << 8 * rest) - 1))):
            if count:
                ones = f.cast(f.data(f"ones_{word:x}_{lanes}", word.to_bytes(4, "little") * lanes), INT32)
                depth = [*loops, DepthLoop(count, 4, 0)]
                operands = Tile(left + 4 * first, offsets, ones, vectors, vector, depth)
                for i, [x] in enumerate(rows_of_sums(operands, begun, in_matrix_tiles=in_matrix_tiles)):
                    f.store(x, to, i, 1)
                begun = partial(_stored, to, lanes)


def _stored(to: Value, lanes: int, number: int) -> list[Value]:
    """Return the sum that is stored for a pixel, in the first lane."""
    return [to.function.load(to, number, lanes, 1)]
