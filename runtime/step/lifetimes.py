"""The lifetime of each buffer of a step.

The clock has two ticks for each phase: the ops of phase i read at 2i and write at 2i + 1. Ops that run one after
another have a phase each. A buffer lives from the write that defines it until after the write of the last op that reads
it. So an op overwrites its own inputs only where its in-place pairs say so. Tensors that share memory are one buffer,
with the name of the first. Scratch lives for both ticks of its op. Tensors that a fetch or an update reads live to the
end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from prograd_proto.blocks import BlockAnalysis
from runtime.placement.buffer import Buffer
from runtime.step.aliases import Aliases, made_outside
from runtime.step.effects import spills


def buffers_of(
    block: BlockAnalysis,
    aliases: Aliases,
    scratch: Sequence[Sequence[tuple[str, int]]],
    phases: Sequence[int] | None = None,
) -> list[Buffer]:
    """Return the buffers of a bound block that belong in the arena, in the order of their definition.

    Args:
        block: block with static types; tensors of states, arguments, constants and spilled tensors are left out.
        aliases: the tensors that are one buffer, and those that live to the end, for the same phases.
        scratch: for each op, the names and bytes of its scratch arrays.
        phases: for each op the number of its phase; None for ops that run one after another.
    """
    outside = {*block.state_of, *block.arguments, *made_outside(block)}
    start = {name: 0 for name in block.parameter_names if name not in outside}
    result: list[Buffer] = []
    times = range(len(block.ops)) if phases is None else phases
    for time, row, outputs in zip(times, scratch, block.outputs, strict=True):
        result.extend([Buffer(name, nbytes, 2 * time, 2 * time + 2) for name, nbytes in row])
        start.update([(y, 2 * time + 1) for y in outputs if aliases.root[y] == y and y not in outside])
    return sorted([*result, *_from_the_start(start, block, aliases, times)], key=attrgetter("start", "name"))


def spilled_of(block: BlockAnalysis, aliases: Aliases) -> list[Buffer]:
    """Return the buffers of a bound block that lie in the file beside the arena, as `buffers_of` does for the arena."""
    if not any(map(spills, set(block.op_types))):
        return []
    columns = enumerate(zip(block.op_types, block.outputs, strict=True))
    start = {name: 2 * i + 1 for i, (op_type, outputs) in columns if spills(op_type) for name in outputs}
    return _from_the_start(start, block, aliases, range(len(block.ops)))


def _from_the_start(
    start: Mapping[str, int], block: BlockAnalysis, aliases: Aliases, times: Sequence[int]
) -> list[Buffer]:
    """Return the buffers with these starts, each until after its last read."""
    end = 2 * max(times, default=-1) + 3
    stop = {name: tick + 1 for name, tick in start.items()}
    for root, time in aliases.last_use.items():
        if root in stop:
            stop[root] = max(stop[root], int(min(2 * time + 2, end)))
    return [Buffer(name, block.types[name].nbytes, start[name], stop[name]) for name in start]
