"""Pass: drop what nobody reads.

1. A block's fetches, updates and results are needed.
2. From the last op to the first: an op with a needed output is kept, or with an effect that others can see, and its
   inputs are needed.
3. All other ops go; so do tensors and parameters that nothing mentions any more, with what was declared of them.
   The descriptions of tensors are put in the order of their definitions.
4. What an entry is fed is what its source block reads. A block that runs keeps all of its feeds, whatever sizes and
   constants let it do without.
"""

from __future__ import annotations

from compiler.analyses.use_def import needed
from prograd_proto import program_pb2 as pb


def eliminate_dead_ops(program: pb.ProgramDesc) -> None:
    """Drop what no fetch, update or result needs."""
    sources = {entry.source_block for entry in program.entries}
    for number, block in enumerate(program.blocks):
        drop_dead_ops(block, feeds=number in sources)


def drop_dead_ops(block: pb.BlockDesc, *, feeds: bool = False) -> None:
    """Drop dead ops, tensors and parameters from a block; feeds only if they are to go as well."""
    is_needed, read = needed(block)
    _keep(block.ops, is_needed)
    _keep(block.parameters, [p.tensor in read or (bool(p.feed) and not feeds) for p in block.parameters])
    order_tensors(block)


def order_tensors(block: pb.BlockDesc) -> None:
    """Let the descriptions of tensors be those of what is defined, in the order of the definitions."""
    order = [parameter.tensor for parameter in block.parameters]
    for op in block.ops:
        order += op.outputs[:]
        order += op.scratch[:]
    position = {name: i for i, name in enumerate(order)}
    names = [tensor.name for tensor in block.tensors]
    if names != order:
        _keep(block.tensors, [name in position for name in names])
        if [name for name in names if name in position] != order:
            block.tensors.sort(key=lambda tensor: position[tensor.name])


def _keep(field: object, keep: list[bool]) -> None:
    """Delete the runs of elements that are not kept, from the back."""
    stop = len(keep)
    for i in reversed(range(-1, len(keep))):
        if i < 0 or keep[i]:
            if i + 1 < stop:
                del field[i + 1 : stop]  # pyright: ignore[reportIndexIssue, reportUnknownMemberType]: a repeated field
            stop = i
