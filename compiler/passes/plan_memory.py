"""Pass: give every binding the plan of its memory: the bytes that a step may take.

1. The tensors that share memory, the buffers of a bound block and their lifetimes, scratch included, follow from its
   ops and their order, and so does the placement of the buffers in one arena (`runtime.step`).
2. The plan has the size of the arena and a lower bound for any placement of this order.
3. The runtime places the step again when it loads it, and allocates exactly that, once. A fetch that the program does
   not declare is not in the plan, and may take more.
"""

from __future__ import annotations

from typing import Final

from compiler.errors import CompileError
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses, BlockAnalysis
from runtime.placement import QUICK, THOROUGH, Effort
from runtime.step import Places, places_of
from runtime.target import TARGET

MOST_BYTES: Final = 1 << 62
"""Upper bound on the bytes of an arena, and on every offset."""


def plan_memory(program: BlockAnalyses, *, thorough: bool = False) -> None:
    """Place all buffers that die within a step in one arena, and write its size into the binding.

    Args:
        program: its blocks are in their final form.
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
    return plan_from(places_of(block, TARGET, effort=effort))


def plan_from(places: Places) -> pb.MemoryPlan:
    """Return the plan of a placed step."""
    if places.arena_bytes > MOST_BYTES:
        raise CompileError(f"a step takes {places.arena_bytes} bytes, more than the {MOST_BYTES} that a plan can say")
    return pb.MemoryPlan(
        arena_bytes=places.arena_bytes,
        lower_bound=places.lower_bound,
        optimal=places.optimal,
        file_bytes=places.file_bytes,
    )
