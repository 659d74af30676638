"""Operands and results of attention in memory: rows of elements by image and head, anywhere in a tensor.

Heads are split by a transpose of a larger tensor, often the result of one product for queries, keys and values. The
kernels read operands and write results by strides, so that no copy stands between them and such tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from prograd_proto import TensorType
from runtime.codegen.ir import Function, Index, Type, Value
from runtime.codegen.ir.words import convert
from runtime.codegen.kernels.matmul import Matrix
from runtime.codegen.kernels.moves import Layout, row_major
from runtime.codegen.kernels.nest import along
from runtime.codegen.kernels.steps import KernelContext
from runtime.codegen.machine import CACHE_LINE_BYTES


class ResultPlace(NamedTuple):
    """The position of a result.

    Attributes:
        number: number of the tensor among the outputs of the op.
        offset: offset of its first element in that tensor, in elements.
        layout: its shape and strides.
    """

    number: int
    offset: int
    layout: Layout

    @property
    def has_gaps(self) -> bool:
        """True if the rows of a head are not contiguous."""
        return has_gaps(*self.layout)


class Rows(NamedTuple):
    """The rows of all heads of a tensor [images, heads, rows, elements]; the elements of a row are contiguous.

    Attributes:
        at: address of the first element.
        shape: extents of the tensor.
        strides: strides along images, heads and rows, in elements.
    """

    at: Value
    shape: tuple[int, ...]
    strides: tuple[int, int, int]

    @property
    def size(self) -> int:
        """Number of elements of a row."""
        return self.shape[3]

    @property
    def element(self) -> Type:
        """Type of an element."""
        return self.at.element

    @property
    def has_gaps(self) -> bool:
        """True if the rows of a head are not contiguous."""
        return has_gaps(self.shape, self.strides)

    def one_head(self, at: Value) -> Rows:
        """Return the rows at an address that has room for one head, which is every head, without gaps."""
        return Rows(at, self.shape, (0, 0, self.size))

    def of(self, head: Value) -> Matrix:
        """Return the rows of a head; heads are counted through all images."""
        image, step, row = self.strides
        heads = self.shape[1]
        if image == heads * step:
            return Matrix(self.at + head * step, row)
        return Matrix(self.at + (head // heads * image + head % heads * step), row)


class MemoryLayout(NamedTuple):
    """The positions of operands and results.

    Attributes:
        operands: layouts of the operands but the mask.
        results: positions of the results.
    """

    operands: Sequence[Layout]
    results: Sequence[ResultPlace]

    @property
    def has_gaps(self) -> list[bool]:
        """For each operand, True if the rows of a head are not contiguous."""
        return [has_gaps(*layout) for layout in self.operands]

    def operands_of(self, addresses: Sequence[Value | None]) -> list[Rows]:
        """Return the rows of the operands at these addresses."""
        present = [at for at in addresses if at is not None]
        return [rows_of(at, layout) for at, layout in zip(present, self.operands, strict=True)]

    def results_of(self, addresses: Sequence[Value]) -> list[Rows]:
        """Return the rows of the results in tensors at these addresses."""
        return [rows_of(addresses[number] + offset, layout) for number, offset, layout in self.results]


class AheadRows(NamedTuple):
    """Rows of the next head that are prefetched: their matrix, the elements of a row and those of a cache line."""

    matrix: Matrix
    size: int
    line: int

    def prefetch(self, first: Index, count: int) -> None:
        """Prefetch some rows into the second-level cache."""
        for i in range(count):
            at = self.matrix.moved(first + i, 0).at
            for j in range(0, self.size, self.line):
                at.function.prefetch(at, j, 2)


class Scratch(NamedTuple):
    """The sizes of scratch of the thread, in elements.

    Attributes:
        needed: those that all layouts of operands need.
        copies: those of copies, which are 0 for operands that are read where they are.
    """

    needed: Sequence[int]
    copies: Sequence[int]

    def nbytes(self, item: int) -> tuple[int, ...]:
        """Return the sizes in bytes, if an element has `item` bytes."""
        return tuple(size * item for size in (*self.needed, *self.copies))

    def addresses(self, context: KernelContext, element: Type) -> tuple[list[Value], list[Value | None]]:
        """Return the addresses, None for copies of size 0."""
        count = len(self.needed)
        copies = (
            context.thread_scratch(number, element) if size else None for number, size in enumerate(self.copies, count)
        )
        return [context.thread_scratch(number, element) for number in range(count)], list(copies)


def has_gaps(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Return True if the rows of a head are not contiguous."""
    return shape[2] > 1 and strides[2] != shape[3]


def can_read(layout: Layout) -> bool:
    """Return True if the kernels can read an operand of this layout."""
    return layout.shape[-1] == 1 or layout.strides[-1] == 1


def rows_of(at: Value, layout: Layout) -> Rows:
    """Return the rows of a tensor of this layout."""
    assert can_read(layout), "the elements of a row are contiguous"
    image, head, row, _ = layout.strides
    return Rows(at, layout.shape, (image, head, row))


def contiguous(types: Sequence[TensorType]) -> list[Layout]:
    """Return the layouts of contiguous operands."""
    return [Layout(type.static_shape, row_major(type.static_shape)) for type in types]


def own_places(shapes: Sequence[tuple[int, ...]]) -> list[ResultPlace]:
    """Return the positions of results that are tensors of their own."""
    return [ResultPlace(number, 0, Layout(shape, row_major(shape))) for number, shape in enumerate(shapes)]


def ahead_of(tensors: Sequence[Rows], head: Value, of_group: int) -> list[AheadRows]:
    """Return the rows of the next head that no hardware prefetches: those with gaps between them.

    `of_group` heads of queries share one of keys and values, of which a tensor has fewer heads.
    """
    most, ahead = max(x.shape[1] for x in tensors), list[AheadRows]()
    for x in tensors:
        if x.has_gaps:
            following = head + 1 if x.shape[1] == most else (head + 1) // of_group
            ahead.append(AheadRows(x.of(following), x.size, CACHE_LINE_BYTES * 8 // x.element.bits))
    return ahead


def copy_rows(f: Function, source: Matrix, to: Matrix, count: Index, size: int) -> None:
    """Copy `count` rows of `size` elements, which are converted to the type of the destination."""
    element, wanted = source.at.element, to.at.element

    def copy(source: Value, to: Value) -> None:
        def move(j: Index, lanes: int, count: int) -> None:
            tail = count if lanes else None
            f.store(convert(f.load(source, j, lanes, tail), wanted), to, j, tail)

        along(f, size, f.target.lanes(element.bits), move)

    for i in f.range(0, count):
        copy(source.moved(i, 0).at, to.moved(i, 0).at)
