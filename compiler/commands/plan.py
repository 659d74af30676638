"""The verb `compiler plan`: thorough memory plans of every entry, in words, and the program with these plans."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator

from compiler.analyses.memory_report import BindingMemory, MemoryReport
from compiler.build.well_formed import well_formed
from compiler.commands.asked_passes import dumper
from compiler.commands.chosen_entry import binding_in_words
from compiler.commands.engine_arenas import arenas_in_words
from compiler.commands.notes import note_files
from compiler.commands.ops_in_words import line_of, op_in_words, size_in_words
from compiler.commands.views.ranks import ranks_in_words
from compiler.errors import CompileError, LimitError
from compiler.planning.give_room import NEAR, Room
from compiler.planning.pipeline import passes_to_plan
from compiler.planning.plan_program import plan_program
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import save
from prograd_proto.identity import program_sha256
from prograd_proto.printable import sentence
from runtime.command_line.streams import put


def plan(options: argparse.Namespace) -> None:
    """Plan, print the report, and write the program if an output is given; nothing is written on an error."""
    program = well_formed(options.program)
    if not all(entry.bindings for entry in program.entries):
        raise ProgramError(f"{options.program}: there are entries without a block that runs; compile the program")
    passes = passes_to_plan(anew=options.budget is not None or options.threads > 1 or bool(options.recompute))
    after = dumper(options.dump_after, passes) if options.dump_after else None
    try:
        report = plan_program(
            program,
            options.budget,
            options.threads,
            spill=options.spill,
            seconds=options.seconds,
            recompute=options.recompute,
            after=after,
        )
    except (LimitError, CompileError) as error:
        raise type(error)(f"{options.program}: {error}") from None
    by_rank = list(ranks_in_words(options, program))
    output = options.program if options.in_place else options.output
    if output is not None:
        save(program, output, force=options.in_place or options.force)
        note_files(options, output, program.files)
    put("\n".join(map(sentence, [*report_in_words(program, report, options.threads), *by_rank])))
    put(f"OK program_sha256={program_sha256(program)}")


def report_in_words(program: pb.ProgramDesc, report: MemoryReport, threads: int) -> Iterator[str]:
    """Return a line for each entry with each of its sizes, followed by remarks on its step."""
    persistent = size_in_words(report.persistent)
    runs = {entry.name: arenas_in_words(program, threads, entry.name) for entry in program.entries}
    for memory in report.bindings:
        title, plan = binding_in_words(memory.entry, memory.binding), memory.plan
        bound = f"lower bound {size_in_words(plan.lower_bound)}{', optimal' if plan.optimal else ''}"
        yield f"{title}: arena {size_in_words(plan.arena_bytes)} ({bound}), persistent {persistent}"
        yield f"  in a run: arena {runs[memory.entry][memory.binding.block]}"
        yield from (f"  {line}" for line in _details(program, memory))


def _details(program: pb.ProgramDesc, memory: BindingMemory) -> Iterator[str]:
    if memory.peak_op is not None:
        line = line_of(program, memory.peak_op)
        where = f"{op_in_words(memory.peak_op)}{line and f', {line}'}"
        yield f"peak at {where}, which works on {size_in_words(memory.peak_own)} by itself"
    if memory.updates:
        reasons = Counter(update.deferred for update in memory.updates)
        parts = [f"{reasons.pop('', 0)} immediate", *(f"{count} deferred, as {why}" for why, count in reasons.items())]
        yield f"updates: {'; '.join(parts)}"
    if memory.arena_before is not None:
        yield f"recomputed scopes: arena {size_in_words(memory.arena_before)} before"
    if memory.repeated:
        yield f"{memory.repeated} ops run again: costs {memory.cost:.2f} times the operations"
    if memory.plan.file_bytes:
        file, moved = size_in_words(memory.plan.file_bytes), size_in_words(memory.moved)
        values = "1 value waits" if memory.spilled == 1 else f"{memory.spilled} values wait"
        yield f"{values} in a file of {file} beside the arena: {moved} go there or come back in a step"
    if memory.room is not None:
        yield room_in_words(memory.room)


def room_in_words(room: Room) -> str:
    """Return the estimated speed-up of threads, and the memory that it takes."""
    if room.free_gain < 1.005:
        return f"{room.threads} threads: no faster, in whatever memory"
    words = f"{room.threads} threads: at most {room.gain:.2f} times faster"
    if room.plan != room.tight:
        words += f", {room.tight_gain:.2f} in {size_in_words(room.tight.arena_bytes)}"
    if room.gain < NEAR * room.free_gain:
        words += f", {room.free_gain:.2f} if no buffers shared memory"
    return words
