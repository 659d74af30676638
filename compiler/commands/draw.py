"""The verb `compiler draw`: the ops of an entry as a picture, by scopes."""

from __future__ import annotations

import argparse
from pathlib import PurePath

from compiler.build.well_formed import well_formed
from compiler.commands.chosen_entry import chosen_entry
from compiler.commands.notes import note
from compiler.commands.pictures.op_layers import layers_svg
from compiler.commands.pictures.op_page import op_page
from compiler.commands.pictures.op_picture import layers_png
from compiler.errors import UsageError
from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from prograd_proto.printable import MAX_WORD_CHARACTERS, sentence
from prograd_proto.text.words import name
from runtime.files.output import write_output

DRAWN = {".html": op_page, ".svg": layers_svg, ".png": layers_png}


def draw(options: argparse.Namespace) -> None:
    """Write the picture of an entry as built, before passes: a page, an SVG or a PNG, by the suffix of the file.

    It has the ops of the forward pass, unless --all asks for gradients and updates too, or the entry has no other ops.
    """
    drawn = DRAWN.get(PurePath(options.output).suffix)
    if drawn is None:
        raise UsageError(f"-o {options.output}: the name ends in none of .html, .svg and .png")
    program = well_formed(options.program)
    entry = chosen_entry(options.program, program, options.entry)
    title = sentence(f"{name(program.name)}: {name(entry.name)}", MAX_WORD_CHARACTERS)
    block = program.blocks[entry.source_block]
    shown = block if options.all else _forward(block)
    picture = drawn(title, program, shown)
    write_output(options.output, picture.encode() if isinstance(picture, str) else picture, force=options.force)
    note(options, f"wrote {options.output}")
    if len(shown.ops) < len(block.ops):
        note(options, f"note: {len(block.ops) - len(shown.ops)} ops of gradients and updates are left out; see --all")


def _forward(block: pb.BlockDesc) -> pb.BlockDesc:
    """Return a copy of a block with the ops of its forward pass alone; the block itself if it has no other ops."""
    ops = [op for op in block.ops if op.stage == pb.STAGE_FORWARD]
    if not ops or len(ops) == len(block.ops):
        return block
    shown = copy_of(block)
    del shown.ops[:]
    shown.ops.extend(ops)
    return shown
