"""Ops that replace others in a growing block, under the same names of results, so that readers need no change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prograd_proto import TensorType
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NUMBERS
from prograd_proto.files import copy_of
from registry import Block, Value


def replace_ops(block: pb.BlockDesc, kept: Sequence[pb.OpDesc]) -> None:
    """Replace the ops of a block by copies of these ops, which may be its own."""
    copies = [copy_of(op) for op in kept]
    del block.ops[:]
    block.ops.extend(copies)


def taken(block: Block, count: int) -> list[pb.OpDesc]:
    """Remove the ops after the first `count` from a block, and return copies of them."""
    new = [copy_of(op) for op in list(block.desc.ops)[count:]]
    del block.desc.ops[count:]
    return new


def written(block: Block, name: str, write: Callable[[], Value]) -> list[pb.OpDesc]:
    """Return the ops that a function appends to a block; its result is the tensor of a name, in its dtype."""
    return written_all(block, [name], lambda: [write()])


def written_all(block: Block, names: Sequence[str], write: Callable[[], Sequence[Value]]) -> list[pb.OpDesc]:
    """Return the ops that a function appends to a block; its results are the tensors of these names, in its dtypes."""
    count = len(block.desc.ops)
    with block.appending():
        made = write()
    new = taken(block, count)
    for value, name in zip(made, names, strict=True):
        for op in new:
            op.outputs[:] = [name if each == value.name else each for each in op.outputs]
        block.desc.tensors.remove(block.tensors.pop(value.name))
        del block.types[value.name]
        block.tensors[name].dtype = NUMBERS[value.dtype]
        block.types[name] = TensorType(value.dtype, block.types[name].shape)
    return new
