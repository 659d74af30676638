"""The bindings of an entry that another compilation of a program has, added to the program.

1. The other compilation has the same source; its entry has more bindings.
2. The block of each new binding is appended, with the blocks inside its ops, under new numbers.
3. No block of the program moves, so that what was prepared from its numbers stays as it is.
"""

from __future__ import annotations

from prograd_proto import program_pb2 as pb
from prograd_proto.files import copy_of
from runtime.entries import find_entry


def add_bindings(program: pb.ProgramDesc, other: pb.ProgramDesc, entry: str) -> None:
    """Add to an entry of `program` the bindings that only `other` has."""
    own = find_entry(program, entry)
    sizes = [list(binding.dims) for binding in own.bindings]
    for binding in find_entry(other, entry).bindings:
        if list(binding.dims) not in sizes:
            number = _appended(program, other, binding.block)
            own.bindings.add().CopyFrom(binding)
            own.bindings[-1].block = number


def _appended(program: pb.ProgramDesc, other: pb.ProgramDesc, number: int) -> int:
    """Append a block of another program, behind those inside its ops, and return its new number."""
    block = copy_of(other.blocks[number])
    for op in block.ops:
        inside = [_appended(program, other, inner) for inner in op.blocks]
        del op.blocks[:]
        op.blocks.extend(inside)
    program.blocks.add().CopyFrom(block)
    return len(program.blocks) - 1
