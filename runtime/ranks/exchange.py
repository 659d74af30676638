"""The sum of what all ranks have, in the order of the tree: MPI moves bytes, and this module adds.

1. A rank has for each tensor the sums of its parts of the tree (`runtime.ranks.tree`).
2. If a rank sends at most `SMALL_BYTES` so, everyone gets all parts of everyone, and adds them up.
3. Else rank r gets the r-th part of the elements from everyone, adds these up, and sends the totals to everyone. A rank
   with one part sends 2 (n - 1) / n times the bytes of the tensors for n ranks, as a ring does.
4. Several tensors are sent as one; for one tensor and one part nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np

from runtime.dtypes import Array
from runtime.ranks.group import Group
from runtime.ranks.tree import Range, middle_of, parts_of

SMALL_BYTES: Final = 1 << 18
"""Upper bound on the bytes of tensors that a rank sends to all others whole, because a second message takes longer."""


class Layout(NamedTuple):
    """The parts and elements of the ranks of an exchange.

    Attributes:
        shards: number of shards.
        rank: this rank.
        ranks: number of ranks.
        elements: number of elements of all tensors together.
        is_small: True if all ranks get all parts.
        parts: the parts of the tree of each rank.
        bounds: the first element of each rank, and the number of all elements.
    """

    shards: int
    rank: int
    ranks: int
    elements: int
    is_small: bool
    parts: tuple[tuple[Range, ...], ...]
    bounds: tuple[int, ...]

    @property
    def own(self) -> int:
        """The number of elements that this rank adds up."""
        return self.bounds[self.rank + 1] - self.bounds[self.rank]


@cache
def layout_of(shards: int, rank: int, ranks: int, elements: int, itemsize: int) -> Layout:
    """Return the layout of an exchange of `elements` elements, each of `itemsize` bytes."""
    parts = tuple(tuple(parts_of(shards, each, ranks)) for each in range(ranks))
    bounds = tuple(each * elements // ranks for each in range(ranks + 1))
    is_small = elements * itemsize * (ranks - 1) <= SMALL_BYTES
    return Layout(shards, rank, ranks, elements, is_small, parts, bounds)


def scratch_elements(layout: Layout, tensors: int) -> tuple[int, int, int]:
    """Return the elements of three scratch arrays: what is sent, what is received, the totals of all tensors."""
    mine = len(layout.parts[layout.rank])
    everyone = sum(map(len, layout.parts))
    received = (everyone - mine) * (layout.elements if layout.is_small else layout.own)
    sent = 0 if mine == tensors == 1 else mine * layout.elements
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
        _gather(group, layout, _packed(layout, parts, sent, (0, layout.elements)), received, whole)
    else:
        _scatter_and_gather(group, layout, _packed(layout, parts, sent, layout.bounds), received, whole)
    if len(out) > 1:
        for array, end in zip(out, accumulate(array.size for array in out), strict=True):
            array.reshape(-1)[...] = whole[end - array.size : end]


def _gather(group: Group, layout: Layout, sent: Array, received: Array, whole: Array) -> None:
    mine = len(layout.parts[layout.rank])
    own = sent[: mine * layout.elements]
    rows, sources = _rows(layout, own, received, layout.elements)
    others = [rank for rank in range(layout.ranks) if rank != layout.rank]
    group.send_and_receive([(rank, own) for rank in others if mine], sources)
    _add_up(layout, rows, whole)


def scatter(group: Group, layout: Layout, parts: Sequence[Array], own: Array, scratch: Sequence[Array]) -> None:
    """Fill `own` with this rank's elements of the sum of one tensor over all shards.

    Args:
        group: the ranks.
        layout: the layout; no exchange of this kind is small.
        parts: the sums of the rank's parts.
        own: the elements.
        scratch: two arrays with the first two of the elements that `scratch_elements` states.
    """
    sent, received = scratch
    _scatter(group, layout, _packed(layout, [parts], sent, layout.bounds), received, own)


def _scatter_and_gather(group: Group, layout: Layout, sent: Array, received: Array, whole: Array) -> None:
    bounds, me = layout.bounds, layout.rank
    own = whole[bounds[me] : bounds[me + 1]]
    _scatter(group, layout, sent, received, own)
    others = [rank for rank in range(layout.ranks) if rank != me]
    totals = [(rank, whole[bounds[rank] : bounds[rank + 1]]) for rank in others]
    group.send_and_receive([(rank, own) for rank in others], totals)


def _scatter(group: Group, layout: Layout, sent: Array, received: Array, own: Array) -> None:
    bounds, me = layout.bounds, layout.rank
    mine = len(layout.parts[me])
    blocks = [sent[mine * first : mine * stop] for first, stop in pairwise(bounds)]
    rows, sources = _rows(layout, blocks[me], received, layout.own)
    others = [rank for rank in range(layout.ranks) if rank != me]
    group.send_and_receive([(rank, blocks[rank]) for rank in others if mine], sources)
    _add_up(layout, rows, own)


def _rows(
    layout: Layout, own: Array, received: Array, elements: int
) -> tuple[dict[Range, tuple[Array, bool]], list[tuple[int, Array]]]:
    """Return the elements of each part, as `_add_up` takes them, and the arrays that other ranks fill."""
    mine = layout.parts[layout.rank]
    rows = {part: (row, False) for part, row in zip(mine, own.reshape(len(mine), elements), strict=True)}
    here, at = received.reshape(-1, elements), 0
    sources: list[tuple[int, Array]] = []
    for rank, parts in enumerate(layout.parts):
        if rank != layout.rank and parts:
            sources.append((rank, here[at : at + len(parts)]))
            rows.update((part, (row, True)) for part, row in zip(parts, here[at:], strict=False))
            at += len(parts)
    return rows, sources


def _packed(layout: Layout, parts: Sequence[Sequence[Array]], sent: Array, bounds: Sequence[int]) -> Array:
    """Return the elements to send: for each range between two bounds, the elements of each part, of each tensor."""
    count = len(layout.parts[layout.rank])
    if not count:
        return sent
    if count == len(parts) == 1:
        return parts[0][0].reshape(-1)
    if count == 1:  # the ranges follow each other, so this is one tensor after another
        np.concatenate([tensor[0].reshape(-1) for tensor in parts], out=sent[: layout.elements])
        return sent
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


def _add_up(layout: Layout, rows: Mapping[Range, tuple[Array, bool]], out: Array) -> None:
    """Add the rows in the order of the tree; True stands beside a row that may be overwritten."""

    def of(node: Range, result: Array | None) -> tuple[Array, bool]:
        if node in rows:
            return rows[node]
        middle = middle_of(node)
        (left, over_left), (right, over_right) = of((node[0], middle), None), of((middle, node[1]), None)
        if result is None:
            result = left if over_left else right
            assert over_left or over_right, "a rank has no two parts that are the two of one sum"
        return np.add(left, right, out=result), True

    found, _ = of((0, layout.shards), out)
    if found is not out:
        np.copyto(out, found)
