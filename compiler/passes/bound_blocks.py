"""The blocks of a program that run: those of its bindings, as opposed to what they were made from."""

from __future__ import annotations

from prograd_proto import program_pb2 as pb


def bound_blocks(program: pb.ProgramDesc) -> list[pb.BlockDesc]:
    """Each block of a binding once, in the order of the entries."""
    numbers = dict.fromkeys(binding.block for entry in program.entries for binding in entry.bindings)
    return [program.blocks[number] for number in numbers]
