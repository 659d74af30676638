"""The lifetime of each buffer of a step.

The clock has two ticks per op: op number i reads at 2i and writes at 2i + 1. A buffer lives from the write that defines
it until after the write of the last op that reads it. So an op overwrites its own inputs only where its in-place pairs
say so. Tensors that share memory are one buffer, with the name of the first. Scratch lives for both ticks of its op.
Tensors that a fetch or an update reads live to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from prograd_proto.blocks import BlockAnalysis
from runtime.placement.buffer import Buffer
from runtime.step.aliases import Aliases, made_outside
from runtime.step.effects import spills


def buffers_of(block: BlockAnalysis, aliases: Aliases, scratch: Sequence[Sequence[tuple[str, int]]]) -> list[Buffer]:
    """Return the buffers of a bound block that belong in the arena, in the order of their definition.

    Args:
        block: block with static types; tensors of states, arguments, constants and spilled tensors are left out.
        aliases: the tensors that are one buffer, and those that live to the end.
        scratch: for each op, the names and bytes of its scratch arrays.
    """
    outside = {*block.state_of, *block.arguments, *made_outside(block)}
    start = {name: 0 for name in block.parameter_names if name not in outside}
    result: list[Buffer] = []
    for i, (row, outputs) in enumerate(zip(scratch, block.outputs, strict=True)):
        result.extend([Buffer(name, nbytes, 2 * i, 2 * i + 2) for name, nbytes in row])
        start.update([(y, 2 * i + 1) for y in outputs if aliases.storage[y].root == y and y not in outside])
    return sorted([*result, *_from_the_start(start, block, aliases)], key=attrgetter("start", "name"))


def spilled_of(block: BlockAnalysis, aliases: Aliases) -> list[Buffer]:
    """Return the buffers of a bound block that lie in the file beside the arena, as `buffers_of` does for the arena."""
    columns = enumerate(zip(block.op_types, block.outputs, strict=True))
    start = {name: 2 * i + 1 for i, (op_type, outputs) in columns if spills(op_type) for name in outputs}
    return _from_the_start(start, block, aliases)


def _from_the_start(start: Mapping[str, int], block: BlockAnalysis, aliases: Aliases) -> list[Buffer]:
    """Return the buffers with these starts, each until after its last read."""
    stop = {name: tick + 1 for name, tick in start.items()}
    end = 2 * len(block.ops) + 1
    for (root, _), i in aliases.last_read.items():
        if root in stop:
            stop[root] = max(stop[root], min(2 * i + 2, end))
    return [Buffer(name, block.types[name].nbytes, start[name], stop[name]) for name in start]
