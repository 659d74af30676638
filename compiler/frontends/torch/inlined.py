"""Graphs that need no decomposition: regions without gradients are put in place, and all else is walked as it is.

`run_decompositions` traces the whole graph again. Only writes in place, and operators that neither the table knows nor
constants alone determine, need that.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from compiler.frontends.torch.nodes import REGION

HIDDEN_WRITES: Final = ("batch_norm", "instance_norm")
"""Words in the names of operators that write buffers, although their schemas do not say so."""


def is_inlined(graph: Any, is_missing: Callable[[Any], bool]) -> bool:
    """Put the regions of an exported graph in place, and return True if the walk understands it; else leave it."""
    regions = [node for node in graph.graph.nodes if _region(node) is not None]
    inner = [node for region in regions for node in _region(region).nodes]
    if any(_region(node) is not None for node in inner) or not _are_understood(graph.graph.nodes, is_missing):
        return False
    if any(not _is_plain(node, is_missing) for node in inner if node.op == "call_function"):
        return False
    for region in regions:
        _put_in_place(graph.graph, region)
    return True


def _region(node: Any) -> Any:
    """Return the graph of a region in which no gradient is recorded; None for other nodes."""
    if str(node.target) != REGION:
        return None
    return getattr(node.graph.owning_module, node.args[1].target).graph


def _are_understood(nodes: Any, is_missing: Callable[[Any], bool]) -> bool:
    """Return True if each node is plain, or missing and follows from constants alone."""
    known: dict[str, bool] = {}  # True for values that follow from constants and sizes
    for node in nodes:
        inputs = [known.get(x.name, False) for x in node.all_input_nodes]
        if node.op == "placeholder":
            known[node.name] = str(node.name).startswith("c_")
        elif node.op == "call_function":
            known[node.name] = _is_size(node) or all(inputs)
            is_constant = known[node.name] and _is_pure(node) and _has_numbers(node)
            if _region(node) is None and not (_is_plain(node, is_missing) or is_constant):
                return False
        elif node.op == "get_attr" and not any(_region(user) is not None for user in node.users):
            return False
    return True


def _is_size(node: Any) -> bool:
    value = node.meta.get("val")
    return node.target is not operator.getitem and not hasattr(value, "shape") and not isinstance(value, tuple | list)


def _has_numbers(node: Any) -> bool:
    """Return True if the axes of a constant have numbers; positions may have symbols."""
    shape = getattr(node.meta.get("val"), "shape", None)
    is_known = shape is not None and all(isinstance(size, int) for size in shape)
    return is_known or _is_size(node) or str(node.target).startswith("aten.arange.")


def _is_plain(node: Any, is_missing: Callable[[Any], bool]) -> bool:
    return _is_pure(node) and not is_missing(node)


def _is_pure(node: Any) -> bool:
    """Return True for an operator, or arithmetic of sizes, that writes nothing."""
    if not hasattr(node.target, "namespace"):
        return node.target is operator.getitem or not hasattr(node.meta.get("val"), "shape")
    schema = getattr(node.target, "_schema", None)
    is_named = not any(word in str(node.target) for word in HIDDEN_WRITES)
    return schema is not None and not schema.is_mutable and is_named


def _put_in_place(graph: Any, region: Any) -> None:
    """Copy the nodes of a region before the node that runs it, and replace its results by theirs."""
    inner = _region(region)
    places = [node for node in inner.nodes if node.op == "placeholder"]
    values: dict[Any, Any] = dict(zip(places, region.args[2:], strict=True))
    [*_, output] = inner.nodes
    with graph.inserting_before(region):
        for node in inner.nodes:
            if node.op == "call_function":
                values[node] = graph.node_copy(node, values.__getitem__)
    results = output.args[0]
    for user in list(region.users):
        user.replace_all_uses_with(values[results[user.args[1]]])
        graph.erase_node(user)
    graph.erase_node(region)
