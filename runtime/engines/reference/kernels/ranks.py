"""Exchanges between the ranks of a run, which `runtime.ranks.deal` puts into their steps; no file has them."""

from __future__ import annotations

from typing import Final

from prograd_proto import TensorType
from prograd_proto.dtypes import FLOATS, INTEGERS, ITEM_BYTES
from runtime.contract import GROUP
from runtime.kernel import Array, Effect, Types, kernel, require, types
from runtime.ranks.current import current_group
from runtime.ranks.exchange import Layout, exchange, layout_of, scratch_elements
from runtime.ranks.tree import parts_of

EXCHANGES: Final = (Effect(GROUP, "writes"),)


def _layout(shards: int, rank: int, ranks: int, tensors: list[TensorType]) -> Layout:
    elements = sum(type.nbytes for type in tensors) // ITEM_BYTES[tensors[0].dtype]
    return layout_of(shards, rank, ranks, elements, ITEM_BYTES[tensors[0].dtype])


def all_reduce_rule(*parts: TensorType, shards: int, rank: int, ranks: int) -> Types:
    require(0 <= rank < ranks and shards >= 1, f"the rank is {rank} of {ranks}, the shards are {shards}")
    count = max(1, len(parts_of(shards, rank, ranks)))
    require(len(parts) % count == 0, f"a rank with {count} parts of each tensor has {len(parts)} of all")
    tensors = list(parts[::count])
    for i, part in enumerate(parts):
        require(part == tensors[i // count], f"a part is {part}, another of the same tensor {tensors[i // count]}")
    dtype = parts[0].dtype
    require(dtype in FLOATS | INTEGERS, f"a part is {parts[0]}, of which there are no sums")
    require(all(part.dtype == dtype for part in parts), "the parts have several dtypes")
    sizes = scratch_elements(_layout(shards, rank, ranks, tensors), len(tensors))
    return types(*tensors, scratch=[TensorType(dtype, (size,)) for size in sizes])


@kernel(all_reduce_rule, effects=EXCHANGES, variadic_outputs=True)
def all_reduce(*parts: Array, shards: int, rank: int, ranks: int, out: list[Array], scratch: list[Array]) -> None:
    group = current_group()
    assert group is not None, "a step with exchanges is dealt to a group"
    assert (group.rank, group.size) == (rank, ranks), "to this group"
    count = max(1, len(parts_of(shards, rank, ranks)))
    tensors = [parts[first : first + count] for first in range(0, len(parts), count)]
    layout = layout_of(shards, rank, ranks, sum(array.size for array in out), out[0].itemsize)
    exchange(group, layout, tensors, out, scratch)
