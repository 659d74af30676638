"""Operators of opsets before 7: their meaning changed for some, and `broadcast` with `axis` aligned operands."""

from __future__ import annotations

from typing import Any, Final

from compiler.errors import CompileError

CURRENT: Final = 7
"""The first opset whose operators need no translation before they are mapped."""

SINCE: Final = {
    "Abs": 1, "Add": 1, "And": 1, "AveragePool": 1, "BatchNormalization": 1, "Cast": 6, "Ceil": 1, "Clip": 1,
    "Concat": 1, "Div": 1, "Dropout": 1, "Elu": 1, "Equal": 1, "Exp": 1, "Floor": 1, "GRU": 1, "Gemm": 1,
    "GlobalLpPool": 2, "Greater": 1, "HardSigmoid": 1, "InstanceNormalization": 1, "LSTM": 1, "LeakyRelu": 1, "Less": 1,
    "Log": 1, "LpPool": 2, "Max": 1, "Mean": 1, "Min": 1, "Mul": 1, "Neg": 1, "Or": 1, "PRelu": 1, "Pad": 1, "Pow": 1,
    "RNN": 1, "Reciprocal": 1, "Relu": 1, "Reshape": 1, "Selu": 1, "Sigmoid": 1, "Split": 2, "Sqrt": 1, "Sub": 1,
    "Sum": 1, "Tanh": 1, "Tile": 6, "Upsample": 1, "Xor": 1,
}  # fmt: skip
"""For each operator that changed before opset 7, the first opset at which mappings know its meaning."""


def is_old(onnx: Any, operator: str, version: int) -> bool:
    """Return True for an operator whose meaning in this opset is older than that of opset 7.

    Raises CompileError if no mapping knows the old meaning.
    """
    if version >= CURRENT:
        return False
    own, current = (schema_of(onnx, operator, each, "") for each in (version, CURRENT))
    if own is None:
        raise CompileError(f"opset {version} has no such operator")
    if current is not None and own.since_version == current.since_version:
        return False
    first = SINCE.get(operator)
    if first is None or version < first:
        raise CompileError(
            f"its meaning in opset {version} is not known; convert the file to opset {first or CURRENT} or later with "
            "onnx.version_converter"
        )
    return True


def schema_of(onnx: Any, operator: str, version: int, domain: str) -> Any:
    """Return ONNX's description of an operator in an opset of its domain; None if that has no such operator."""
    try:
        return onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return None
