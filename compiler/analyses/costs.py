"""The cost of an op, in operations: an estimate from shapes alone, to compare ways to compute a result.

1. An operator may say it where it is declared (`Op.cost`). A product counts a multiplication and an addition for each
   pair of numbers that meet, also where a window reaches over the edge, and also what `causal` leaves out; a
   factorisation counts as the usual algorithm for matrices of its size does.
2. Every other op counts the elements that it reads or writes, whichever are more. A view and a constant cost nothing,
   nor does what only moves to a file or back.

An operation of each kind takes a time of its own, so the ratio of two sums is not the ratio of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis, question
from registry.op import find_op, rule_names
from runtime.step import is_transfer, is_view


@question(of_each_op=True)
def operations_of(block: BlockAnalysis) -> list[int]:
    """Return the operations of each op of a block with static types."""
    cost = {kind: operations(kind.op_type, kind.inputs, kind.outputs) for kind in dict.fromkeys(block.kinds)}
    return [cost[kind] for kind in block.kinds]


def operations(op_type: str, inputs: Sequence[TensorType | None], outputs: Sequence[TensorType]) -> int:
    """Return the operations of an op, given its static input types, with None for an absent one, and outputs."""
    if is_view(op_type) or is_transfer(op_type) or op_type == "constant":
        return 0
    op = find_op(op_type)
    if op.cost_rule is not None:
        scope = op.signature.name_inputs(inputs) | op.signature.name_outputs(outputs)
        return op.cost_rule(**{name: scope[name] for name in rule_names(op.cost_rule)})
    present = sum(prod(type.static_shape) for type in inputs if type is not None)
    return max(present, sum(prod(type.static_shape) for type in outputs))
