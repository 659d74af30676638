"""The bytes that each op of a block touches, by its plan."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalysis
from runtime.step import Touched, aliases_of, effects_of, scratch_of
from runtime.target import TARGET


def touched_by_plan(block: BlockAnalysis, plan: pb.MemoryPlan) -> list[Touched]:
    """Return the bytes that each op reads and writes: those of the arena, then of the file, then of states.

    Views and constants touch none, because they compute nothing.
    """
    scratch = scratch_of(block, TARGET)
    sizes = {name: type.nbytes for name, type in (*block.types.items(), *(named for row in scratch for named in row))}
    aliases = aliases_of(block)
    address = {placement.tensor: placement.offset for placement in plan.placements}
    address |= {spilled.tensor: plan.arena_bytes + spilled.offset for spilled in plan.spilled}
    end = plan.arena_bytes + plan.file_bytes
    for name, (root, _) in aliases.storage.items():
        if root not in address:
            address[root], end = end, end + sizes[root]
        address[name] = address[root]

    def ranges(names: Sequence[str]) -> list[tuple[int, int]]:
        return [(address[name], address[name] + sizes[name]) for name in names if name and sizes[name]]

    return [
        Touched([], [])
        if i in aliases.views or block.op_types[i] == "constant"
        else Touched(
            ranges(block.inputs[i]),
            ranges([*block.outputs[i], *(name for name, _ in row)]),
            effects_of(block.op_types[i]),
        )
        for i, row in enumerate(scratch)
    ]
