"""Ops whose operands are known while exporting: constants are computed, and weights are rearranged."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.exporters.onnx.call import Call
from compiler.exporters.onnx.tensors import Tensor, identity_order
from compiler.train.adapters import is_adapter
from prograd_proto import ProgramError
from prograd_proto import program_pb2 as pb
from registry import OPS
from runtime.constants import constant_array
from runtime.errors import ExecutionError
from runtime.memory.aligned import aligned_array
from runtime.one_op import call_of

MAX_CONSTANT_BYTES: Final = 1 << 20
"""Largest constant that is computed while exporting; a larger one is computed by the model."""

REARRANGING: Final = "registry.ops.shape"
"""The family of ops that only move elements; for weights, only these ops are folded."""


def folded(op: pb.OpDesc, call: Call) -> list[Tensor] | None:
    """Return the results of an op that is known while exporting; None for all others."""
    declared = OPS.get(op.type)
    if declared is None or declared.random or op.blocks:
        return None
    if any(isinstance(extent, str) for type in call.types for extent in type.shape):
        return None
    operands = [x for x in call.operands if x is not None]
    if any(x.array is None for x in operands):
        return None
    if op.type == "transpose":
        return None  # a matter of order, which costs nothing
    origins = tuple(dict.fromkeys(state for x in operands for state in x.origins))
    rearranges = declared.declaration.__module__ == REARRANGING and _is_no_larger(call)
    if origins and not rearranges and not any(map(is_adapter, origins)):  # adapters are added to their weights
        return None
    if sum(type.nbytes for type in call.types) > MAX_CONSTANT_BYTES and not origins:
        return None
    arrays = _computed(op, call)
    if arrays is None:
        return None
    return [
        Tensor(type, identity_order(len(type.shape)), array=array, origins=origins)
        for type, array in zip(call.types, arrays, strict=True)
    ]


def vector_of(call: Call, number: int) -> str:
    """Return the name of an operand, computed while exporting if it is a vector that follows from states alone."""
    array = _elements(call, number) if call.tensor(number).rank == 1 else None
    return call.plain(number) if array is None or call.tensor(number).state else call.graph.constant(array)


def _elements(call: Call, number: int) -> Any:
    """Return the elements of an operand, from those of the states; None if they depend on data."""
    x, maker = call.tensor(number), call.producer(number)
    if x.array is not None or maker is None:
        return x.array
    declared = OPS.get(maker.op_type)
    arrays = [_elements(maker, i) for i in range(len(maker.operands))]
    if declared is None or declared.random or maker.blocks or any(array is None for array in arrays):
        return None
    outputs = [aligned_array(type) for type in maker.types]
    inputs = [np.ascontiguousarray(array).reshape(array.shape) for array in arrays]
    call_of(maker.op_type, maker.attributes, inputs, outputs)()
    return outputs[list(maker.outputs).index(call.inputs[number])]


def _is_no_larger(call: Call) -> bool:
    """Return True if an op rearranges or leaves out elements, but computes and repeats none."""
    before = sum(x.type.nbytes for x in call.operands if x is not None)
    return bool(call.operands) and sum(type.nbytes for type in call.types) <= before


def _computed(op: pb.OpDesc, call: Call) -> list[Any] | None:
    if op.type == "constant":
        return [np.array(constant_array(call.attributes["value"]))]
    inputs = [None if x is None else np.ascontiguousarray(x.array).reshape(x.array.shape) for x in call.operands]
    outputs = [aligned_array(type) for type in call.types]
    try:
        with np.errstate(all="ignore"):
            call_of(op.type, call.attributes, inputs, outputs)()
    except (ProgramError, ExecutionError, ArithmeticError):
        return None
    return outputs
