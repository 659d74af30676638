"""Thorough memory planning of a finished program, within a budget if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from operator import index
from typing import cast

from compiler.analyses.memory_report import MemoryReport, memory_report
from compiler.build.whole_numbers import is_whole
from compiler.errors import CompileError, LimitError
from compiler.passes.pass_table import PassTable
from compiler.passes.pipeline import PASSES
from compiler.passes.run_passes import AfterPass, no_garbage_collection, run_passes
from compiler.passes.verify import digests
from compiler.planning.give_room import Room
from compiler.planning.pipeline import PLANNING, passes_to_plan
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of


def plan_program(
    program: pb.ProgramDesc,
    budget: int | None,
    threads: int = 1,
    *,
    spill: bool,
    seconds: float | None,
    recompute: Sequence[str] = (),
    after: AfterPass | None = None,
    passes: PassTable = PASSES,
) -> MemoryReport:
    """Plan every binding of a compiled program, edited in place; on an error it is unchanged.

    Without a budget, with one thread and without scopes to recompute, the ops are not changed. Otherwise the changes of
    an earlier plan are dropped first. If a budget is not met by values outside of loops, the gradients of loops
    recompute the values that loops store.

    Args:
        program: well formed.
        budget: bytes that no arena may exceed.
        threads: number of threads that run ops; several get space, within the budget or else within a limit.
        spill: True if values may be spilled to a file to keep the budget; the run names its folder.
        seconds: time limit of the search for a way to keep the budget; None for no limit.
        recompute: patterns of scopes, as "layers.*", whose forward ops run again in the backward pass.
        after: called with each pass's name and the program as the pass left it.
        passes: the passes that compiled the program.

    Raises:
        CompileError: the number of threads, the budget or the seconds are invalid, or a pattern matches no scope.
        LimitError: the budget cannot be met, or not within the time limit; it has the best result.
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
    anew = budget is not None or threads > 1 or bool(recompute)
    planning = PLANNING.with_settings(
        {
            "recompute_scopes": {"scopes": ",".join(recompute)},
            "keep_budget": {"budget": budget, "spill": bool(spill), "seconds": seconds},
            "give_room": {"threads": index(threads), "budget": budget},
        }
    )
    well_formed = None if anew else set(digests(program))  # blocks that are not edited need no second check
    ways = [passes]
    has_loops = any(op.blocks for block in program.blocks for op in block.ops)
    if budget is not None and has_loops and "recompute_in_loops" in passes.names:
        ways.append(passes.with_settings({"recompute_in_loops": {"enabled": True}}))
    for number, way in enumerate(ways, 1):
        planned = copy_of(program)
        analyses = BlockAnalyses(planned)
        steps = passes_to_plan(way, planning, anew=anew)
        try:
            with no_garbage_collection():
                said = run_passes(planned, steps, after=after, well_formed=well_formed, analyses=analyses)
        except LimitError:
            if number == len(ways):
                raise
            continue
        program.CopyFrom(planned)
        rooms = cast("dict[int, Room]", said.get("give_room", {}))
        return memory_report(analyses, rooms, cast("dict[int, int]", said.get("recompute_scopes") or {}))
    raise AssertionError("the last way returns or raises")
