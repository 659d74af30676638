"""The verbs `compiler freeze` and `compiler thaw`: change the trained parameters and recompile for the same sizes."""

from __future__ import annotations

import argparse

from compiler.build.compiled import compile_program
from compiler.build.last_batch import sizes_of
from compiler.build.well_formed import well_formed
from compiler.commands.notes import note, note_files
from compiler.errors import CompileError
from compiler.passes.leave_frozen import mark
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import save
from prograd_proto.identity import program_sha256
from registry.errors import OpError
from runtime.command_line.results import put_result
from runtime.step import spills


def freeze(options: argparse.Namespace) -> None:
    """Freeze the parameters that match."""
    _write_marked(options, trainable=False)


def thaw(options: argparse.Namespace) -> None:
    """Train frozen parameters that match again."""
    _write_marked(options, trainable=True)


def _write_marked(options: argparse.Namespace, *, trainable: bool) -> None:
    """Mark, compile, and write to the output; nothing is written on an error."""
    program = well_formed(options.program)
    files = list(program.files)
    planned = any(op.recompute_of or spills(op.type) for block in program.blocks for op in block.ops)
    try:
        names = mark(program.states, options.states, trainable=trainable)
        _require_sources(program)
        _require_trained(program, names, trainable=trainable)
        compile_program(program, sizes_of(program))
    except (ProgramError, OpError) as error:
        raise ProgramError(f"{options.program}: {error}") from None
    save(program, options.output, force=options.force)
    note_files(options, options.output, files)
    if planned:
        note(options, f"note: the plan of {options.program} in a budget is not kept; plan anew")
    put_result(options, "OK", [("states", ",".join(names)), ("program_sha256", program_sha256(program))])


def _require_sources(program: pb.ProgramDesc) -> None:
    for entry in program.entries:
        if entry.source_block in {binding.block for binding in entry.bindings}:
            raise CompileError(
                f"the entry {entry.name!r} has only the block that runs, and not the one that was built, "
                "from which another is made"
            )


def _require_trained(program: pb.ProgramDesc, names: list[str], *, trainable: bool) -> None:
    """Raise CompileError if no parameter is left to train, or a parameter to train has no loss."""
    sources = [program.blocks[entry.source_block] for entry in program.entries]
    updated = {update.state for block in sources for update in block.updates}
    idle = [name for name in names if name not in updated]
    if trainable and idle:
        raise CompileError(f"thaw: no loss of this program trains {', '.join(map(repr, idle))}")
    if updated and not any(state.trainable for state in program.states):
        raise CompileError("freeze: every parameter is frozen then, and nothing is left to train")
