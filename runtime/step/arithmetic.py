"""The number of arithmetic operations of an op, from its shapes alone.

A contract states it (`Contract.operations`). A product counts a multiplication and an addition for each pair of
numbers that meet, also where a window extends over the edge, and also the pairs that `causal` leaves out. A
decomposition counts the operations of the usual algorithm for matrices of its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from prograd_proto import TensorType
from runtime.contract import parameters
from runtime.operators import CONTRACTS
from runtime.row_rules import pointwise

Types = Sequence[TensorType | None]


def declared_operations(op_type: str, inputs: Types, outputs: Sequence[TensorType]) -> int | None:
    """Return the number of operations that the contract of an op states for static types, or None."""
    contract = CONTRACTS.get(op_type)
    if contract is None or contract.operations is None:
        return None
    out = outputs[0] if len(outputs) == 1 and not contract.variadic_outputs else tuple(outputs)
    fixed = len(contract.inputs) - contract.variadic
    scope: Mapping[str, object] = {
        **dict.fromkeys(contract.inputs),
        **dict(zip(contract.inputs[:fixed], inputs, strict=False)),
        **({contract.inputs[-1]: tuple(inputs[fixed:])} if contract.variadic else {}),
        "out": out,
    }
    return contract.operations(*(scope[name] for name in parameters(contract.operations)))


def operations(op_type: str, inputs: Types, outputs: Sequence[TensorType]) -> int:
    """Return the number of operations of an op for measurements.

    An op whose contract states none takes one for each element of its largest operand or result.
    """
    declared = declared_operations(op_type, inputs, outputs)
    if declared is not None:
        return declared
    return max((prod(type.static_shape) for type in (*inputs, *outputs) if type is not None), default=0)


def is_pointwise(op_type: str) -> bool:
    """Return True if each element of the result depends on the elements of the operands that broadcast to it."""
    return op_type in CONTRACTS and CONTRACTS[op_type].rows is pointwise
