"""Loops over a domain, and the strides of operands along it, in elements by axis; 0 along broadcast axes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from runtime.codegen.ir import Function, Index

Strides = tuple[int, ...]
"""Strides of an operand in elements, for every axis of a domain."""


class Nest(NamedTuple):
    """A domain with as few axes as its operands allow.

    Attributes:
        extents: extents of its axes.
        strides: strides of each operand along these axes.
    """

    extents: tuple[int, ...]
    strides: Mapping[str, Strides]

    def offset(self, name: str, at: Sequence[Index]) -> Index:
        """Return the offset of the operand's element, for indices of the first axes."""
        return offset_of(at, self.strides[name])


def offset_of(at: Sequence[Index], steps: Sequence[int]) -> Index:
    """Return the offset of an element, in elements from the first one."""
    total: Index = 0
    for i, step in zip(at, steps, strict=False):
        if step:
            total = i * step + total
    return total


def nest(extents: Sequence[int], steps: Mapping[str, Strides]) -> Nest:
    """Return the domain without axes of extent 1, with neighbouring axes merged where all operands are contiguous."""
    axes = [axis for axis, extent in enumerate(extents) if extent != 1]
    sizes: list[int] = []
    kept: dict[str, list[int]] = {name: [] for name in steps}
    for axis in axes:
        extent = extents[axis]
        if sizes and all(kept[name][-1] == step[axis] * extent for name, step in steps.items()):
            sizes[-1] *= extent
            for name, step in steps.items():
                kept[name][-1] = step[axis]
            continue
        sizes.append(extent)
        for name, step in steps.items():
            kept[name].append(step[axis])
    return Nest(tuple(sizes), {name: tuple(step) for name, step in kept.items()})


def row_major(shape: Sequence[int], domain: Sequence[int]) -> Strides:
    """Return the strides of a contiguous tensor that broadcasts to the domain."""
    steps, size = [0] * len(domain), 1
    for axis in range(1, len(shape) + 1):
        if shape[-axis] != 1:
            steps[-axis] = size
        size *= shape[-axis]
    return tuple(steps)


def over(f: Function, extents: Sequence[int], body: Callable[[list[Index]], None], at: Sequence[Index] = ()) -> None:
    """Write nested loops around `body`, the first axis outermost; it gets an index for every axis."""
    if not extents:
        body(list(at))
        return
    for i in f.range(0, extents[0]):
        over(f, extents[1:], body, [*at, i])


def spread(f: Function, extents: Sequence[int], start: Index, stop: Index, body: Callable[[list[Index]], None]) -> None:
    """Write a loop over a range of positions of some axes, in row-major order; `body` gets an index for every axis."""
    for index in f.range(start, stop):
        body(unravelled(f, index, extents))


def unravelled(f: Function, index: Index, extents: Sequence[int]) -> list[Index]:
    """Return the index for every axis of a position in row-major order."""
    if not extents:
        return []
    at: list[Index] = []
    for extent in reversed(extents[1:]):
        at.append(f.index(index) % extent)
        index = f.index(index) // extent
    return [index, *reversed(at)]


def leading(extents: Sequence[int], wanted: int) -> int:
    """Return the number of leading axes with at least `wanted` positions; all axes if there are fewer."""
    indices = 1
    for axis, extent in enumerate(extents):
        if indices >= wanted:
            return axis
        indices *= extent
    return len(extents)


def along(f: Function, extent: int, lanes: int, body: Callable[[Index, int, int], object]) -> None:
    """Write a loop over whole vectors and the rest: `body(start, lanes, count)`; single elements have no lanes."""
    if extent == 1:
        body(0, 0, 1)
        return
    whole = extent // lanes * lanes
    for i in f.range(0, whole, lanes):
        body(i, lanes, lanes)
    if whole < extent:
        body(whole, lanes, extent - whole)


class Pieces(NamedTuple):
    """An extent in equal pieces, the last of which may be smaller."""

    pieces: int
    size: int
    last: int


def pieces_of(extent: int, size: int) -> Pieces:
    """Return an extent in pieces of this size."""
    number = max(-(-extent // size), 1)
    return Pieces(number, min(size, extent), extent - size * (number - 1))


def piece(f: Function, number: Index, pieces: Pieces) -> Generator[tuple[Index, int]]:
    """Give the start and the size of a numbered piece; the code is written twice if there are two sizes."""
    if pieces.size == pieces.last or pieces.pieces == 1 or isinstance(number, int):
        yield number * pieces.size, pieces.last
        return
    is_last = number.equal(pieces.pieces - 1)
    with f.when(~is_last):
        yield number * pieces.size, pieces.size
    with f.when(is_last):
        yield (pieces.pieces - 1) * pieces.size, pieces.last
