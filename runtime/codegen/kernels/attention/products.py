"""The products of a block with the keys that it sees, as columns, as the depth, or as rows.

A depth of more than `MAX_CHAIN_DEPTH` is split, and the partial sums are added in order.
"""

from __future__ import annotations

from collections.abc import Callable

from runtime.codegen.ir import Function, Index, Value
from runtime.codegen.ir.words import first, minimum, where
from runtime.codegen.kernels.attention.heads import Heads
from runtime.codegen.kernels.matmul import Matrix, in_tiles
from runtime.codegen.kernels.matmul.plan import MAX_CHAIN_DEPTH, tile_shape
from runtime.codegen.kernels.matmul.tile import Sums, tile
from runtime.codegen.kernels.split import in_blocks
from runtime.codegen.kernels.steps import KernelContext

Epilogue = Callable[[Value, Index, Index, int], None]
"""Takes a finished vector, its row, its first column, and the number of lanes that count."""


def by_keys(
    context: KernelContext,
    heads: Heads,
    rows: int,
    left: Matrix,
    depth: int,
    panels: Value,
    seen: Index,
    to: Value,
    *,
    scale: float = 1.0,
    beyond: float = 0.0,
) -> None:
    """Write scores, the products of queries with panels of keys; or gradients of weights, those of dy with values.

    Whole panels are computed, and so some keys that nothing sees; lanes beyond the last key become `beyond`, up to the
    end of a nominal vector.
    """
    f, panel = context.f, heads.panel
    whole = heads.keys // panel * panel
    for j in range(-(-heads.keys // heads.lanes) * heads.lanes, heads.wide, heads.lanes):
        for i in f.range(0, rows):
            f.store(f.constant(heads.element.of(heads.lanes), beyond), to, f.index(i) * heads.row + j)

    def columns(j: Index, count: int) -> None:
        right = Matrix(panels + j * depth, panel)
        _columns(f, heads, rows, left, depth, right, count, to + j, scale, beyond)

    for j in f.range(0, whole if isinstance(seen, int) else minimum(seen, whole), panel):
        columns(j, panel)
    if whole == heads.keys:
        return
    if isinstance(seen, int):
        columns(whole, heads.keys - whole)
        return
    with f.when(seen > whole):
        columns(whole, heads.keys - whole)


def _columns(
    f: Function,
    heads: Heads,
    rows: int,
    left: Matrix,
    depth: int,
    right: Matrix,
    count: int,
    to: Value,
    scale: float,
    beyond: float,
) -> None:
    """Write the columns of one panel, which has `count` keys."""
    lanes = heads.lanes
    for i, size in in_tiles(f, rows, heads.score_tile[0]):
        sums = _tile(heads, f, left.moved(i, 0), right, size, -(-count // lanes) * lanes, depth, depth)
        for r, row in enumerate(sums):
            for c, one in enumerate(row):
                x, tail = one * scale, count - c * lanes
                x = x if tail >= lanes else where(first(x, tail), x, beyond)
                f.store(x, to, (i + r) * heads.row + c * lanes)


def over_keys(
    context: KernelContext,
    heads: Heads,
    rows: int,
    left: Matrix,
    right: Matrix,
    width: int,
    seen: Index,
    epilogue: Epilogue,
) -> None:
    """Write the products of weights, or of their gradients, with a row for each key."""
    _product(context, heads, rows, width, left, right, computed(heads, seen, heads.keys), heads.keys, epilogue)


def of_keys(
    context: KernelContext,
    heads: Heads,
    left: Value,
    right: Matrix,
    width: int,
    start: Index,
    stop: Index,
    key: Index,
    to: Matrix,
) -> None:
    """Add to the rows of a panel of keys the products of the weights and the rows of queries from `start` to `stop`."""
    f, row = context.f, heads.row

    def add(count: int) -> None:
        def epilogue(x: Value, i: Index, j: Index, tail: int) -> None:
            at = to.moved(key + i, j).at
            f.store(f.load(at, 0, heads.lanes, tail) + x, at, 0, tail)

        weights = Matrix(left + (start * row + key), 1, row)
        most = heads.together * heads.rows
        _product(context, heads, count, width, weights, right.moved(start, 0), stop - start, most, epilogue)

    in_panel(f, heads, key, add)


def in_panel(f: Function, heads: Heads, key: Index, add: Callable[[int], None]) -> None:
    """Call `add` with the number of keys of the panel whose first key is `key`; the last panel may have fewer."""
    whole = heads.keys // heads.panel * heads.panel
    if isinstance(key, int):
        add(min(heads.panel, heads.keys - key))
        return
    if whole == heads.keys:
        add(heads.panel)
        return
    is_whole = key < whole
    with f.when(is_whole):
        add(heads.panel)
    with f.when(~is_whole):
        add(heads.keys - whole)


def computed(heads: Heads, seen: Index, most: int) -> Index:
    """Return the number of keys of the nominal panels that are computed, at most `most`."""
    if isinstance(seen, int):
        return most
    return minimum((seen + (heads.nominal_panel - 1)) // heads.nominal_panel * heads.nominal_panel, most)


def first_of_panel(heads: Heads, key: Index) -> Index:
    """Return the first key of the nominal panel of this one, which is the first of a panel."""
    return key if heads.panel == heads.nominal_panel else key // heads.nominal_panel * heads.nominal_panel


def _product(
    context: KernelContext,
    heads: Heads,
    m: int,
    n: int,
    left: Matrix,
    right: Matrix,
    depth: Index,
    most: int,
    epilogue: Epilogue,
) -> None:
    """Write a product of m rows and n columns, with a depth of at most `most`."""
    f, lanes = context.f, heads.lanes
    rows, vectors = tile_shape(heads.target, lanes, m, n)
    for j, columns in in_blocks(f, n, vectors * lanes):
        for i, size in in_tiles(f, m, rows):
            sums = _tile(heads, f, left.moved(i, 0), right.moved(0, j), size, columns, depth, most)
            for r, line in enumerate(sums):
                for c, x in enumerate(line):
                    epilogue(x, i + r, j + c * lanes, min(lanes, columns - c * lanes))


def _tile(
    heads: Heads, f: Function, left: Matrix, right: Matrix, rows: int, columns: int, depth: Index, most: int
) -> Sums:
    """Return the sums of a tile; parts of the depth are added in order."""
    vector = heads.element.of(heads.lanes)
    if most <= MAX_CHAIN_DEPTH:
        return tile(f, left, right, rows, columns, vector, depth, has_whole_block=isinstance(depth, int))
    across = -(-columns // heads.lanes)
    loop = f.loop(0, depth, MAX_CHAIN_DEPTH, [f.constant(vector, 0)] * (rows * across))
    for p, totals in loop:
        part = minimum(f.index(depth) - p, MAX_CHAIN_DEPTH)
        sums = tile(f, left.moved(0, p), right.moved(p, 0), rows, columns, vector, part, has_whole_block=False)
        loop.carry([a + b for a, b in zip(totals, (x for row in sums for x in row), strict=True)])
    return [loop.results[r * across : (r + 1) * across] for r in range(rows)]
