"""Choices that are known outside of training: dropout with a setting as its ratio becomes its operand.

Such a dropout draws numbers, and a `where` decides whether the entry trains. `fold_constants` makes this choice in the
blocks that run. Exports read the blocks as they were built, so the choice is made here.
"""

from __future__ import annotations

from compiler.passes.fold_constants import fold_block
from prograd_proto import program_pb2 as pb
from prograd_proto.blocks import BlockAnalyses
from prograd_proto.files import copy_of


def with_known_choices(program: pb.ProgramDesc, number: int) -> pb.ProgramDesc:
    """Return the program whose block of this number has no ops that only an operand never chosen needs."""
    if not any(op.type == "where" for block in program.blocks for op in block.ops):
        return program
    program = copy_of(program)
    analyses = BlockAnalyses(program)
    for each in analyses.with_sub_blocks([number]):
        fold_block(analyses[each])
    return program
