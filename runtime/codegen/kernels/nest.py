"""Loops over a domain, and how operands lie along it: elements from one place to the next, by axis; 0 to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from runtime.codegen.ir import Function, Index

Strides = tuple[int, ...]
"""Of an operand, elements from one place to the next, for every axis of a domain."""


class Nest(NamedTuple):
    """A domain with as few axes as its operands allow.

    Attributes:
        extents: of its axes.
        strides: of each operand, along these axes.
    """

    extents: tuple[int, ...]
    strides: Mapping[str, Strides]

    def offset(self, name: str, at: Sequence[Index]) -> Index:
        """Where the operand's element is, for indices of the first axes."""
        return offset_of(at, self.strides[name])


def offset_of(at: Sequence[Index], steps: Sequence[int]) -> Index:
    """The number of elements from the first one."""
    total: Index = 0
    for i, step in zip(at, steps, strict=False):
        if step:
            total = i * step + total
    return total


def nest(extents: Sequence[int], steps: Mapping[str, Strides]) -> Nest:
    """The domain without axes of one place, and with neighbouring axes as one where every operand goes on evenly."""
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
    """The steps of a contiguous tensor that broadcasts to the domain."""
    steps, size = [0] * len(domain), 1
    for axis in range(1, len(shape) + 1):
        if shape[-axis] != 1:
            steps[-axis] = size
        size *= shape[-axis]
    return tuple(steps)


def over(f: Function, extents: Sequence[int], body: Callable[[list[Index]], None], at: Sequence[Index] = ()) -> None:
    """Loops around `body`, the first axis outermost; it gets an index for every axis."""
    if not extents:
        body(list(at))
        return
    for i in f.range(0, extents[0]):
        over(f, extents[1:], body, [*at, i])


def spread(f: Function, extents: Sequence[int], start: Index, stop: Index, body: Callable[[list[Index]], None]) -> None:
    """A loop over a stretch of the places of some axes, in row-major order; `body` gets an index for every axis."""
    for index in f.range(start, stop):
        body(unravelled(f, index, extents))


def unravelled(f: Function, index: Index, extents: Sequence[int]) -> list[Index]:
    """The index for every axis of a place that was counted in row-major order."""
    if not extents:
        return []
    at: list[Index] = []
    for extent in reversed(extents[1:]):
        at.append(f.index(index) % extent)
        index = f.index(index) // extent
    return [index, *reversed(at)]


def leading(extents: Sequence[int], wanted: int) -> int:
    """How many of the first axes it takes to have so many places; all of them if there are fewer."""
    indices = 1
    for axis, extent in enumerate(extents):
        if indices >= wanted:
            return axis
        indices *= extent
    return len(extents)


def along(f: Function, extent: int, lanes: int, body: Callable[[Index, int, int], object]) -> None:
    """A loop of whole vectors and what is left: `body(start, lanes, count)`; single elements have no lanes."""
    if extent == 1:
        body(0, 0, 1)
        return
    whole = extent // lanes * lanes
    for i in f.range(0, whole, lanes):
        body(i, lanes, lanes)
    if whole < extent:
        body(whole, lanes, extent - whole)


class Pieces(NamedTuple):
    """Something in equal pieces, the last of which may be smaller."""

    pieces: int
    size: int
    last: int


def pieces_of(extent: int, size: int) -> Pieces:
    """Pieces of so much."""
    number = max(-(-extent // size), 1)
    return Pieces(number, min(size, extent), extent - size * (number - 1))


def piece(f: Function, number: Index, pieces: Pieces) -> Generator[tuple[Index, int]]:
    """Where the piece of this number begins and its size: written for both sizes, if there are two."""
    if pieces.size == pieces.last or pieces.pieces == 1 or isinstance(number, int):
        yield number * pieces.size, pieces.last
        return
    is_last = number.equal(pieces.pieces - 1)
    with f.when(~is_last):
        yield number * pieces.size, pieces.size
    with f.when(is_last):
        yield (pieces.pieces - 1) * pieces.size, pieces.last
