"""When each buffer of a step lives.

The clock has two ticks an op: op number i reads at 2i and writes at 2i + 1. A buffer lives from the write that
defines it until after the write of the last op that reads it, so that an op writes over its own inputs only where
it says so. Tensors that share memory are one buffer, of the name of the first.
Scratch lives for both ticks of its op. What a fetch or an update reads lives to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from runtime.memory.aliases import aliases_of, ends_of, spills


class Buffer(NamedTuple):
    """`nbytes` bytes that are needed during the half-open interval [start, stop) of the clock."""

    name: str
    nbytes: int
    start: int
    stop: int


def buffers_of(
    block: pb.BlockDesc,
    types: Mapping[str, TensorType],
    scratch: Sequence[Sequence[tuple[str, int]]],
    pinned: Collection[str] = (),
) -> list[Buffer]:
    """The buffers of a bound block that belong in the arena, in the order of their definition.

    Args:
        block: with static types; tensors of states, constants and what is spilled are left out.
        types: of every tensor of the block.
        scratch: for each op, the names and bytes of its scratch arrays.
        pinned: tensors that must live to the end, besides fetches and updates.
    """
    storage = {name: place.root for name, place in aliases_of(block, pinned).places.items()}
    outside = {parameter.tensor for parameter in block.parameters if parameter.WhichOneof("source") == "state"}
    outside |= {name for op in block.ops if op.type == "constant" or spills(op.type) for name in op.outputs}
    start: dict[str, int] = {p.tensor: 0 for p in block.parameters if p.tensor not in outside}
    stop = dict.fromkeys(start, 1)
    result: list[Buffer] = []
    for i, op in enumerate(block.ops):
        result.extend(Buffer(name, nbytes, 2 * i, 2 * i + 2) for name, nbytes in scratch[i])
        for root in [storage[name] for name in op.outputs]:
            if root not in outside:
                start.setdefault(root, 2 * i + 1)
                stop[root] = 2 * i + 2
        for root in [storage[name] for name in op.inputs if name]:
            if root not in outside:
                stop[root] = 2 * i + 2
    end = 2 * len(block.ops) + 1
    for name in (*ends_of(block), *pinned):
        if storage[name] in start:
            stop[storage[name]] = end
    result.extend(Buffer(name, types[name].nbytes, start[name], stop[name]) for name in start)
    return sorted(result, key=lambda buffer: (buffer.start, buffer.name))


def spilled_of(block: pb.BlockDesc, types: Mapping[str, TensorType], pinned: Collection[str] = ()) -> list[Buffer]:
    """The buffers of a bound block that lie in the file beside the arena, as `buffers_of` gives those of the arena."""
    made = {name: i for i, op in enumerate(block.ops) if spills(op.type) for name in op.outputs}
    if not made:
        return []
    storage = {name: place.root for name, place in aliases_of(block, pinned).places.items()}
    stop = {name: 2 * i + 2 for name, i in made.items()}
    stop |= {
        storage[name]: 2 * i + 2
        for i, op in enumerate(block.ops)
        for name in op.inputs
        if name and storage[name] in made
    }
    stop |= {storage[name]: 2 * len(block.ops) + 1 for name in (*ends_of(block), *pinned) if storage[name] in made}
    return [Buffer(name, types[name].nbytes, 2 * i + 1, stop[name]) for name, i in made.items()]
