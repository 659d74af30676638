"""When each buffer of a step lives.

The clock has two ticks an op: op number i reads at 2i and writes at 2i + 1. A buffer lives from the write that
defines it until after the write of the last op that reads it, so that an op never writes over its own inputs.
Scratch lives for both ticks of its op. What a fetch or an update reads lives to the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb


class Buffer(NamedTuple):
    """`nbytes` bytes that are needed during the half-open interval [start, stop) of the clock."""

    name: str
    nbytes: int
    start: int
    stop: int


def storage_of(block: pb.BlockDesc, pinned: Collection[str] = ()) -> dict[str, str]:
    """The tensor in whose memory each tensor lies: itself, or the root of its in-place chain.

    Nothing is written over a pinned tensor.
    """
    storage = {parameter.tensor: parameter.tensor for parameter in block.parameters}
    for op in block.ops:
        storage.update((name, name) for name in op.outputs)
        for pair in op.in_place:
            if op.inputs[pair.input] in pinned:
                continue
            storage[op.outputs[pair.output]] = storage[op.inputs[pair.input]]
    return storage


def buffers_of(
    block: pb.BlockDesc,
    types: Mapping[str, TensorType],
    scratch: Sequence[Sequence[tuple[str, int]]],
    pinned: Collection[str] = (),
) -> list[Buffer]:
    """The buffers of a bound block that belong in the arena, in the order of their definition.

    Args:
        block: with static types; tensors of states and constants are left out.
        types: of every tensor of the block.
        scratch: for each op, the names and bytes of its scratch arrays.
        pinned: tensors that must live to the end, besides fetches and updates.
    """
    storage = storage_of(block, pinned)
    outside = {parameter.tensor for parameter in block.parameters if parameter.WhichOneof("source") == "state"}
    outside |= {name for op in block.ops if op.type == "constant" for name in op.outputs}
    start: dict[str, int] = {p.tensor: 0 for p in block.parameters if p.tensor not in outside}
    stop = dict.fromkeys(start, 1)
    result: list[Buffer] = []
    for i, op in enumerate(block.ops):
        result.extend(Buffer(name, nbytes, 2 * i, 2 * i + 2) for name, nbytes in scratch[i])
        for name in op.outputs:
            if storage[name] not in outside:
                start.setdefault(storage[name], 2 * i + 1)
                stop[storage[name]] = 2 * i + 2
        for name in op.inputs:
            if name and storage[name] not in outside:
                stop[storage[name]] = 2 * i + 2
    end = 2 * len(block.ops) + 1
    read_last = [fetch.tensor for fetch in block.fetches] + [update.tensor for update in block.updates]
    for name in (*read_last, *block.results, *pinned):
        if storage[name] in start:
            stop[storage[name]] = end
    result.extend(Buffer(name, types[name].nbytes, start[name], stop[name]) for name in start)
    return sorted(result, key=lambda buffer: (buffer.start, buffer.name))
