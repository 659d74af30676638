"""Plan the memory of a finished program with care, within a budget if there is one."""

from __future__ import annotations

from math import inf
from operator import index
from typing import cast

from compiler.analyses.memory_report import MemoryReport, memory_report
from compiler.build.whole_numbers import is_whole
from compiler.errors import CompileError
from compiler.passes.pass_table import PassTable
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import AfterPass, no_garbage_collection, run_passes
from compiler.passes.verify import digests
from compiler.planning.give_room import Room
from compiler.planning.keep_budget import SECONDS
from compiler.planning.pipeline import PLANNING, passes_to_plan
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import Readings


def plan_program(
    program: pb.ProgramDesc,
    budget: int | None = None,
    threads: int = 1,
    *,
    spill: bool = False,
    seconds: float | None = SECONDS,
    after: AfterPass | None = None,
    passes: PassTable = PASSES,
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
        after: called with each pass's name and the program as the pass left it.
        passes: those by which the program was compiled.

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
    budget = None if budget is None else index(budget)
    seconds = None if seconds is None else float(seconds)
    anew = budget is not None or threads > 1
    planning = PLANNING.with_settings(
        {
            "keep_budget": {"budget": budget, "spill": bool(spill), "seconds": seconds},
            "give_room": {"threads": index(threads), "budget": budget},
        }
    )
    planned = pb.ProgramDesc()
    planned.CopyFrom(program)
    readings = Readings(planned)
    well_formed = None if anew else set(digests(planned))  # blocks that are not edited need no second look
    steps = passes_to_plan(passes, planning, anew=anew)
    with no_garbage_collection():
        said = run_passes(planned, steps, after=after, well_formed=well_formed, readings=readings)
        program.CopyFrom(planned)
        return memory_report(readings, cast("dict[int, Room]", said.get("give_room", {})))
