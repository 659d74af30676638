"""The gradients of pooling.

If windows do not overlap and there is no border, the gradient is written window by window. Otherwise, that of a mean is
gathered pixel by pixel. That of maxima is added to whole images, because only the run shows where the maxima are.
"""

from __future__ import annotations

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import convert, minimum, where
from runtime.codegen.kernels.conv.pooling import Pool, is_more
from runtime.codegen.kernels.conv.taps import Bounds, Fold, seeing
from runtime.codegen.kernels.copies import zeros
from runtime.codegen.kernels.steps import KernelContext


def mean_gradient_apart(pool: Pool, context: KernelContext, image: Value, row: Value) -> None:
    """Write the gradient of means of windows that do not overlap: each of their pixels gets the same share."""
    f, dy = context.f, context.operand(0)
    _clear(pool, context, image, row)
    for column, c, count, source in pool.windows(context, image, row):
        share = f.load(dy + pool.place(f, image, row, column), c, pool.lanes, count) * (
            1 / (pool.rows.window * pool.columns.window)
        )
        for i in range(pool.rows.window):
            for j in range(pool.columns.window):
                _put(pool, context, share, source, i, j, c, count)


def largest_gradient_apart(pool: Pool, context: KernelContext, image: Value, row: Value) -> None:
    """Write the gradient of maxima of windows that do not overlap: the first of equal maxima gets all of it."""
    f, x, dy = context.f, context.operand(0), context.operand(1)
    _clear(pool, context, image, row)
    for column, c, count, source in pool.windows(context, image, row):
        winner = _winner(pool, f, x, source, ((0, pool.rows.window), (0, pool.columns.window)), c, count)
        share = f.load(dy + pool.place(f, image, row, column), c, pool.lanes, count)
        for i in range(pool.rows.window):
            for j in range(pool.columns.window):
                here = winner.equal(i * pool.columns.window + j)
                _put(pool, context, where(here, share, 0), source, i, j, c, count)


def largest_gradient(pool: Pool, context: KernelContext, image: Value, row: Value) -> None:
    """Write the gradient of maxima of a whole image, for the vector of channels with the number `row`."""
    f, x, dy, dx = context.f, context.operand(0), context.operand(1), context.outputs[0]
    c = row * pool.lanes
    count = minimum(pool.channels - c, pool.lanes) if pool.channels % pool.lanes else pool.lanes
    start = pool.pixel(f, image, 0, 0)
    for pixel in f.range(0, pool.rows.source * pool.columns.source):
        f.store(f.constant(pool.vector, 0), dx + start, f.index(pixel) * pool.channels + c, count)
    for i in f.range(0, pool.rows.pixels):
        for j in f.range(0, pool.columns.pixels):
            source = pool.source(f, image, i, j)
            bounds = pool.under(f, i, j)
            winner = _winner(pool, f, x, source, bounds, c, count)
            share = f.load(dy + pool.place(f, image, i, j), c, pool.lanes, count)
            for a, b, _ in Fold(f, *bounds):
                at = dx + source + (a * pool.columns.source + b) * pool.channels
                here = winner.equal(_number(pool, f, a, b))
                f.store(f.load(at, c, pool.lanes, count) + where(here, share, 0), at, c, count)


def mean_gradient(pool: Pool, context: KernelContext, image: Value, row: Value) -> None:
    """Write the gradient of means for a row of pixels: each gathers from the output pixels that see it."""
    f, dy, dx = context.f, context.operand(0), context.outputs[0]
    rows = seeing(f, pool.rows, row)
    for column in f.range(0, pool.columns.source):
        columns = seeing(f, pool.columns, column)
        for c, count in pool.vectors(f):
            fold = Fold(f, rows, columns, [f.constant(pool.vector, 0)])
            for i, j, [total] in fold:
                at, back = rows[0] + rows[1] - 1 - i, columns[0] + columns[1] - 1 - j  # in the order of taps
                gradient = f.load(dy + pool.place(f, image, at, back), c, pool.lanes, count)
                fold.carry([total + gradient / pool.divisor(f, at, back)])
            f.store(fold.results[0], dx + pool.pixel(f, image, row, column), c, count)


def _put(pool: Pool, context: KernelContext, x: Value, source: Value, i: int, j: int, c: Index, count: int) -> None:
    context.f.store(x, context.outputs[0] + source + (i * pool.columns.source + j) * pool.channels, c, count)


def _winner(
    pool: Pool, f: Function, x: Value, source: Value, bounds: tuple[Bounds, Bounds], c: Index, count: Index
) -> Value:
    """Return the number of the tap with the maximum: the first of equal ones, the last of NaNs."""
    number = Type("signed", pool.element.bits).of(pool.lanes)
    rows, columns = bounds
    first = _tap(pool, f, rows[0], columns[0], number)
    fold = Fold(f, rows, columns, [f.constant(pool.vector, float("-inf")), first])
    for i, j, [most, winner] in fold:
        seen = pool.seen(f, x, source, i, j, c, count)
        more = is_more(seen, most)
        fold.carry([where(more, seen, most), where(more, _tap(pool, f, i, j, number), winner)])
    return fold.results[1]


def _tap(pool: Pool, f: Function, i: Index, j: Index, type: Type) -> Value:
    return f.splat(_number(pool, f, i, j), type.lanes)


def _number(pool: Pool, f: Function, i: Index, j: Index) -> Value:
    number = i * pool.columns.window + j
    type = Type("signed", pool.element.bits)
    return f.constant(type, number) if isinstance(number, int) else convert(number, type)


def _clear(pool: Pool, context: KernelContext, image: Value, row: Value) -> None:
    """Clear all pixels from a row of windows to the next, if some are in no window."""
    f, rows, columns = context.f, pool.rows, pool.columns
    covered = (rows.stride * rows.pixels, columns.stride * columns.pixels)
    if covered == (rows.source, columns.source) and rows.window == rows.stride and columns.window == columns.stride:
        return
    line, dx = columns.source * pool.channels, context.outputs[0]
    stop = where(row.equal(rows.pixels - 1), f.index(rows.source), (row + 1) * rows.stride)
    for i in f.range(row * rows.stride, stop):
        zeros(f, dx + (image * rows.source + i) * line, line, pool.vector)
