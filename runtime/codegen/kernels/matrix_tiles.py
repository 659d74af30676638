"""Tiles of products of pairs of bfloat16 or fours of bytes by AMX, whose registers have up to 16 rows of 64 bytes.

`tdpbf16ps` adds the product of 16 rows and up to 16 pairs of the depth with as many rows of 16 columns. It adds the
products of the first elements of all pairs, those of the second elements, then both sums, then their sum to the tile
(Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). Groups of 16 pairs are counted from the start
of the innermost loop of the depth, and a shorter group behind others ends with zeros.

`tdpbusd` adds the products of four codes of the left operand with four signed bytes of the right one, as `vpdpbusd`
does, which is exact in any order. Its words are those of `kernels.integers.words`: the left operand consists of bytes.

A function loads a description of the registers where it differs from the one before, which takes 166 cycles, and
releases them at its end.

    accumulators, row by row | operands of the left, by rows | operands of the right, by columns     of 8 registers
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeVar

from runtime.codegen.ir import FLOAT32, UINT8, Function, Index, Type, Value
from runtime.codegen.ir.types import MASK
from runtime.codegen.ir.words import transposed
from runtime.codegen.kernels.depth import DepthLoop, PanelVector, Prefetch, Tile
from runtime.codegen.machine import MATRIX_ROWS

TILE_REGISTERS: Final = 8

CONFIG_BYTES: Final = 64
"""Size of the description of all tile registers."""

ROW_BYTES: Final = 64
"""Size of a row of a tile register."""

FIRST_WIDTH: Final = 16
"""Position of the width of the first tile register in that description, 2 bytes each."""

FIRST_HEIGHT: Final = 48
"""Position of its number of rows, 1 byte each."""

TILE_BYTES: Final = 1024

WORD_BITS: Final = 32

MAX_MATRIX_ROWS: Final = {1: 3 * MATRIX_ROWS, 2: 2 * MATRIX_ROWS}
"""Upper bounds on the rows of a tile by its vectors, so that sums and operands fit into the registers."""


def tile_of_words(tile: Tile, sums: Sequence[Value]) -> list[Value]:
    """Return the sums of products of a tile."""
    found, asks = list(sums), tile.asks
    for part in _parts(tile.rows, tile.vectors):
        blocks = _Blocks(tile.f, part, tile.vector, tile.depth[-1].iterations, asks)
        places = [r * len(tile.vectors) + v for r in part.row_numbers for v in part.vector_numbers]
        blocks.compute([sums[i] for i in places], tile.left, tile.right, tile.depth)
        for i, x in zip(places, blocks.loaded(), strict=True):
            found[i] = x
        asks = ()
    return found


def rows_of_words(tile: Tile) -> Iterator[list[Value]]:
    """Compute the products of a tile; yield the vectors of the sums of each row, which are loaded when it is asked for.

    A caller that is done with a row before the next one needs few vector registers. All rows must be loaded before the
    next tile is computed, because both have the same memory.
    """
    part, *others = _parts(tile.rows, tile.vectors)
    zeros = [tile.f.constant(tile.vector, 0)] * (len(tile.rows) * len(tile.vectors))
    if others:
        sums = iter(tile_of_words(tile, zeros))
    else:
        blocks = _Blocks(tile.f, part, tile.vector, tile.depth[-1].iterations, tile.asks)
        blocks.compute(zeros, tile.left, tile.right, tile.depth)
        sums = blocks.loaded()
    for _ in tile.rows:
        yield [next(sums) for _ in tile.vectors]


class _Part(NamedTuple):
    """Rows and vectors of a tile whose sums are in registers together.

    Attributes:
        first_row, first_vector: numbers of the first ones in the tile.
        groups: offsets of rows, by register.
        vectors: the vectors, one for a register.
    """

    first_row: int
    first_vector: int
    groups: Sequence[Sequence[int]]
    vectors: Sequence[PanelVector]

    @property
    def row_numbers(self) -> range:
        return range(self.first_row, self.first_row + sum(map(len, self.groups)))

    @property
    def vector_numbers(self) -> range:
        return range(self.first_vector, self.first_vector + len(self.vectors))


def _parts(rows: Sequence[int], vectors: Sequence[PanelVector]) -> Iterator[_Part]:
    """Yield parts whose accumulators and operands fit into the registers, as equal as possible."""
    groups = _shares(rows, MATRIX_ROWS)
    across = 3 if len(groups) == 1 else 2
    down = 3 if len(vectors) == 1 else 2
    first_row = 0
    for own in _shares(groups, down):
        first_vector = 0
        for each in _shares(vectors, across):
            yield _Part(first_row, first_vector, own, each)
            first_vector += len(each)
        first_row += sum(map(len, own))


Item = TypeVar("Item")


def _shares(items: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """Return the items in as few parts of at most `most` as there can be, as equal as possible."""
    count = -(-len(items) // most)
    bounds = [len(items) * i // count for i in range(count + 1)]
    return [items[a:b] for a, b in pairwise(bounds)]


class _Blocks:
    """The instructions for one part of a tile.

    Attributes:
        product: the instruction.
        left_element: what the addresses and distances of the left operand count: pairs, or bytes of words.
        elements: number of them in a word.
    """

    def __init__(self, f: Function, part: _Part, vector: Type, iterations: Index, asks: Sequence[Prefetch]) -> None:
        self.f, self.part, self.vector, self.asks = f, part, vector, asks
        self.product, self.left_element = ("tdpbf16ps", FLOAT32) if vector.is_float else ("tdpbusd", UINT8)
        self.elements = WORD_BITS // self.left_element.bits
        self.deep = min(iterations, MATRIX_ROWS) if isinstance(iterations, int) else MATRIX_ROWS
        self.lefts = len(part.groups) * len(part.vectors)
        self.rights = self.lefts + len(part.groups)
        assert self.rights + len(part.vectors) <= TILE_REGISTERS, "accumulators and operands fit into the registers"
        self.sum_buffer = f.cast(f.buffer("tile_sums", FLOAT32, 4 * TILE_BYTES // 4), vector.of(0))
        self.operand_buffer = f.cast(f.buffer("tile_operand", FLOAT32, TILE_BYTES // 4), vector.of(0))

    def compute(self, sums: list[Value], left: Value, right: Value, depth: Sequence[DepthLoop]) -> None:
        """Add the products of the depth to these sums, and store the results."""
        f = self.f
        self._describe()
        self._begin(sums)
        self._nested(left, right, depth)
        for number in range(self.lefts):
            _call(f, "tilestored64", number, self._place(number), ROW_BYTES)

    def loaded(self) -> Iterator[Value]:
        """Load and yield the results, row by row."""
        for number, at, tail in self._vectors():
            yield self.f.load(self._place(number), at, self.vector.lanes, tail)

    def _describe(self) -> None:
        """Load the description of the registers, unless it is the one that the function loaded last."""
        f, wanted = self.f, self.f.data(*self._config())
        f.module.declare("declare void @llvm.x86.tilerelease()")
        known = f.lost_by_calls("tile_description", "call void @llvm.x86.tilerelease()")
        loaded = f.emit(f"load ptr, ptr {known.text}", wanted.type)
        with f.when(f.emit(f"icmp ne ptr {loaded.text}, {wanted.text}", MASK)):
            _call(f, "ldtilecfg", wanted)
            f.line(f"store ptr {wanted.text}, ptr {known.text}")

    def _config(self) -> tuple[str, bytes]:
        """Return the name and the bytes of the description of the registers."""
        part, content = self.part, bytearray(CONFIG_BYTES)
        content[0] = 1  # the only palette
        heights = [len(group) for group in part.groups for _ in part.vectors]
        heights += [len(group) for group in part.groups] + [self.deep] * len(part.vectors)
        widths = [vector.tail for _ in part.groups for vector in part.vectors]
        widths += [self.deep] * len(part.groups) + [vector.tail for vector in part.vectors]
        for i, (height, width) in enumerate(zip(heights, widths, strict=True)):
            content[FIRST_HEIGHT + i] = height
            content[FIRST_WIDTH + 2 * i] = 4 * width
        return f"tiles_{bytes(content[FIRST_WIDTH:]).hex()}", bytes(content)

    def _begin(self, sums: list[Value]) -> None:
        """Set the accumulators to the sums before this product."""
        f = self.f
        if all(x.known == 0 for x in sums):
            for number in range(self.lefts):
                _call(f, "tilezero", number)
            return
        for (number, at, _), x in zip(self._vectors(), sums, strict=True):
            f.store(x, self._place(number), at)
        for number in range(self.lefts):
            _call(f, "tileloadd64", number, self._place(number), ROW_BYTES)

    def _vectors(self) -> Iterator[tuple[int, int, int]]:
        """Yield the accumulator of each vector, its position in it, and the number of its lanes that count."""
        across = len(self.part.vectors)
        for i, group in enumerate(self.part.groups):
            for row in range(len(group)):
                for v, vector in enumerate(self.part.vectors):
                    yield i * across + v, row * MATRIX_ROWS, vector.tail

    def _place(self, number: int) -> Value:
        return self.sum_buffer + number * (TILE_BYTES // 4)

    def _nested(self, left: Value, right: Value, depth: Sequence[DepthLoop]) -> None:
        along, *inner = depth
        if inner:
            for i in self.f.range(0, along.iterations):
                self._nested(left + i * along.left, right + i * along.right, inner)
            return
        f, count = self.f, along.iterations
        whole = count // MATRIX_ROWS * MATRIX_ROWS if isinstance(count, int) else count & -MATRIX_ROWS
        for i in f.range(0, whole, MATRIX_ROWS):
            for ask in self.asks:
                for step in range(0, MATRIX_ROWS, 4):
                    ask(i + step)
            self._multiply(left + i * along.left, right + i * along.right, along, MATRIX_ROWS)
        a, b, rest = left + whole * along.left, right + whole * along.right, count - whole
        if isinstance(rest, Value):
            with f.when(rest.not_equal(0)):
                self._multiply(a, b, along, rest)
        elif rest:
            self._multiply(a, b, along, rest)

    def _multiply(self, left: Value, right: Value, along: DepthLoop, count: Index) -> None:
        """Add the products of `count` words of the depth, at most 16."""
        part = self.part
        for i, group in enumerate(part.groups):
            self._load_left(self.lefts + i, left, group, along, count)
        for v, vector in enumerate(part.vectors):
            self._load_right(self.rights + v, right + vector.first, vector.tail, along, count)
            for i in range(len(part.groups)):
                _call(self.f, self.product, i * len(part.vectors) + v, self.lefts + i, self.rights + v)

    def _load_left(self, number: int, left: Value, rows: Sequence[int], along: DepthLoop, count: Index) -> None:
        """Load words of rows: in place if they are as far apart as the next ones, else from a copy.

        If the rows of a pair are contiguous, squares of pairs are transposed in vector registers.
        """
        f, apart = self.f, {b - a for a, b in pairwise(rows)}
        if count == self.deep and along.left == self.elements and len(apart) <= 1:
            far = apart.pop() * self.left_element.bits // 8 if apart else ROW_BYTES
            _call(f, "tileloadd64", number, left + rows[0], far)
            return
        if self.elements > 1:
            self._copy_bytes(left, rows, count)
            _call(f, "tileloadd64", number, self.operand_buffer, ROW_BYTES)
            return
        if along.left != 1 and apart <= {1} and isinstance(count, int):
            lines = [f.load(left + i * along.left, rows[0], MATRIX_ROWS, len(rows)) for i in range(count)]
            lines += [f.constant(FLOAT32.of(MATRIX_ROWS), 0)] * (MATRIX_ROWS - count)
            for r, line in enumerate(transposed(lines)[: len(rows)]):
                f.store(line, self.operand_buffer, r * MATRIX_ROWS)
            _call(f, "tileloadd64", number, self.operand_buffer, ROW_BYTES)
            return
        for r, row in enumerate(rows):
            if along.left == 1:
                f.store(f.load(left, row, MATRIX_ROWS, count), self.operand_buffer, r * MATRIX_ROWS)
                continue
            f.store(f.constant(FLOAT32.of(MATRIX_ROWS), 0), self.operand_buffer, r * MATRIX_ROWS)
            for i in f.range(0, count):
                f.store(f.load(left + i * along.left, row), self.operand_buffer, i + r * MATRIX_ROWS)
        _call(f, "tileloadd64", number, self.operand_buffer, ROW_BYTES)

    def _copy_bytes(self, left: Value, rows: Sequence[int], count: Index) -> None:
        """Copy `count` contiguous words of each row, with zeros behind them."""
        f, buffer = self.f, self.f.cast(self.operand_buffer, UINT8)
        for r, row in enumerate(rows):
            f.store(f.load(left, row, ROW_BYTES, count * self.elements), buffer, r * ROW_BYTES)

    def _load_right(self, number: int, right: Value, columns: int, along: DepthLoop, count: Index) -> None:
        """Load words of columns: in place if all rows of the register exist, else from a copy that ends with zeros."""
        f = self.f
        if count == self.deep:
            _call(f, "tileloadd64", number, right, along.right * 4)
            return
        for i in f.range(0, count):
            row = f.load(right + i * along.right, 0, MATRIX_ROWS, columns)
            f.store(row, self.operand_buffer, i * MATRIX_ROWS)
        for i in f.range(count, self.deep):
            f.store(f.constant(self.vector.of(MATRIX_ROWS), 0), self.operand_buffer, i * MATRIX_ROWS)
        _call(f, "tileloadd64", number, self.operand_buffer, ROW_BYTES)


def _call(f: Function, name: str, *operands: Value | int) -> None:
    """Call an intrinsic function of AMX: numbers of registers, then an address and its stride in bytes."""
    types = {
        "ldtilecfg": ("ptr",),
        "tileloadd64": ("i8", "ptr", "i64"),
        "tilestored64": ("i8", "ptr", "i64"),
        "tdpbf16ps": ("i8", "i8", "i8"),
        "tdpbusd": ("i8", "i8", "i8"),
        "tilezero": ("i8",),
    }[name]
    f.module.declare(f"declare void @llvm.x86.{name}({', '.join(types)})")
    texts = [x.text if isinstance(x, Value) else str(x) for x in operands]
    listed = ", ".join(f"{type} {text}" for type, text in zip(types, texts, strict=True))
    f.line(f"call void @llvm.x86.{name}({listed})")
