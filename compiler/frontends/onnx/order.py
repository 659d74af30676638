"""The order of nodes: each after the nodes whose results it reads. Files of some exporters violate it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from compiler.errors import CompileError
from compiler.frontends.onnx.inside import names_read


def in_order(nodes: Sequence[Any], path: object, given: Iterable[str] = ()) -> list[Any]:
    """Return nodes in an order in which each comes after those that it needs; nodes of a cycle keep their order.

    Raises CompileError for a result with the name of another one or of a tensor of `given`: a node that reads the name
    may mean either.
    """
    makers: dict[str, int] = {}
    others = set(given)
    for number, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in makers or name in others:
                raise CompileError(
                    f"{path}: a node {node.op_type} makes {name!r}, a name that another tensor has already; give one "
                    "of both another name, in the model before its export or in the file"
                )
            makers[name] = number
    needed = [sorted({makers[name] for name in names_read(node) if name in makers}) for node in nodes]
    if all(not own or own[-1] < number for number, own in enumerate(needed)):
        return list(nodes)
    order: list[int] = []
    seen = set[int]()
    for number in range(len(nodes)):
        todo = [number]
        while todo:
            missing = [each for each in needed[todo[-1]] if each not in seen]
            seen.add(todo[-1])
            if missing:
                todo.append(missing[0])
            else:
                last = todo.pop()
                order.append(last)
    return [nodes[number] for number in dict.fromkeys(order)]


def names_given(graph: Any) -> list[str]:
    """Return the names of a graph's inputs and initializers."""
    return [tensor.name for tensor in (*graph.input, *graph.initializer)]
