"""The exchanges of a rank's step, and the bytes that they send."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

from prograd_proto import TensorType, type_of
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attributes_of
from prograd_proto.dtypes import ITEM_BYTES
from runtime.ranks.cut import GATHER
from runtime.ranks.deal import REDUCE, SCATTER
from runtime.ranks.exchange import layout_of


class Exchange(NamedTuple):
    """An op that exchanges values with other ranks.

    Attributes:
        op: the op.
        nbytes: bytes of the whole tensors.
        sent: bytes that this rank sends to others.
    """

    op: pb.OpDesc
    nbytes: int
    sent: int


def exchanges(block: pb.BlockDesc) -> Iterator[Exchange]:
    """Yield the exchanges of a block that was dealt to a rank, in order."""
    types = {tensor.name: type_of(tensor) for tensor in block.tensors}
    for op in block.ops:
        if op.type == GATHER:
            nbytes, own = types[op.inputs[1]].nbytes, types[op.inputs[0]].nbytes
            yield Exchange(op, nbytes, own * (_number(op, "ranks") - 1))
        elif op.type in (REDUCE, SCATTER):
            yield _reduction(op, types)


def _reduction(op: pb.OpDesc, types: dict[str, TensorType]) -> Exchange:
    """Return the exchange of a sum; each rank sends the elements of others, and with `all_reduce` its own totals."""
    shards, rank, ranks = (_number(op, name) for name in ("shards", "rank", "ranks"))
    first = types[op.inputs[0]]
    item = ITEM_BYTES[first.dtype]
    whole = op.type == REDUCE
    elements = sum(prod(types[name].static_shape) for name in (op.outputs if whole else op.inputs[:1]))
    layout = layout_of(shards, rank, ranks, elements, item)
    parts = len(layout.parts[rank])
    if layout.is_small and whole:
        return Exchange(op, elements * item, parts * elements * item * (ranks - 1))
    sent = parts * (elements - layout.own) + (layout.own * (ranks - 1) if whole else 0)
    return Exchange(op, elements * item, sent * item)


def _number(op: pb.OpDesc, name: str) -> int:
    return int(attributes_of(op)[name])  # pyright: ignore[reportArgumentType]: the contract says int
