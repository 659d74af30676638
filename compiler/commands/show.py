"""The verb `compiler show`: a program as text, or views of an entry's execution, on stdout or in files."""

from __future__ import annotations

import argparse

from compiler.analyses.step_memory import step_memory
from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_binding, chosen_entry
from compiler.commands.engine_arenas import arenas_in_words
from compiler.commands.notes import note
from compiler.commands.pictures.memory import memory_page, memory_svg
from compiler.commands.views.ranks import of_rank
from compiler.commands.views.show_engine import engine_text
from compiler.commands.views.show_memory import memory_text
from compiler.commands.views.show_mixed import is_cast_of_halves, mixed_text
from compiler.commands.views.show_order import order_text
from compiler.errors import UsageError
from prograd_proto import ProgramError
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.blocks.walk import inside
from prograd_proto.files import load
from prograd_proto.text import block_to_text, to_text
from runtime.command_line.streams import put
from runtime.files.output import write_output


def show(options: argparse.Namespace) -> None:
    """Show the views that the options name; by default the program, or the block of an entry."""
    if options.lists:
        put(_mixed(options).removesuffix("\n"))
        return
    if options.engine is not None:
        put("\n".join(engine_text(options)).removesuffix("\n"))
        return
    if _show_views(options):
        return
    if options.entry is None:  # the text form works for invalid programs too, to show their faults
        put(to_text(load(options.program)).removesuffix("\n"))
        return
    program = of_rank(options, well_formed(options.program))
    number = chosen_entry(options.program, program, options.entry).source_block
    if options.bound:
        number = chosen_binding(options.program, program, options.entry, options.bind)[1].block
    put("\n".join(block_to_text(program, inner) for inner in inside(program, [number])).removesuffix("\n"))


def _show_views(options: argparse.Namespace) -> bool:
    """Show the views that the options name, and return True if there are any."""
    pictures = [(p, draw) for p, draw in ((options.html, memory_page), (options.svg, memory_svg)) if p is not None]
    if options.html is not None and options.html == options.svg:
        raise UsageError(f"--html and --svg both name {options.html}; give two files")
    if not (options.memory or options.order or pictures):
        return False
    program = of_rank(options, well_formed(options.program))
    title, binding = chosen_binding(options.program, program, options.entry, options.bind)
    try:
        memory = step_memory(program, binding)
    except ProgramError as error:
        raise ProgramError(f"{options.program}: {error}") from None
    texts = [order_text(title, program, memory.block)] if options.order else []
    if options.memory:
        entry = chosen_entry(options.program, program, options.entry).name
        of_runs = arenas_in_words(program, options.threads, entry)[binding.block]
        texts.append(memory_text(title, program, memory, options.sort or "offset", of_runs))
    if texts:
        put("\n".join(texts).removesuffix("\n"))
    for path, draw in pictures:
        write_output(path, draw(title, program, memory).encode(), force=options.force)
        note(options, f"wrote {path}")
    return True


def _mixed(options: argparse.Namespace) -> str:
    """Return the lists of mixed precision; raise UsageError for a program without its casts."""
    program = well_formed(options.program)
    entry = chosen_entry(options.program, program, options.entry)
    block = BlockAnalyses(program)[entry.source_block]
    if not any(is_cast_of_halves(block, i) for i in range(len(block.ops))):
        advice = "`compiler compile --mixed bfloat16` writes them"
        raise UsageError(f"{options.program}: the entry {entry.name!r} has no casts to bfloat16; {advice}")
    return mixed_text(entry.name, block)
