"""Place: tensors that still need memory after fusion get offsets in one arena, by lifetimes on a clock of phases.

1. A tensor is stored if another group, a host op or the end of the step reads it.
2. A tensor that overwrites a state has the memory of the state; see `lowering.in_place`.
3. A prepacked tensor has memory of its own, which no other tensor shares.
4. The blocks inside an op have been placed before. Their arena, which they share because one is computed at a time, is
   scratch of the op. Their arguments and the results that they write where they are needed are outside of it.
5. A tensor that overwrites an operand of its group has the memory of the operand; see `lowering.in_place`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runtime.codegen.groups.nodes import Nodes
from runtime.codegen.lowering.control import copies_of_block, counter_bytes, results_of, spare_carries
from runtime.codegen.lowering.in_place import overwritten_operands, units_of
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.memory import BodyMemory, Memory, body_name, scratch_names
from runtime.codegen.rules import KernelSteps
from runtime.placement import Buffer, check_placement
from runtime.placement.alignment import ALIGNMENT, PAGE, aligned
from runtime.step import UNREAD_FEED, Uses, lifetimes_of, spills


def place(block: LoweredBlock) -> LoweredBlock:
    """Assign offsets in memory to stored tensors and to scratch."""
    return block._replace(memory=_memory(block))


def _memory(block: LoweredBlock) -> Memory:
    nodes, groups, phases, in_state = block.nodes, block.groups, block.phases, block.in_state
    types, step_units = nodes.types, units_of(block)
    outside = set[str]() if block.owner is None else {*nodes.feeds, *results_of(block).direct}
    fed = [name for name in nodes.feeds if name not in outside]
    over = _overwritten(block, {*in_state, *outside, *nodes.ends, *fed})
    lifetimes = lifetimes_of(step_units, Uses(step_units, nodes.ends), over)
    buffers = [Buffer(name, types[name].nbytes, *lifetimes.get(name, UNREAD_FEED)) for name in fed]
    spilled: list[Buffer] = []
    packed: dict[str, int] = {}
    packed_bytes = 0
    columns = zip(groups, block.stored, block.scratch, block.steps, phases.first, phases.last, strict=True)
    for i, (group, names, sizes, steps, first, last) in enumerate(columns):
        scratch = scratch_names(i, len(sizes))
        for name, size in _packed(nodes, steps, names, scratch, sizes):
            packed[name], packed_bytes = packed_bytes, packed_bytes + aligned(size)
        outputs = [
            Buffer(name, types[name].nbytes, *lifetimes[name])
            for name in names
            if name not in in_state and name not in packed and name not in outside and name not in over
        ]
        (spilled if spills(group.nodes[0].op.type) else buffers).extend(outputs)
        sized = zip(scratch, sizes, strict=True)
        buffers += [Buffer(name, size, first, last + 1) for name, size in sized if name not in packed]
        if block.is_control(group):
            sizes_of_bodies = _sizes_of_bodies(block, group.nodes[0].op.id).items()
            buffers += [Buffer(name, size, first, last + 1) for name, size in sizes_of_bodies if size]
    offsets, arena_bytes = _placed(buffers)
    offsets |= {name: offsets[old] for name, old in over.items()}
    in_file, file_bytes = _placed(spilled, PAGE) if spilled else ({}, 0)
    return Memory(
        [[*names] for names in block.stored],
        dict(in_state),
        {name: at for name, at in offsets.items() if name in types},
        in_file,
        {name: at for name, at in packed.items() if name in types},
        [
            [packed[name] if name in packed else offsets[name] for name in scratch_names(i, len(sizes))]
            for i, sizes in enumerate(block.scratch)
        ],
        buffers,
        aligned(arena_bytes),
        file_bytes,
        packed_bytes,
        {op: _body_memory(block, op, offsets) for op in block.bodies},
    )


def _overwritten(block: LoweredBlock, others: set[str]) -> dict[str, str]:
    """Return the tensors that have the memory of an operand of their group, with the first tensor in that memory."""
    if block.owner is not None or block.is_instrumented:
        return {}
    in_file = {name for group in block.groups if spills(group.nodes[0].op.type) for name in group.outputs}
    found: dict[str, str] = {}
    for name, old in overwritten_operands(block, others | in_file).items():
        found[name] = found.get(old, old)
    return found


def _sizes_of_bodies(block: LoweredBlock, op: int) -> dict[str, int]:
    """Return the bytes of the memory that the blocks of an op take, by the name of the buffer."""
    bodies = block.bodies[op]
    copies = copies_of_block(block, next(each for each in block.desc.ops if each.id == op))
    sizes = {body_name(op, "arena"): copies * max(aligned(body.memory.arena_bytes) for body in bodies)}
    sizes |= {body_name(op, f"packed {i}"): body.memory.packed_bytes for i, body in enumerate(bodies)}
    body = bodies[-1]
    if copies > 1:
        return sizes | {body_name(op, f"spare {j}"): counter_bytes(copies) for j in range(results_of(body).carries)}
    spare = {j: body.nodes.types[body.desc.results[j]].nbytes for j in spare_carries(body)}
    return sizes | {body_name(op, f"spare {j}"): size for j, size in spare.items()}


def _body_memory(block: LoweredBlock, op: int, offsets: Mapping[str, int]) -> BodyMemory:
    bodies = block.bodies[op]
    carries = range(results_of(bodies[-1]).carries)
    return BodyMemory(
        offsets.get(body_name(op, "arena"), 0),
        tuple(offsets.get(body_name(op, f"packed {i}"), 0) for i in range(len(bodies))),
        {j: offsets[body_name(op, f"spare {j}")] for j in carries if body_name(op, f"spare {j}") in offsets},
    )


def _packed(
    block: Nodes, steps: KernelSteps, names: Sequence[str], scratch: Sequence[str], sizes: Sequence[int]
) -> Iterator[tuple[str, int]]:
    """Yield the prepacked tensors and scratch of a group, with their bytes."""
    if steps.is_prepacked:
        yield from ((name, block.types[name].nbytes) for name in names)
    yield from ((scratch[number], sizes[number]) for number in sorted(steps.packed))


def _placed(buffers: Sequence[Buffer], alignment: int = ALIGNMENT) -> tuple[dict[str, int], int]:
    """Return the offsets by name, and the bytes of all."""
    from runtime.placement.placement import place  # at a use, because it is slow to import

    placement = place(buffers, alignment=alignment)
    check_placement(buffers, placement.offsets, placement.arena_bytes, alignment=alignment)
    return {b.name: at for b, at in zip(buffers, placement.offsets, strict=True)}, placement.arena_bytes
