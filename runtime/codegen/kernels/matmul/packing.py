"""Copies of blocks of operands, which the tile reads without conflicts in the caches.

The left operand keeps its direction: rows stay rows, in a block whose stride of rows is slightly more than a power of
two. AMX reads pairs of the left operand by rows, so these are copied by rows. The right operand becomes panels: the
columns of one tile are contiguous, row after row. If its columns are contiguous instead of its rows, squares of it are
transposed in registers. For the instruction for pairs, words of both copies hold neighbours of a chain: the elements of
such a word are read where they are, unless the depth has an odd number of elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeGuard

from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import transposed
from runtime.codegen.kernels.matmul.matrix import Matrix, Operand, PairedMatrix
from runtime.codegen.kernels.pair_chains import chain_columns, chain_rows, whole_groups
from runtime.codegen.kernels.pair_products import GROUP_PAIRS
from runtime.codegen.kernels.split import in_blocks

VECTORS_PER_ITERATION: Final = 4
"""Vectors of a row of the left operand that one iteration packs."""


def packed_left(
    f: Function,
    source: Operand,
    to: Value,
    rows: int,
    depth: Index,
    apart: tuple[int, int],
    vector: Type,
    *,
    chains_rest: bool = False,
) -> Matrix:
    """Copy `rows` rows, `depth` deep, and return the copy; `apart` has the stride of its rows, or of its columns.

    `chains_rest` is that of `kernels.tiles.tile`.
    """
    if _reads_combined(source, vector):
        whole = whole_groups(depth)
        copy = _copied_left(f, replace(source, is_combined=True), to, rows, whole, apart, vector)
        for rest in _behind(f, depth, whole):
            end, source = to + whole * copy.column, source.moved(0, whole)
            _copied_left(f, source, end, rows, rest, apart, vector)
            if chains_rest and copy.column == 1:
                chain_rows(f, end, rows, copy.row, rest, chains_rest=True)
            elif chains_rest:
                chain_columns(f, end, rows, copy.column, rest, vector, chains_rest=True)
        return copy
    copy = _copied_left(f, source, to, rows, depth, apart, vector)
    if isinstance(source, PairedMatrix) and source.is_chained:
        if copy.column == 1:
            chain_rows(f, to, rows, copy.row, depth, chains_rest=chains_rest)
        else:
            chain_columns(f, to, rows, copy.column, depth, vector, chains_rest=chains_rest)
    return copy


def _reads_combined(source: Operand, vector: Type) -> TypeGuard[PairedMatrix]:
    """Return True if words of whole groups are combined where their elements are read."""
    is_chained = isinstance(source, PairedMatrix) and source.is_chained and source.has_vectors
    return is_chained and vector.lanes == GROUP_PAIRS


def _behind(f: Function, depth: Index, whole: Index) -> Iterator[Index]:
    """Yield the number of pairs behind whole groups, if there are any."""
    rest = depth - whole
    if isinstance(rest, int):
        yield from [rest] if rest else []
        return
    with f.when(rest.not_equal(0)):
        yield rest


def _copied_left(
    f: Function, source: Operand, to: Value, rows: int, depth: Index, apart: tuple[int, int], vector: Type
) -> Matrix:
    lanes = vector.lanes
    if isinstance(source, PairedMatrix) and source.is_widened:
        return _widened_left(f, source, to, rows, depth, apart, vector)
    if source.column == 1:
        copy = Matrix(to, apart[0], 1)
        for i in f.range(0, rows):
            for p, count in pieces(f, depth, lanes if has_vectors(source) else 0, VECTORS_PER_ITERATION):
                f.store(source.along_row(i, p, count), copy.at, i * copy.row + p)
        return copy
    if f.target.has_matrix_tiles and isinstance(source, PairedMatrix):
        return _left_by_rows(f, source, Matrix(to, apart[0]), rows, depth, vector)
    copy = Matrix(to, 1, apart[1])
    for p in f.range(0, depth):
        for i, count in pieces(f, rows, lanes if source.row == 1 else 0):
            f.store(source.along_column(i, p, count) if count else source.element(i, p), copy.at, p * copy.column + i)
    return copy


def _widened_left(
    f: Function, source: PairedMatrix, to: Value, rows: int, pairs: Index, apart: tuple[int, int], vector: Type
) -> Matrix:
    """Copy the elements of pairs; a pair without a second element ends with 0."""
    count = source.elements(pairs)
    copy = packed_left(f, source.source.widened, to, rows, count, apart, vector)
    for _ in _if_fewer(f, count, pairs, source):
        for i in f.range(0, rows):
            f.store(f.constant(vector.of(0), 0), copy.at, i * copy.row + count * copy.column)
    return copy


def _if_fewer(f: Function, count: Index, pairs: Index, source: PairedMatrix) -> Iterator[None]:
    """Run the code inside if the last pair has no second element."""
    if source.has_vectors:
        return
    with f.when(f.index(count).not_equal(pairs * 2)):
        yield


def _left_by_rows(f: Function, source: PairedMatrix, copy: Matrix, rows: int, depth: Index, vector: Type) -> Matrix:
    """Copy a left operand with contiguous columns by rows, which tiles of AMX read, in squares of vectors."""
    lanes = vector.lanes
    for p, count in pieces(f, depth, lanes if source.row == 1 and source.has_vectors else 0):
        if not count:
            for i in f.range(0, rows):
                f.store(source.element(i, p), copy.at, i * copy.row + p)
            continue
        for i, size in in_blocks(f, rows, lanes):
            square = [source.along_column(i, p + q, lanes, size) for q in range(lanes)]
            for r, row in enumerate(transposed(square)[:size]):
                f.store(row, copy.at, (i + r) * copy.row + p)
    return copy


def packed_right(
    f: Function,
    source: Operand,
    to: Value,
    depth: Index,
    columns: int,
    width: int,
    most: int,
    vector: Type,
    *,
    chains_rest: bool = False,
) -> None:
    """Copy `depth` rows of `columns` columns as panels of `width` columns, each with room for `most` rows.

    A row of pairs that are widened becomes two rows. `chains_rest` is that of `kernels.tiles.tile`.
    """
    most *= 2 if isinstance(source, PairedMatrix) and source.is_widened else 1
    whole = columns // width * width
    for j in f.range(0, whole, width):
        _panel(f, source.moved(0, j), to + j * most, depth, width, width, vector, chains_rest)
    if whole < columns:
        _panel(f, source.moved(0, whole), to + whole * most, depth, columns - whole, width, vector, chains_rest)


def has_vectors(source: Operand) -> bool:
    """Return True if vectors along the depth can be read."""
    return not isinstance(source, PairedMatrix) or source.has_vectors


def _panel(
    f: Function,
    source: Operand,
    to: Value,
    depth: Index,
    columns: int,
    width: int,
    vector: Type,
    chains_rest: bool = False,
) -> None:
    if isinstance(source, PairedMatrix) and source.is_widened:
        _widened_panel(f, source, to, depth, columns, width, vector)
        return
    if _reads_combined(source, vector):
        whole = whole_groups(depth)
        _plain_panel(f, replace(source, is_combined=True), to, whole, columns, width, vector)
        for rest in _behind(f, depth, whole):
            _plain_panel(f, source.moved(whole, 0), to + whole * width, rest, columns, width, vector)
            if chains_rest:
                chain_columns(f, to + whole * width, columns, width, rest, vector, chains_rest=True)
        return
    _plain_panel(f, source, to, depth, columns, width, vector)
    if isinstance(source, PairedMatrix) and source.is_chained:
        chain_columns(f, to, columns, width, depth, vector, chains_rest=chains_rest)


def _plain_panel(f: Function, source: Operand, to: Value, depth: Index, columns: int, width: int, vector: Type) -> None:
    lanes = vector.lanes
    if source.column == 1:
        for p in f.range(0, depth):
            for j in range(0, columns, lanes):
                f.store(source.along_row(p, j, lanes, min(lanes, columns - j)), to, p * width + j)
        return
    for p, count in pieces(f, depth, lanes if source.row == 1 and has_vectors(source) else 0):
        if count:
            _squares(f, source.moved(p, 0), to + p * width, columns, width, vector)
            continue
        for j in f.range(0, columns):
            f.store(source.element(p, j), to, p * width + j)


def _widened_panel(
    f: Function, source: PairedMatrix, to: Value, pairs: Index, columns: int, width: int, vector: Type
) -> None:
    """Copy the elements of pairs as a panel with two rows for each; see `_widened_left`."""
    count = source.elements(pairs)
    _panel(f, source.source.widened, to, count, columns, width, vector)
    for _ in _if_fewer(f, count, pairs, source):
        for j in range(0, width, vector.lanes):
            f.store(f.constant(vector, 0), to, count * width + j)


def _squares(f: Function, source: Operand, to: Value, columns: int, width: int, vector: Type) -> None:
    """Write rows of a panel, as many as a vector has lanes, from contiguous columns; missing columns are 0."""
    for j in range(0, columns, vector.lanes):
        square = [source.along_column(0, c, vector.lanes) for c in range(j, min(j + vector.lanes, columns))]
        square += [f.constant(vector, 0)] * (vector.lanes - len(square))
        for i, row in enumerate(transposed(square)):
            f.store(row, to, i * width + j)


def pieces(f: Function, count: Index, lanes: int, together: int = 1) -> Iterator[tuple[Index, int]]:
    """Yield starts and lanes of whole vectors, `together` in an iteration, then of elements, which have no lanes."""
    whole: Index = 0
    for size in dict.fromkeys((together, 1)) if lanes else ():
        step, start = size * lanes, whole
        whole = count // step * step if isinstance(count, int) else count & -step
        for i in f.range(start, whole, step):
            for part in range(size):
                yield i + part * lanes, lanes
    for i in f.range(whole, count):
        yield i, 0
