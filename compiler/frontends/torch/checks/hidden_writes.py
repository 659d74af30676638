"""Writes into tensors with gradients of which no gradient is recorded: in `torch.no_grad`, or through `detach`.

PyTorch changes the elements and hands the gradient on as if nothing had been written. torch.export makes of it a new
tensor with another gradient, so these writes are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from compiler.errors import CompileError
from compiler.frontends.torch.nodes import REGION, has_fractions, written
from compiler.frontends.torch.places import place_of

LEAF: Final = "leaf"
"""A parameter, whose writes the signature of the graph has."""

INNER: Final = "inner"
"""A tensor that follows from a parameter."""

DETACHING: Final = {"aten.detach.default", "aten.detach_.default"}
"""Operators whose result shares the elements of their operand, and has no gradient."""


def require_no_hidden_writes(graph: Any) -> None:
    """Raise CompileError if a graph, with its writes as torch.export traced them, changes a tensor with a gradient."""
    trained = {
        spec.arg.name
        for spec in graph.graph_signature.input_specs
        if spec.kind.name == "PARAMETER" and getattr(graph.state_dict.get(spec.target), "requires_grad", False)
    }
    _visit(graph.graph, dict.fromkeys(trained, LEAF), records=True)


def _visit(graph: Any, known: Mapping[str, str], *, records: bool) -> list[str]:
    """Return for the results of a graph LEAF or INNER if they have gradients.

    `known` has this fact for its placeholders.
    """
    has = dict(known)
    for node in graph.nodes:
        if node.op == "output":
            return [has.get(x.name, "") for x in node.all_input_nodes]
        if node.op != "call_function":
            continue
        if str(node.target) == REGION:
            has[node.name] = _visit_region(node, has)
            continue
        for base, is_hidden in (_base(x) for x in written(node.target, node.args, node.kwargs) if hasattr(x, "op")):
            if has.get(base.name) == INNER and (is_hidden or not records):
                raise CompileError(_refusal(node))
            has[base.name] = has.get(base.name) or (INNER if records and _any(node, has) else "")
        is_recorded = records and str(node.target) not in DETACHING and has_fractions(node) and _any(node, has)
        has[node.name] = INNER if is_recorded else ""
    return []


def _visit_region(node: Any, has: Mapping[str, str]) -> str:
    """Visit a region with the tensors that it is given; return INNER if a result may have a gradient."""
    records, inner = bool(node.args[0]), getattr(node.graph.owning_module, node.args[1].target).graph
    places = [x for x in inner.nodes if x.op == "placeholder"]
    given = {place.name: has.get(getattr(x, "name", ""), "") for place, x in zip(places, node.args[2:], strict=True)}
    return INNER if any(_visit(inner, given, records=records)) and records else ""


def _any(node: Any, has: Mapping[str, str]) -> bool:
    return any(has.get(x.name) for x in node.all_input_nodes)


def _base(x: Any) -> tuple[Any, bool]:
    """Return the tensor that another is a view of, and True if the view has no gradient."""
    is_hidden = False
    while x.op == "call_function" and _is_view(x):
        is_hidden = is_hidden or str(x.target) in DETACHING
        x = x.args[0]
    return x, is_hidden


def _is_view(x: Any) -> bool:
    schema = getattr(x.target, "_schema", None)
    if schema is None or not schema.arguments or not x.args or not hasattr(x.args[0], "op"):
        return getattr(x.target, "__name__", "") == "getitem"
    return schema.arguments[0].alias_info is not None


def _refusal(node: Any) -> str:
    place = place_of(node)
    return (
        f"from_torch: forward writes a tensor that has a gradient where none is recorded{place}: PyTorch hands the "
        "gradient on as if nothing had been written, which no program does; write a copy, as in x = x.detach().clone()"
    )
