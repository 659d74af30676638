"""Pass: compute once what is computed twice.

1. Two ops are identical if their types, operands, attributes and random streams are equal: they give equal bits. Ops
   that draw random numbers are identical only if they share a stream. The order of operands counts, also in a sum:
   which of two NaNs it hands on depends on it.
2. The first one is kept, under its id and its names, and all readers of the others read it.
3. It counts to the earliest stage among them, and helps to differentiate what the op of that stage helped to: what
   the forward pass needs is a part of the forward pass, whoever else uses it.
"""

from __future__ import annotations

from collections.abc import Sequence

from compiler.bound_blocks import bound_blocks
from compiler.rewrite import computation, rewrite
from prograd_proto import program_pb2 as pb


def merge_identical(program: pb.ProgramDesc) -> None:
    """Keep the first of identical ops in every block that runs."""
    for block in bound_blocks(program):
        _merge(block)


def _merge(block: pb.BlockDesc) -> None:
    readers: dict[object, pb.OpDesc] = {}  # the first of a type that reads these operands; few ops are not alone
    first: dict[object, pb.OpDesc] = {}
    kept_id: dict[int, int] = {}

    def visit(op: pb.OpDesc) -> Sequence[str] | None:
        reader = readers.setdefault((op.type, *op.inputs[:]), op)
        if reader is op:
            return None
        first.setdefault(computation(reader), reader)
        kept = first.setdefault(computation(op), op)
        if kept is op:
            return None
        kept_id[op.id] = kept.id
        if op.stage < kept.stage:
            kept.stage, kept.gradient_of = op.stage, op.gradient_of
        return kept.outputs

    rewrite(block, visit)
    for op in block.ops if kept_id else ():
        if op.gradient_of in kept_id:
            op.gradient_of = kept_id[op.gradient_of]
