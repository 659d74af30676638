"""The tensors of a source block that depend on the rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from prograd_proto import program_pb2 as pb

MARK = "over_shards"
"""Operator whose result the shards of a batch have in common."""


def of_rows(block: pb.BlockDesc, blocks: Sequence[pb.BlockDesc], rows: str) -> set[str]:
    """Return the tensors that depend on the rows of a batch; `rows` is the symbol of their number.

    A tensor depends on the rows if its shape, its op or a block inside the op has the symbol, or if an operand depends
    on them. The results of `over_shards` do not: all shards have them in common.
    """
    found = with_symbol(block, rows)
    for op in block.ops:
        if op.type != MARK and (not found.isdisjoint(op.inputs) or op_has_symbol(op, blocks, rows)):
            found.update(op.outputs)
    return found


def with_symbol(block: pb.BlockDesc, rows: str) -> set[str]:
    """Return the tensors whose shape has the symbol."""
    return {tensor.name for tensor in block.tensors if _has(tensor.shape, rows)}


def op_has_symbol(op: pb.OpDesc, blocks: Sequence[pb.BlockDesc], rows: str) -> bool:
    """Return True if an attribute of an op, or a block inside it, has the symbol."""
    return any(_has(a.shape_value, rows) for a in op.attributes if a.HasField("shape_value")) or any(
        any(_has(tensor.shape, rows) for tensor in blocks[number].tensors)
        or any(op_has_symbol(inner, blocks, rows) for inner in blocks[number].ops)
        for number in op.blocks
    )


def _has(shape: pb.Shape, rows: str) -> bool:
    return any(dim.symbol == rows for dim in shape.dims if dim.WhichOneof("extent") == "symbol")
