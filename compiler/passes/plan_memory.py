"""Pass: give every binding the plan of its memory.

1. The buffers of a bound block and their lifetimes, scratch included, follow from its ops and their order.
2. `runtime.placement` places them in one arena; the plan has its size, the offset of each buffer, and a lower bound
   for any plan of this order.
3. The runtime checks the plan and allocates exactly that, once. A fetch that the program does not declare is not in the
   plan; the runtime then places anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis, question
from runtime.placement import PAGE, QUICK, THOROUGH, Buffer, Effort, Placement, check_placement, place
from runtime.step import aliases_of, buffers_of, scratch_of, spilled_of, spills
from runtime.target import TARGET

MOST_BYTES: Final = 1 << 62
"""Upper bound on the bytes of an arena, and on every offset."""


def plan_memory(program: BlockAnalyses, *, thorough: bool = False) -> None:
    """Place all buffers that die within a step in one arena, and write the plan into the binding.

    Args:
        program: its blocks that run are as they will run.
        thorough: search longer for a small arena: for seconds, if the quick methods miss the lower bound.
    """
    effort = THOROUGH if thorough else QUICK
    plans: dict[int, pb.MemoryPlan] = {}
    for entry in program.desc.entries:
        for binding in entry.bindings:
            if binding.block not in plans:
                plans[binding.block] = plan_of(program[binding.block], effort)
            binding.plan.CopyFrom(plans[binding.block])


def plan_of(block: BlockAnalysis, effort: Effort = QUICK) -> pb.MemoryPlan:
    """Return the plan of a block with static types."""
    buffers = block_buffers(block)
    return plan_from(block, buffers, place(buffers, effort))


def plan_from(block: BlockAnalysis, buffers: Sequence[Buffer], placed: Placement) -> pb.MemoryPlan:
    """Return the checked plan of a block's buffers at the offsets of a placement, and of its spilled buffers."""
    check_placement(buffers, placed.offsets, placed.arena_bytes)
    if placed.arena_bytes > MOST_BYTES:
        raise CompileError(f"a step takes {placed.arena_bytes} bytes, more than the {MOST_BYTES} that a plan can say")
    plan = pb.MemoryPlan(arena_bytes=placed.arena_bytes, lower_bound=placed.lower_bound, optimal=placed.optimal)
    plan.placements.extend(_placements(buffers, placed.offsets))
    spilled = spilled_buffers(block)
    if spilled:
        in_file = place(spilled, alignment=PAGE)
        check_placement(spilled, in_file.offsets, in_file.arena_bytes, alignment=PAGE, what="a file")
        plan.file_bytes = in_file.arena_bytes
        plan.spilled.extend(_placements(spilled, in_file.offsets))
    return plan


@question(of_marks=True, of_blocks=True)
def block_buffers(block: BlockAnalysis) -> list[Buffer]:
    """Return the buffers of a static block; scratch is included, and the memory of blocks inside ops is scratch."""
    scratch = [[(name, type.nbytes) for name, type in row] for row in scratch_of(block, TARGET)]
    return buffers_of(block, aliases_of(block), scratch)


@question(of_marks=True)
def spilled_buffers(block: BlockAnalysis) -> list[Buffer]:
    """Return the buffers of a static block that are in the file beside the arena."""
    return spilled_of(block, aliases_of(block)) if any(map(spills, set(block.op_types))) else []


def _placements(buffers: Sequence[Buffer], offsets: Sequence[int]) -> Iterator[pb.Placement]:
    return (pb.Placement(tensor=buffer.name, offset=offset) for buffer, offset in zip(buffers, offsets, strict=True))
