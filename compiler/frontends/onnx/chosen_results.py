"""A graph with some of its results, and the nodes and inputs that these need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.errors import CompileError
from compiler.frontends.onnx.inside import names_needed


def keep_results(onnx: Any, graph: Any, names: Sequence[str], path: str) -> None:
    """Leave in a graph these results, in this order, and what they need; a result may be any tensor of the graph.

    Raises CompileError for a name that no node makes.
    """
    known = {each.name: each for each in graph.output}
    makers = {name: node for node in graph.node for name in node.output if name}
    for name in names:
        if name not in known and name not in makers:
            raise CompileError(f"{path}: outputs names {name!r}, which no node makes; the results are {list(known)}")
    if not names or len(set(names)) != len(names):
        raise CompileError(
            f"{path}: outputs={list(names)} names no result, or one twice; the results are {list(known)}"
        )
    results = [known[name] if name in known else onnx.helper.make_empty_tensor_value_info(name) for name in names]
    needed = names_needed(graph.node, names)
    nodes = [node for node in graph.node if needed.intersection(node.output)]
    inputs = [each for each in graph.input if each.name in needed]
    stored = [tensor for tensor in graph.initializer if tensor.name in needed]
    for field, kept in (("output", results), ("node", nodes), ("input", inputs), ("initializer", stored)):
        copies = [type(each).FromString(each.SerializeToString()) for each in kept]
        graph.ClearField(field)
        getattr(graph, field).extend(copies)
