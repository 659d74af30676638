"""Exchanges between the ranks of a run, which `runtime.ranks.deal` puts into their steps; no file has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Final

import numpy as np

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES
from runtime.contract import GROUP
from runtime.kernel import Array, Effect, kernel, require
from runtime.ranks.current import current_group
from runtime.ranks.exchange import Layout, exchange, layout_of, scatter, scratch_elements
from runtime.ranks.group import Group
from runtime.ranks.tree import parts_of, shards_of

EXCHANGES: Final = (Effect(GROUP, "writes"),)


def _layout(shards: int, rank: int, ranks: int, tensors: list[TensorType]) -> Layout:
    elements = sum(type.nbytes for type in tensors) // ITEM_BYTES[tensors[0].dtype]
    return layout_of(shards, rank, ranks, elements, ITEM_BYTES[tensors[0].dtype])


def all_reduce_rule(*parts: TensorType, shards: int, rank: int, ranks: int) -> tuple[TensorType, ...]:
    return tuple(_tensors(parts, shards, rank, ranks))


def all_reduce_scratch(
    parts: Sequence[TensorType], shards: int, rank: int, ranks: int, out: Sequence[TensorType]
) -> list[TensorType]:
    sizes = scratch_elements(_layout(shards, rank, ranks, list(out)), len(out))
    return [TensorType(parts[0].dtype, (size,)) for size in sizes]


@kernel(all_reduce_rule, scratch=all_reduce_scratch, effects=EXCHANGES, variadic_outputs=True)
def all_reduce(*parts: Array, shards: int, rank: int, ranks: int, out: list[Array], scratch: list[Array]) -> None:
    count = max(1, len(parts_of(shards, rank, ranks)))
    tensors = [parts[first : first + count] for first in range(0, len(parts), count)]
    layout = layout_of(shards, rank, ranks, sum(array.size for array in out), out[0].itemsize)
    exchange(_group(rank, ranks), layout, tensors, out, scratch)


def reduce_scatter_rule(*parts: TensorType, shards: int, rank: int, ranks: int) -> TensorType:
    return TensorType(parts[0].dtype, (_large(parts, shards, rank, ranks).own,))


def reduce_scatter_scratch(parts: Sequence[TensorType], shards: int, rank: int, ranks: int) -> list[TensorType]:
    sent, received, _ = scratch_elements(_large(parts, shards, rank, ranks), 1)
    return [TensorType(parts[0].dtype, (size,)) for size in (sent, received)]


def _large(parts: Sequence[TensorType], shards: int, rank: int, ranks: int) -> Layout:
    """Return the layout of one tensor that is exchanged as a large one; raise ProgramError for several."""
    tensors = _tensors(parts, shards, rank, ranks)
    require(len(tensors) == 1, f"the parts are of {len(tensors)} tensors")
    return _layout(shards, rank, ranks, tensors)._replace(is_small=False)


@kernel(reduce_scatter_rule, scratch=reduce_scatter_scratch, effects=EXCHANGES)
def reduce_scatter(*parts: Array, shards: int, rank: int, ranks: int, out: Array, scratch: list[Array]) -> None:
    layout = layout_of(shards, rank, ranks, parts[0].size, out.itemsize)._replace(is_small=False)
    scatter(_group(rank, ranks), layout, parts, out, scratch)


def all_gather_rule(own: TensorType, whole: TensorType, *, rank: int, ranks: int) -> TensorType:
    require(0 <= rank < ranks, f"the rank is {rank} of {ranks}")
    first, stop = shards_of(prod(whole.static_shape), rank, ranks)
    wanted = TensorType(whole.dtype, (stop - first,))
    require(own == wanted, f"the elements of rank {rank} of {ranks} are {own}, not {wanted}")
    return whole


@kernel(all_gather_rule, in_place=[(0, 1)], halves=True, effects=EXCHANGES)
def all_gather(own: Array, whole: Array, *, rank: int, ranks: int, out: Array) -> None:
    bounds = [shards_of(whole.size, each, ranks)[0] for each in range(ranks + 1)]
    counts = [stop - first for first, stop in pairwise(bounds)]
    _group(rank, ranks).all_gather(_movable(own), _movable(out.reshape(-1)), counts)


def _movable(array: Array) -> Array:
    """Return an array of a dtype that MPI knows, with the same bytes."""
    return array.view(np.uint16) if array.itemsize == 2 else array


def _tensors(parts: Sequence[TensorType], shards: int, rank: int, ranks: int) -> list[TensorType]:
    """Return the type of each tensor whose parts a rank has; raise ProgramError unless the parts are equal."""
    require(0 <= rank < ranks and shards >= 1, f"the rank is {rank} of {ranks}, the shards are {shards}")
    count = max(1, len(parts_of(shards, rank, ranks)))
    require(len(parts) % count == 0, f"a rank with {count} parts of each tensor has {len(parts)} of all")
    tensors = list(parts[::count])
    for i, part in enumerate(parts):
        require(part == tensors[i // count], f"a part is {part}, another of the same tensor {tensors[i // count]}")
    dtype = parts[0].dtype
    require(dtype in FLOATS | INTEGERS, f"a part is {parts[0]}, of which there are no sums")
    require(all(part.dtype == dtype for part in parts), "the parts have several dtypes")
    return tensors


def _group(rank: int, ranks: int) -> Group:
    """Return the group of this process, for which its steps were dealt."""
    group = current_group()
    assert group is not None, "a step with exchanges is dealt to a group"
    assert (group.rank, group.size) == (rank, ranks), "to this group"
    return group
