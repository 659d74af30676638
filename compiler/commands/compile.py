"""The verb `compiler compile`: recompiles a program file or its text form, with other sizes or a dump after a pass."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from compiler.build.compiled import compile_program
from compiler.build.last_batch import Sizes, sizes_of, with_last_batch
from compiler.build.mixed import with_mixed
from compiler.build.quantized_training import qat, with_qat
from compiler.build.well_formed import well_formed
from compiler.commands.asked_passes import asked_passes, dumper
from compiler.commands.chosen_entry import several_sizes_given
from compiler.commands.notes import note, note_files
from compiler.errors import UsageError
from compiler.passes.pipeline import PASSES
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import save
from runtime.command_line.streams import put


def compile(options: argparse.Namespace) -> None:
    """Bind, run the passes, and write the program if an output is given."""
    program = well_formed(options.program)
    passes = with_mixed(asked_passes(PASSES, options.without, options.option), options.mixed)
    passes = with_qat(passes, options.qat and qat(options.qat, keep=options.keep))
    after = dumper(options.dump_after, passes) if options.dump_after else None
    try:
        compiled = compile_program(program, _sizes(options.bind, program, options.program), after, passes=passes)
    except UsageError:
        raise
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    if options.output is not None:
        files = list(compiled.desc.files)
        save(compiled.desc, options.output, force=options.force)
        note_files(options, options.output, files)
    else:
        note(options, "note: nothing was written; -o FILE writes the program")
    put(f"OK program_sha256={compiled.sha256}")


def _sizes(given: Sequence[str], program: pb.ProgramDesc, path: str) -> Sizes:
    """Return the sizes of the file, with sizes given as symbol=size in their place, and the size of the last batch."""
    sizes = sizes_of(program) | several_sizes_given(given)
    return with_last_batch(program, sizes, Path(path).parent)
