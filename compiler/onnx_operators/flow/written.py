"""Conditions and loops of a program as nodes of ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from compiler.exporters.onnx.call import Call, Export, Unmapped
from compiler.exporters.onnx.graph import Graph
from compiler.exporters.onnx.tensors import Tensor
from prograd_proto.tensor_types import TensorType


def _run_block(call: Call, number: int, operands: Sequence[Tensor], graph: Graph) -> list[str]:
    """Append the nodes of a block inside an op to a graph; return the names of its results, which are new."""
    walk = call.walk.inner(call.blocks[number], graph)
    for parameter in walk.block.parameters:
        walk.values[parameter.tensor] = operands[parameter.argument]
    walk.ops()
    if any(name not in walk.values for name in walk.block.results):
        raise Unmapped("has a block with ops that ONNX cannot express")
    return [graph.add("Identity", graph.plain(walk.values[name])) for name in walk.block.results]


def _body(graph: Graph, hint: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> Any:
    """Return the message of a branch or a body."""
    model = graph.model
    given, made = ([model.value(x.name, *x.type) for x in each] for each in (inputs, outputs))
    return model.onnx.helper.make_graph(graph.nodes, model.free(hint), given, made)


def _results(graph: Graph, names: Sequence[str], types: Sequence[TensorType]) -> list[Tensor]:
    return [graph.result(name, type) for name, type in zip(names, types, strict=True)]


def _if_out(call: Call) -> list[str]:
    operands = [x for x in call.operands[1:] if x is not None]
    branches: dict[str, Any] = {}
    for number, word in enumerate(("then_branch", "else_branch")):
        graph = Graph(call.graph.model, call.graph)
        made = _results(graph, _run_block(call, number, operands, graph), call.types)
        branches[word] = _body(graph, word, [], made)
    return call.graph.several("If", call.plain(0), count=len(call.types), hint=call.outputs[0], **branches)


def _new_inputs(graph: Graph, types: Sequence[TensorType], hint: str) -> list[Tensor]:
    return [graph.result(graph.model.free(hint), type) for type in types]


def _scan_out(call: Call) -> list[str]:
    """Return a scan over rows as a Scan, and one without rows as a Loop."""
    given = call.attributes
    if given["counted"]:
        raise Unmapped("makes a number of trips that is data and fewer than its rows, which ONNX's Scan cannot")
    carries, rows = int(given["carries"]), int(given["rows"])
    operands = [x for x in call.operands if x is not None]
    states, arrays, shared = operands[:carries], operands[carries : carries + rows], operands[carries + rows :]
    graph = Graph(call.graph.model, call.graph)
    inputs = _new_inputs(graph, [x.type for x in states], "carry")
    inputs += _new_inputs(graph, [x.type._replace(shape=x.shape[1:]) for x in arrays], "row")
    types = [type if i < carries else type._replace(shape=type.shape[1:]) for i, type in enumerate(call.types)]
    results = _results(graph, _run_block(call, 0, [*inputs, *shared], graph), types)
    names = [call.graph.plain(x) for x in [*states, *arrays]]
    backwards, made = int(bool(given["reverse"])), len(call.types)
    if rows:
        return call.graph.several(
            "Scan", *names, count=made, hint=call.outputs[0], body=_body(graph, "scan", inputs, results),
            num_scan_inputs=rows, scan_input_directions=[backwards] * rows,
            scan_output_directions=[backwards] * (made - carries) or None,
        )  # fmt: skip
    if backwards and made > carries:
        raise Unmapped("stacks rows from the last to the first without reading any, which ONNX's Loop cannot")
    trips = call.graph.reshaped(call.graph.shape(given["length"]), ())
    return _looped(call, graph, trips, call.graph.constant(True), inputs, results, names, "")


def scan(
    call: Call, states: Sequence[tuple[str, TensorType]], rows: Sequence[tuple[str, TensorType]], axis: int,
    step: Callable[..., Sequence[str]], *, inclusive: bool = True,
) -> list[str]:  # fmt: skip
    """Append a Scan along an axis of its operands and results; return the stacked states.

    Args:
        call: the op; its attribute `reverse` gives the direction.
        states: the first states, with their types.
        rows: the operands, with the types of their rows.
        axis: the axis.
        step: a function of the body, the names of the states and those of the rows, which returns the next states.
        inclusive: whether the states after each step are stacked, or those before it.
    """
    graph, count = Graph(call.graph.model, call.graph), len(states)
    types = [type for _, type in (*states, *rows)]
    inputs = [*_new_inputs(graph, types[:count], "state"), *_new_inputs(graph, types[count:], "row")]
    names = [x.name for x in inputs]
    after = step(graph, *names)
    made = [graph.add("Identity", name) for name in (*after, *(after if inclusive else names[:count]))]
    body = _body(graph, "scan", inputs, _results(graph, made, types[:count] * 2))
    ways = [int(bool(call.attributes["reverse"]))] * max(len(rows), count)
    return call.graph.several(
        "Scan", *(name for name, _ in (*states, *rows)), count=2 * count, hint=call.outputs[0], body=body,
        num_scan_inputs=len(rows), scan_input_axes=[axis] * len(rows), scan_input_directions=ways[: len(rows)],
        scan_output_axes=[axis] * count, scan_output_directions=ways[:count],
    )[count:]  # fmt: skip


def _looped(
    call: Call, graph: Graph, trips: str, go: str, inputs: Sequence[Tensor], results: Sequence[Tensor],
    names: Sequence[str], goes_on: str,
) -> list[str]:  # fmt: skip
    """Append a Loop; `goes_on` is the condition after a trip, "" for one that always holds."""
    number, condition = graph.model.free("trip"), graph.model.free("condition")
    after = graph.add("Identity", goes_on or condition)
    index, flag = TensorType("int64", ()), TensorType("bool", ())
    given = [graph.result(number, index), graph.result(condition, flag), *inputs]
    body = _body(graph, "loop", given, [graph.result(after, flag), *results])
    return call.graph.several("Loop", trips, go, *names, count=len(results), hint=call.outputs[0], body=body)


def _while_out(call: Call) -> list[str]:
    """Return a while loop as a Loop with one more carry, the number of trips."""
    carries, most = int(call.attributes["carries"]), int(call.attributes["max_trips"])
    if len(call.types) > carries + 1:
        raise Unmapped("stores what its gradient reads, in an entry that should only predict")
    operands = [x for x in call.operands if x is not None]
    states, shared = operands[:carries], operands[carries:]
    [go] = _run_block(call, 0, operands, call.graph)
    graph = Graph(call.graph.model, call.graph)
    index = TensorType("int64", ())
    inputs = _new_inputs(graph, [*(x.type for x in states), index], "carry")
    made = _run_block(call, 1, [*inputs[:-1], *shared], graph)
    made.append(graph.add("Add", inputs[-1].name, graph.constant(1, "int64")))
    results = _results(graph, made, [*(x.type for x in states), index])
    [goes_on] = _run_block(call, 0, [*results[:-1], *shared], graph)
    names = [*(call.graph.plain(x) for x in states), call.graph.constant(0, "int64")]
    trips = call.graph.constant(most, "int64") if most else ""
    return _looped(call, graph, trips, go, inputs, results, names, goes_on)


EXPORTS: Final[dict[str, Export]] = {"cond": _if_out, "scan": _scan_out, "while_loop": _while_out}
