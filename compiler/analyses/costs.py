"""The cost of an op, in operations: an estimate from shapes alone, to compare ways to compute a result.

1. The contract of an operator may state it (`runtime.step.arithmetic`).
2. Every other op counts the elements that it reads or writes, whichever are more. A view and a constant cost nothing,
   nor does what only moves to a file or back.

An operation of each kind takes a time of its own, so the ratio of two sums is not the ratio of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis, question
from runtime.step import is_transfer, is_view
from runtime.step.arithmetic import declared_operations


@question(of_each_op=True)
def operations_of(block: BlockAnalysis) -> list[int]:
    """Return the operations of each op of a block with static types."""
    cost = {kind: operations(kind.op_type, kind.inputs, kind.outputs) for kind in dict.fromkeys(block.kinds)}
    return [cost[kind] for kind in block.kinds]


def operations(op_type: str, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> int:
    """Return the operations of an op, given its static input types, with None for an absent one, and outputs."""
    if is_view(op_type) or is_transfer(op_type) or op_type == "constant":
        return 0
    declared = declared_operations(op_type, inputs, outputs)
    if declared is not None:
        return declared
    present = sum(prod(type.static_shape) for type in inputs if type is not None)
    return max(present, sum(prod(type.static_shape) for type in outputs))
