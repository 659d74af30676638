"""Pass: one cast instead of two where the first one keeps every value.

1. The ops of a block that runs are visited in order. A cast whose operand is a cast to a type that holds all values of
   the first one's operand reads that operand itself: bool to anything, integers to longer ones, floats to longer ones.
2. The cast between goes if nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.passes.bound_blocks import bound_blocks
from compiler.passes.rewrite import EDITED, rewrite
from prograd_proto import program_pb2 as pb
from prograd_proto.dtypes import NAMES

EXACT: Final = {
    ("bool", "int32"),
    ("bool", "int64"),
    ("bool", "float32"),
    ("bool", "float64"),
    ("int32", "int64"),
    ("float32", "float64"),
}


def join_casts(program: pb.ProgramDesc) -> None:
    """Cast once what is cast twice, where the first cast keeps every value."""
    for block in bound_blocks(program):
        _join(block)


def _join(block: pb.BlockDesc) -> None:
    dtypes = {tensor.name: NAMES[tensor.dtype] for tensor in block.tensors}
    casts: dict[str, pb.OpDesc] = {}

    def visit(op: pb.OpDesc) -> Sequence[str] | None:
        if op.type != "cast":
            return None
        casts[op.outputs[0]] = op
        inner = casts.get(op.inputs[0])
        if inner is None or (dtypes[inner.inputs[0]], dtypes[inner.outputs[0]]) not in EXACT:
            return None
        op.inputs[0] = inner.inputs[0]
        return EDITED

    rewrite(block, visit)
