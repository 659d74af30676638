"""The logits from which a result of probabilities is computed: many files end in a softmax or a sigmoid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler.build.program import Program
from prograd_proto import program_pb2 as pb
from prograd_proto.attributes import attributes_of
from registry import Value, ops

ROW_MAJOR = ("identity", "reshape")
"""Ops that keep all elements in their order."""


def logits_behind(program: Program, result: Value, normalised_by: str) -> Value | None:
    """Return the logits from which a softmax over the last axis, or a sigmoid, computes a result; None if none does.

    Args:
        program: the program that makes the result.
        result: what the file returns.
        normalised_by: "softmax", also one written as exponentials over their sum, or "sigmoid".
    """
    block = program.block
    makers: dict[str, pb.OpDesc] = {name: op for op in block.desc.ops for name in op.outputs}
    op = makers.get(result.name)
    while op is not None and op.type in ROW_MAJOR:
        op = makers.get(op.inputs[0])
    if op is None:
        return None
    if normalised_by == "softmax":
        name = _operand_of_softmax(op, makers, block.types[op.outputs[0]].shape)
        if name is not None and block.types[op.outputs[0]].shape[-1] != result.shape[-1]:
            name = None
    else:
        name = op.inputs[0] if op.type == "sigmoid" else None
    return None if name is None else ops.reshape(block.value(name), shape=result.shape)


def _operand_of_softmax(op: pb.OpDesc, makers: Mapping[str, pb.OpDesc], shape: Any) -> str | None:
    """Return the operand of a softmax over the last axis, or of the exponentials that are divided by their sum."""
    last = len(shape) - 1
    if op.type == "softmax":
        return op.inputs[0] if attributes_of(op).get("axis") in (last, -1) else None
    above, below = (makers.get(name) for name in op.inputs) if op.type == "div" else (None, None)
    if above is None or below is None or above.type != "exp" or below.type != "sum":
        return None
    is_over_last = attributes_of(below).get("axes") in ((last,), (-1,)) and attributes_of(below).get("keepdims")
    return above.inputs[0] if below.inputs[0] == above.outputs[0] and is_over_last else None
