"""Plan the memory of a finished program with care, within a budget if there is one."""

from __future__ import annotations

from math import inf
from typing import Final

from compiler.analyses.memory_report import MemoryReport, memory_report
from compiler.build.whole_numbers import is_whole
from compiler.errors import CompileError, LimitError
from compiler.passes.list_operators import list_operators
from compiler.passes.pipeline import run_passes
from compiler.passes.plan_memory import plan_memory, plan_of
from compiler.passes.verify import verify
from compiler.planning.memory_budget import plan_within
from compiler.planning.room_for_threads import Room, make_room
from compiler.planning.time_limit import TimeLimit
from prograd_proto import program_pb2 as pb
from runtime.placement import THOROUGH

SECONDS: Final = 60.0
"""Of the search for a way to keep a budget, unless another limit is given."""


def plan_program(
    program: pb.ProgramDesc,
    budget: int | None = None,
    threads: int = 1,
    *,
    spill: bool = False,
    seconds: float | None = SECONDS,
) -> MemoryReport:
    """Plan every binding of a compiled program, edited in place; untouched if that fails.

    With neither a budget nor several threads the ops stay as they are. Else what an earlier plan did to them is
    forgotten first.

    Args:
        program: well formed.
        budget: bytes that no arena may exceed.
        threads: how many are to run ops; more than one get room, within the budget or else within a limit.
        spill: values may wait in a file to keep the budget; the runtime is told in which folder it is.
        seconds: after these no further way to keep the budget is looked for; None for no limit.

    Raises:
        CompileError: the number of threads, the budget or the seconds are none.
        LimitError: the budget cannot be met, or not within the seconds; it says how far it came.
    """
    if budget is not None and not hasattr(budget, "__index__"):
        raise CompileError(f"budget={budget!r}: a budget is a whole number of bytes")
    is_number = isinstance(seconds, int | float)  # users may not check types
    if seconds is not None and not (is_number and 0 <= seconds < inf):
        raise CompileError(f"seconds={seconds!r}: a limit of time is a number of seconds, 0 or more, or None")
    if not is_whole(threads) or threads < 1:
        raise CompileError(f"threads={threads}: a plan is for a whole number of threads, 1 or more")
    if budget is None and threads == 1:
        plan_memory(program, THOROUGH)
        return memory_report(program, {})
    planned = pb.ProgramDesc()
    planned.CopyFrom(program)
    run_passes(planned)
    rooms: dict[int, Room] = {}
    limit = TimeLimit(seconds)
    for entry in planned.entries:
        for binding in entry.bindings:
            block = planned.blocks[binding.block]
            try:
                tight = (
                    plan_of(block, THOROUGH)
                    if budget is None
                    else plan_within(block, budget, spilling=spill, limit=limit)
                )
            except LimitError as error:
                raise LimitError(f"entry {entry.name!r}: {error}") from None
            rooms[binding.block] = make_room(block, tight, threads, budget)
            binding.plan.CopyFrom(rooms[binding.block].plan)
    list_operators(planned)
    verify(planned)
    program.CopyFrom(planned)
    return memory_report(program, rooms if threads > 1 else {})
