"""Pass: drop what nobody reads.

1. A block's fetches, updates and results are needed.
2. From the last op to the first: an op with a needed output is kept, and its inputs are needed.
3. All other ops go; so do tensors and parameters that nothing mentions any more, with what was declared of them.
   The descriptions of tensors are put in the order of their definitions.
"""

from __future__ import annotations

from compiler.use_def import needed_ops
from prograd_proto import program_pb2 as pb
from runtime.memory import ends_of


def eliminate_dead_ops(program: pb.ProgramDesc) -> None:
    """Drop dead ops, tensors and parameters from every block."""
    for block in program.blocks:
        drop_dead_ops(block)


def drop_dead_ops(block: pb.BlockDesc) -> None:
    """Drop dead ops, tensors and parameters from a block."""
    kept = needed_ops(block)
    needed = {*ends_of(block), *(name for i in kept for name in block.ops[i].inputs)}
    if len(kept) < len(block.ops):
        _keep(block.ops, [i in kept for i in range(len(block.ops))])
    _keep(block.parameters, [p.tensor in needed for p in block.parameters])
    order_tensors(block)


def order_tensors(block: pb.BlockDesc) -> None:
    """Let the descriptions of tensors be those of what is defined, in the order of the definitions."""
    order = [parameter.tensor for parameter in block.parameters]
    for op in block.ops:
        order += op.outputs
        order += op.scratch
    names = [tensor.name for tensor in block.tensors]
    if order == names:
        return
    position = {name: i for i, name in enumerate(order)}
    _keep(block.tensors, [name in position for name in names])
    block.tensors.sort(key=lambda tensor: position[tensor.name])


def _keep(field: object, keep: list[bool]) -> None:
    """Delete the runs of elements that are not kept, from the back."""
    i = len(keep)
    while i:
        stop = i
        while i and not keep[i - 1]:
            i -= 1
        if i < stop:
            del field[i:stop]  # pyright: ignore[reportIndexIssue, reportUnknownMemberType]: a repeated field
        i = max(i - 1, 0)
