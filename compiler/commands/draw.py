"""The verb `compiler draw`: the ops of an entry as a picture, by scopes."""

from __future__ import annotations

import argparse
from pathlib import PurePath

from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_entry
from compiler.commands.notes import note
from compiler.commands.pictures.op_layers import layers_svg
from compiler.commands.pictures.op_page import op_page
from compiler.errors import UsageError
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.text.words import name
from runtime.files.output import write_output

DRAWN = {".html": op_page, ".svg": layers_svg}


def draw(options: argparse.Namespace) -> None:
    """Write the picture of an entry as built, before passes: a page or an SVG, by the suffix of the file."""
    drawn = DRAWN.get(PurePath(options.output).suffix)
    if drawn is None:
        raise UsageError(f"-o {options.output}: the name ends in neither .html nor .svg")
    program = well_formed(options.program)
    entry = chosen_entry(options.program, program, options.entry)
    title = sentence(f"{name(program.name)}: {name(entry.name)}", MAX_WORD_CHARACTERS)
    picture = drawn(title, program, program.blocks[entry.source_block])
    write_output(options.output, picture.encode(), force=options.force)
    note(options, f"wrote {options.output}")
