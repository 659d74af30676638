"""Checks of QuantizeLinear and DequantizeLinear: scales and zero points that no codes belong to, and unequal pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from compiler.errors import CompileError
from compiler.frontends.onnx.reading import Tensors

PARAMETERS: Final = {"scale": 1, "zero point": 2}
"""The operands that make numbers of codes, by number."""


def checked_pairs(onnx: Any, graph: Any, tensors: Tensors) -> list[str]:
    """Return a note for each tensor that is quantised by other stored parameters than it is dequantised by.

    Raises CompileError for a scale of QuantizeLinear that divides no number, for other numbers of zero points than of
    scales, for a zero point of int32 codes, and for stored codes of another dtype than their zero point.
    """
    stored = {tensor.name: tensor for tensor in graph.initializer}
    makers: dict[str, tuple[Any, dict[str, Any]]] = {}
    notes: list[str] = []
    for node in graph.node:
        if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
            continue
        found = {what: _array(node, number, stored, tensors) for what, number in PARAMETERS.items()}
        if why := _fault(onnx, node, found, stored):
            raise CompileError(f"{tensors.path}: {node.op_type} {node.name or node.output[0]!r} {why}")
        if node.op_type == "QuantizeLinear":
            makers[node.output[0]] = node, found
        elif node.input[0] in makers:
            first, others = makers[node.input[0]]
            notes += _notes(first.input[0], others, found)
    return notes


def _array(node: Any, number: int, stored: dict[str, Any], tensors: Tensors) -> Any:
    """Return the elements of an operand that the file stores; None for another one."""
    name = node.input[number] if len(node.input) > number else ""
    return tensors.array(stored[name]).reshape(-1) if name in stored else None


def _fault(onnx: Any, node: Any, found: dict[str, Any], stored: dict[str, Any]) -> str:
    """Return what is wrong with a node; nothing if no stored operand contradicts another."""
    scale, zero = found["scale"], found["zero point"]
    is_first = node.op_type == "QuantizeLinear"
    if is_first and scale is not None and not (np.isfinite(scale) & (scale > 0)).all():
        bad = float(scale[~(np.isfinite(scale) & (scale > 0))][0])
        return (
            f"divides by a scale of {bad:g}, which gives no codes; quantise again by rows that reach {node.input[0]!r}"
        )
    if scale is not None and zero is not None and scale.size != zero.size:
        return f"has {scale.size} scales and {zero.size} zero points; it takes as many of both"
    if is_first or zero is None or node.input[0] not in stored:
        return ""
    codes, kinds = stored[node.input[0]].data_type, onnx.TensorProto
    if codes == kinds.INT32 and zero.any():
        return f"has codes of int32 with the zero point {int(zero[zero != 0][0])}; ONNX has 0 there"
    if codes != stored[node.input[2]].data_type:
        names = [kinds.DataType.Name(kind).lower() for kind in (codes, stored[node.input[2]].data_type)]
        return f"has codes of {names[0]} and a zero point of {names[1]}; both have one dtype"
    return ""


def _notes(name: str, first: dict[str, Any], second: dict[str, Any]) -> Sequence[str]:
    return [
        f"{name!r} is quantised with the {what} {first[what][0]:g} and read with {second[what][0]:g}; both are "
        "computed as they stand"
        for what in PARAMETERS
        if all(each[what] is not None and each[what].size == 1 for each in (first, second))
        and first[what][0] != second[what][0]
    ]
