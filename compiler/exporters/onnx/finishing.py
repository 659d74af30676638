"""The end of an export: results get their names, nodes without readers vanish, and the checker reads the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compiler.errors import CompileError
from compiler.exporters.onnx.graph import Graph

IR_VERSIONS: Final = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10}
"""The version of the file format by opset: the oldest version with this opset, so that old runtimes can read the
file."""

MAX_CHECKED_BYTES: Final = 1 << 30
"""Weights above this size are left out of the message that the checker reads."""

OPTIONAL_RESULTS: Final = {"LayerNormalization", "LSTM", "GRU", "RNN"}
"""Operators whose last results may be left out."""


def finished(
    graph: Graph,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    name: str,
    producer: str,
    metadata: Mapping[str, str],
) -> Any:
    """Return the model of a graph."""
    onnx = graph.model.onnx
    nodes = _named(graph.nodes, {each.name for each in inputs}, set(graph.model.arrays), [o.name for o in outputs])
    nodes = _read_nodes(nodes, {each.name for each in outputs})
    used = {name for node in nodes for name in _names_read(node)} | {each.name for each in outputs}
    used = _take_names(graph, nodes, used)
    weights = [graph.model.tensor(name) for name in graph.model.arrays if name in used]
    message = onnx.helper.make_graph(nodes, name, list(inputs), list(outputs), initializer=weights)
    opsets = [onnx.helper.make_opsetid("", graph.model.opset)]
    opsets += [onnx.helper.make_opsetid(domain, number) for domain, number in graph.model.domains.items()]
    model = onnx.helper.make_model(message, opset_imports=opsets)
    model.ir_version = IR_VERSIONS.get(graph.model.opset, onnx.helper.find_min_ir_version_for(opsets[:1]))
    model.producer_name, _, model.producer_version = producer.partition(" ")
    onnx.helper.set_model_props(model, dict(metadata))
    _check(onnx, model)
    return model


def _named(nodes: Sequence[Any], inputs: set[str], weights: set[str], results: Sequence[str]) -> list[Any]:
    """Return the nodes without the last Identity of each result, whose operand takes the name of the result."""
    ends = {node.output[0]: node for node in nodes if node.op_type == "Identity"}
    renamed: dict[str, str] = {}
    for result in results:
        name = ends[result].input[0]
        if name not in renamed and name not in inputs and name not in weights and name not in results:
            renamed[name] = result
    kept = [
        node
        for node in nodes
        if not (node.op_type == "Identity" and node.domain == "" and renamed.get(node.input[0]) == node.output[0])
    ]
    for node in kept:
        rename(node, renamed)
    return kept


def _take_names(graph: Graph, nodes: Sequence[Any], used: set[str]) -> set[str]:
    """Give rearranged weights the name of their state if that is in use no longer; return the names in use."""
    arrays, renamed = graph.model.arrays, dict[str, str]()
    for name, state in graph.model.rearranged.items():
        if name in used and state not in used and state not in renamed.values():
            renamed[name] = state
            arrays[state] = arrays.pop(name)
    for node in nodes:
        rename(node, renamed)
    return {renamed.get(name, name) for name in used}


def rename(node: Any, renamed: Mapping[str, str]) -> None:
    """Give tensors that a node reads or makes other names, also inside its branches and bodies."""
    for names in (node.input, node.output):
        for i, name in enumerate(names):
            names[i] = renamed.get(name, name)
    for attribute in node.attribute:
        for inner in attribute.g.node if attribute.HasField("g") else ():
            rename(inner, renamed)


def _names_read(node: Any) -> set[str]:
    """Return the tensors that a node reads, also in its branches and bodies."""
    names = {name for name in node.input if name}
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names |= {result.name for result in attribute.g.output}
            for inner in attribute.g.node:
                names |= _names_read(inner)
    return names


def _read_nodes(nodes: Sequence[Any], results: set[str]) -> list[Any]:
    """Return the nodes whose results are read, and leave out names of trailing results that are not."""
    wanted, kept = set(results), []
    for node in reversed(nodes):
        if any(name in wanted for name in node.output):
            wanted |= _names_read(node)
            kept.append(node)
            while node.op_type in OPTIONAL_RESULTS and node.output[-1] not in wanted:
                del node.output[-1]
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    inner = _read_nodes(attribute.g.node, {result.name for result in attribute.g.output})
                    del attribute.g.node[:]
                    attribute.g.node.extend(inner)
    return kept[::-1]


def _check(onnx: Any, model: Any) -> None:
    """Raise CompileError if onnx.checker refuses the model: a fault of this exporter."""
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) > MAX_CHECKED_BYTES:
        return
    try:
        onnx.checker.check_model(model, full_check=not any(opset.domain for opset in model.opset_import))
    except Exception as error:
        reason = " ".join(str(error).split())
        raise CompileError(f"to_onnx: onnx.checker refuses the model: {reason}") from error
