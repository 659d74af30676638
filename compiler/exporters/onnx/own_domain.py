"""Every op as a node of the domain `prograd`: for viewers such as Netron, also of entries that train."""

from __future__ import annotations

from typing import Any, Final

from compiler.exporters.onnx.call import Call, Export
from compiler.exporters.onnx.graph import Graph

DOMAIN: Final = "prograd"
"""The domain of our operators."""


class AsTheyAre(dict[str, Export]):
    """A table that maps every op to a node of the same name."""

    def __contains__(self, op_type: object) -> bool:
        return True

    def __missing__(self, op_type: str) -> Export:
        return _as_it_is


def own_domain_exports() -> dict[str, Export]:
    """Return mappings that write each op as it is."""
    return AsTheyAre()


def _as_it_is(call: Call) -> list[str]:
    model = call.graph.model
    model.domains[DOMAIN] = 1
    names = [model.free(name) for name in call.outputs]
    attributes = {name: _value(model.onnx, value) for name, value in call.attributes.items()}
    attributes |= {f"block_{i}": _inner(call, number) for i, number in enumerate(call.blocks)}
    inputs = [call.plain(i) for i in range(len(call.operands))]
    call.graph.node(call.op_type, inputs, names, domain=DOMAIN, **attributes)
    return names


def _inner(call: Call, number: int) -> Any:
    """Return a block inside an op as a graph."""
    graph = Graph(call.graph.model, call.graph)
    walk = call.walk.inner(number, graph)
    given: list[Any] = []
    for parameter in walk.block.parameters:
        x = graph.result(graph.model.free(parameter.tensor), walk.types[parameter.tensor])
        walk.values[parameter.tensor] = x
        given.append(graph.model.value(x.name, *x.type))
    walk.ops()
    results = [walk.values[name] for name in walk.block.results]
    ends = [graph.model.value(graph.add("Identity", graph.plain(x)), *x.type) for x in results]
    return graph.model.onnx.helper.make_graph(graph.nodes, graph.model.free("block"), given, ends)


def _value(onnx: Any, value: Any) -> Any:
    """Return an attribute as ONNX has it: numbers, words, tensors and lists of these."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, tuple):
        return list(value) if len({type(each) for each in value}) == 1 else ([str(v) for v in value] or None)
    from runtime.constants import constant_array

    return onnx.numpy_helper.from_array(constant_array(value))
