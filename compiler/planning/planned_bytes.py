"""Which bytes each op of a block touches, as its plan places them."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Reading
from runtime.step import Touched, aliases_of, effects_of, scratch_of
from runtime.target import TARGET


def touched_by_plan(block: pb.BlockDesc, plan: pb.MemoryPlan) -> list[Touched]:
    """The bytes that each op reads and writes: of the arena, behind it those of the file and then of states.

    Views and constants touch none, as they have nothing to compute.
    """
    written = Reading(block)
    scratch = scratch_of(written, TARGET)
    sizes = {name: type.nbytes for name, type in (*written.types.items(), *(named for row in scratch for named in row))}
    aliases = aliases_of(written)
    address = {placement.tensor: placement.offset for placement in plan.placements}
    address |= {spilled.tensor: plan.arena_bytes + spilled.offset for spilled in plan.spilled}
    end = plan.arena_bytes + plan.file_bytes
    for name, (root, _) in aliases.places.items():
        if root not in address:
            address[root], end = end, end + sizes[root]
        address[name] = address[root]

    def ranges(names: Sequence[str]) -> list[tuple[int, int]]:
        return [(address[name], address[name] + sizes[name]) for name in names if name and sizes[name]]

    return [
        Touched([], [])
        if i in aliases.views or op.type == "constant"
        else Touched(ranges(op.inputs), ranges([*op.outputs, *(name for name, _ in row)]), effects_of(op.type))
        for i, (op, row) in enumerate(zip(block.ops, scratch, strict=True))
    ]


def buffers_of_ops(block: pb.BlockDesc) -> list[set[str]]:
    """Of each op the buffers that it reads, writes and needs beside."""
    written = Reading(block)
    places = aliases_of(written).places
    return [
        {places[name].root for name in (*op.inputs, *op.outputs) if name} | {name for name, _ in row}
        for op, row in zip(block.ops, scratch_of(written, TARGET), strict=True)
    ]
