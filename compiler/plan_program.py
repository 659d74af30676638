"""Plan the memory of a finished program with care, within a budget if there is one."""

from __future__ import annotations

from compiler.bound_blocks import bound_blocks
from compiler.errors import LimitError
from compiler.memory_budget import plan_within
from compiler.memory_report import MemoryReport, memory_report
from compiler.pipeline import run_passes
from compiler.plan_memory import plan_memory
from compiler.verify import verify
from prograd_proto import program_pb2 as pb
from runtime.memory import THOROUGH


def plan_program(program: pb.ProgramDesc, budget: int | None = None) -> MemoryReport:
    """Plan every binding of a compiled program, edited in place; untouched if that fails.

    Without a budget the ops stay as they are. With one, what an earlier budget made run again is forgotten first.

    Args:
        program: well formed.
        budget: bytes that no arena may exceed.

    Raises:
        LimitError: the budget cannot be met; it says by how much, and which op is in the way.
    """
    if budget is None:
        plan_memory(program, THOROUGH)
        return memory_report(program)
    planned = pb.ProgramDesc()
    planned.CopyFrom(program)
    if any(op.recompute_of for block in bound_blocks(planned) for op in block.ops):
        run_passes(planned)
    for entry in planned.entries:
        for binding in entry.bindings:
            try:
                binding.plan.CopyFrom(plan_within(planned.blocks[binding.block], budget))
            except LimitError as error:
                raise LimitError(f"entry {entry.name!r}: {error}") from None
    verify(planned)
    program.CopyFrom(planned)
    return memory_report(program)
