"""Floats of a file that are not trained: a sentence that compares them with the weights, so that none is lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import Any, Final

from compiler.frontends.onnx.inside import all_graphs

SETTINGS: Final = {"Clip", "DequantizeLinear", "OneHot", "Pad", "QuantizeLinear", "Range", "Resize", "Upsample"}
"""Operators whose stored operands are settings; the results of DequantizeLinear are weights."""

SHOWN: Final = 5
"""Number of tensors that the sentence names."""


def untrained(onnx: Any, graph: Any, taken: Collection[str]) -> str:
    """Return a sentence about the tensors of at least two floats that are neither parameters nor statistics, or "".

    Args:
        onnx: the package.
        graph: the graph of the file.
        taken: the names of parameters and statistics.
    """
    floats = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16
    users = _users(graph)
    stored = {name: prod(tensor.dims) for name, tensor in _stored(graph) if tensor.data_type in floats}
    rest = {
        name: count
        for name, count in stored.items()
        if count > 1 and name not in taken and not users.get(name, set()) <= SETTINGS
    }
    if not rest:
        return ""
    shown = ", ".join(repr(name) for name in list(rest)[:SHOWN])
    more = f" and {len(rest) - SHOWN} others" if len(rest) > SHOWN else ""
    return (
        f"{sum(rest.values())} of {sum(stored.values())} floats of the file are constants, which training leaves as "
        f"they are: {shown}{more}"
    )


def _users(graph: Any) -> dict[str, set[str]]:
    """Return for each name the operators that read it."""
    made: dict[str, set[str]] = {}
    for inner in all_graphs(graph):
        for node in inner.node:
            for name in node.input:
                made.setdefault(name, set()).add(node.op_type)
    return made


def _stored(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yield the stored tensors of a graph, of the graphs inside it, and of Constant nodes, by name."""
    for inner in all_graphs(graph):
        for tensor in inner.initializer:
            yield tensor.name, tensor
        for node in inner.node:
            for attribute in node.attribute:
                if node.op_type == "Constant" and attribute.name == "value":
                    yield node.output[0], attribute.t
