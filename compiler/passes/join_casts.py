"""Pass: one cast instead of two where the first one keeps every value.

1. The ops of a block that runs are visited in order. A cast whose operand is a cast to a type that holds all values of
   the first one's operand reads that operand itself: bool to anything, integers to longer ones, floats to longer ones.
2. The cast between goes if nothing else reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from compiler.passes.rewrite import EDITED, rewrite
from prograd_proto.blocks import Reading, Readings

EXACT: Final = {
    ("bool", "int32"),
    ("bool", "int64"),
    ("bool", "float32"),
    ("bool", "float64"),
    ("int32", "int64"),
    ("float32", "float64"),
}


def join_casts(program: Readings) -> None:
    """Cast once what is cast twice, where the first cast keeps every value."""
    for block in program.bound:
        _join(block)


def _join(block: Reading) -> None:
    makers = block.use_def.makers

    def visit(i: int) -> Sequence[str] | None:
        inner = makers.get(block.inputs[i][0]) if block.op_types[i] == "cast" else None
        if inner is None or block.op_types[inner] != "cast":
            return None
        operand = block.inputs[inner][0]
        if (block.types[operand].dtype, block.types[block.inputs[i][0]].dtype) not in EXACT:
            return None
        block.ops[i].inputs[0] = operand
        return EDITED

    rewrite(block, visit)
