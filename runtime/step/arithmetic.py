"""The operations of an op, from its shapes alone: for measurements, and to compare ways to compute a result.

1. A contract may state them (`Contract.operations`). A product counts a multiplication and an addition for each pair of
   numbers that meet, also where a window extends over the edge, and also the pairs that `causal` leaves out. A
   decomposition counts the operations of the usual algorithm for matrices of its size.
2. Every other op counts the elements that it reads or writes, whichever are more. A view and a constant cost nothing,
   nor does what only moves to a file or back.

An operation of each kind takes a time of its own, so the ratio of two sums is not the ratio of their times.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from prograd_proto import TensorType
from prograd_proto.blocks import BlockAnalysis, question
from prograd_proto.blocks.control import COND, SCAN
from runtime.contract import by_name, parameters
from runtime.operators import CONTRACTS
from runtime.row_rules import pointwise
from runtime.step.aliases import is_view
from runtime.step.effects import is_transfer

Types = Sequence[TensorType | None]


@question(of_each_op=True, of_blocks=True)
def operations_of(block: BlockAnalysis) -> list[int]:
    """Return the operations of each op of a block with static types.

    A loop counts its body once for each row, or for the bound of its trips; without a bound once.
    """
    cost = {kind: operations(kind.op_type, kind.inputs, kind.outputs) for kind in dict.fromkeys(block.kinds)}
    return [
        _of_control(block, i) if inside else cost[kind]
        for i, (kind, inside) in enumerate(zip(block.kinds, block.blocks, strict=True))
    ]


def operations(op_type: str, inputs: Types, outputs: Sequence[TensorType]) -> int:
    """Return the operations of an op, given its static input types, with None for an absent one, and outputs."""
    if is_view(op_type) or is_transfer(op_type) or op_type == "constant":
        return 0
    declared = _declared(op_type, inputs, outputs)
    if declared is not None:
        return declared
    present = sum(prod(type.static_shape) for type in inputs if type is not None)
    return max(present, sum(prod(type.static_shape) for type in outputs))


def is_pointwise(op_type: str) -> bool:
    """Return True if each element of the result depends on the elements of the operands that broadcast to it."""
    return op_type in CONTRACTS and CONTRACTS[op_type].rows is pointwise


def _of_control(block: BlockAnalysis, i: int) -> int:
    kind = block.kinds[i]
    inner = [sum(operations_of(body)) for body in block.sub_blocks(i)]
    if kind.op_type == COND:
        return max(inner)
    attributes: dict[str, Any] = kind.attributes
    return (attributes["length"][0] if kind.op_type == SCAN else attributes["max_trips"] or 1) * sum(inner)


def _declared(op_type: str, inputs: Types, outputs: Sequence[TensorType]) -> int | None:
    """Return the number of operations that the contract of an op states for static types, or None."""
    contract = CONTRACTS.get(op_type)
    if contract is None or contract.operations is None:
        return None
    scope = by_name(contract, inputs, outputs)
    return contract.operations(*(scope[name] for name in parameters(contract.operations)))
