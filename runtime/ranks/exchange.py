"""The sum of what all ranks have, in the order of the tree: MPI moves bytes, and this module adds.

1. A rank has for each tensor the sums of its parts of the tree (`runtime.ranks.tree`).
2. Below `SMALL_BYTES` everyone gets all parts of everyone, and adds them up.
3. Else rank r gets the r-th part of the elements from everyone, adds these up, and sends the totals to everyone. A rank
   with one part sends 2 (n - 1) / n times the bytes of the tensors for n ranks, as a ring does.
4. Several tensors are sent as one; for one tensor and one part nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.ranks.group import Group
from runtime.ranks.tree import parts_of, total

SMALL_BYTES: Final = 1 << 16
"""Upper bound on the bytes of tensors that all ranks get from all ranks, because each message takes longer to start."""


class Layout(NamedTuple):
    """The parts and elements of the ranks of an exchange.

    Attributes:
        shards: number of shards.
        rank: this rank.
        ranks: number of ranks.
        elements: number of elements of all tensors together.
        is_small: True if all ranks get all parts.
    """

    shards: int
    rank: int
    ranks: int
    elements: int
    is_small: bool

    @property
    def parts(self) -> list[int]:
        """The number of parts of each rank."""
        return [len(parts_of(self.shards, rank, self.ranks)) for rank in range(self.ranks)]

    @property
    def bounds(self) -> list[int]:
        """The first element of each rank, and the number of all elements."""
        return [rank * self.elements // self.ranks for rank in range(self.ranks + 1)]

    @property
    def own(self) -> int:
        """The number of elements that this rank adds up."""
        return self.bounds[self.rank + 1] - self.bounds[self.rank]


def layout_of(shards: int, rank: int, ranks: int, elements: int, itemsize: int) -> Layout:
    """Return the layout of an exchange of so many elements of `itemsize` bytes."""
    return Layout(shards, rank, ranks, elements, elements * itemsize <= SMALL_BYTES)


def scratch_elements(layout: Layout, tensors: int) -> tuple[int, int, int]:
    """Return the elements of three scratch arrays: what is sent, what is received, the totals of all tensors."""
    parts = layout.parts
    received = sum(parts) * (layout.elements if layout.is_small else layout.own)
    sent = 0 if parts[layout.rank] == tensors == 1 else parts[layout.rank] * layout.elements
    return sent, received, 0 if tensors == 1 else layout.elements


def exchange(
    group: Group, layout: Layout, parts: Sequence[Sequence[Array]], out: Sequence[Array], scratch: Sequence[Array]
) -> None:
    """Fill `out` with the sums over all shards.

    Args:
        group: the ranks.
        layout: the layout.
        parts: for each tensor, the sums of the rank's parts.
        out: an array for each tensor.
        scratch: arrays with the elements that `scratch_elements` states.
    """
    sent, received, totals = scratch
    whole = out[0].reshape(-1) if len(out) == 1 else totals
    if layout.is_small:
        _gather(group, layout, _packed(layout, parts, sent, [0, layout.elements]), received, whole)
    else:
        _scatter_and_gather(group, layout, _packed(layout, parts, sent, layout.bounds), received, whole)
    if len(out) > 1:
        for array, end in zip(out, accumulate(array.size for array in out), strict=True):
            array.reshape(-1)[...] = whole[end - array.size : end]


def _gather(group: Group, layout: Layout, sent: Array, received: Array, whole: Array) -> None:
    group.all_gather(sent, received, [parts * layout.elements for parts in layout.parts])
    _add_up(layout, received.reshape(-1, layout.elements), whole)


def _scatter_and_gather(group: Group, layout: Layout, sent: Array, received: Array, whole: Array) -> None:
    parts, bounds = layout.parts, layout.bounds
    sizes = [stop - first for first, stop in pairwise(bounds)]
    mine = parts[layout.rank]
    group.all_to_all(sent, [mine * size for size in sizes], received, [count * layout.own for count in parts])
    own = whole[bounds[layout.rank] : bounds[layout.rank + 1]]
    _add_up(layout, received.reshape(-1, layout.own), own)
    group.all_gather(None, whole, sizes)


def _packed(layout: Layout, parts: Sequence[Sequence[Array]], sent: Array, bounds: Sequence[int]) -> Array:
    """Return the elements to send: for each range between two bounds, the elements of each part, of each tensor."""
    count = layout.parts[layout.rank]
    if not count:
        return sent
    if count == len(parts) == 1:
        return parts[0][0].reshape(-1)
    for number in range(count):
        start = 0
        for tensor in parts:
            flat = tensor[number].reshape(-1)
            _pack(flat, start, sent, bounds, (number, count))
            start += flat.size
    return sent


def _pack(flat: Array, start: int, sent: Array, bounds: Sequence[int], part: tuple[int, int]) -> None:
    """Copy a tensor, which begins at element `start` of its part, into the ranges that it meets."""
    number, count = part
    for low, high in pairwise(bounds):
        first, stop = max(low, start), min(high, start + flat.size)
        if first < stop:
            at = count * low + number * (high - low) + first - low
            sent[at : at + stop - first] = flat[first - start : stop - start]


def _add_up(layout: Layout, rows: Array, out: Array) -> None:
    """Add the rows, one for each part of each rank, in the order of the tree."""
    ranges = [part for rank in range(layout.ranks) for part in parts_of(layout.shards, rank, layout.ranks)]
    summed = total(layout.shards, dict(zip(ranges, rows, strict=True)), _add)
    np.copyto(out, summed)


def _add(left: Array, right: Array) -> Array:
    return np.add(left, right, out=left)
