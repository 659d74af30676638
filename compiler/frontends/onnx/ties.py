"""Weights that an exporter merged or copied: `untie` gives every reader its own, `tie` makes copies one again.

Both edit the graph before it is imported. A weight that several nodes read becomes one initialiser for each of them; a
matrix that is the copy of another, or its transposed copy, becomes a node that reads the other.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from compiler.frontends.onnx.reading import Tensors
from compiler.frontends.onnx.weights import SLOTS

MIN_ELEMENTS: Final = 64
"""Fewest elements of a matrix whose copy is taken for a tied parameter."""


def untie(graph: Any) -> None:
    """Give each further reader of a weight a copy of its own."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    taken = {name for node in graph.node for name in [*node.input, *node.output]}
    for node in [node for node in graph.node if node.op_type == "Identity" and node.input[0] in stored]:
        tensor = graph.initializer.add()
        tensor.CopyFrom(stored[node.input[0]])
        tensor.name = node.output[0]
        stored[tensor.name] = tensor
        graph.node.remove(node)
    read: set[str] = set()
    for node in graph.node:
        for slot in SLOTS.get(node.op_type, ()):
            name = node.input[slot] if slot < len(node.input) else ""
            if name in read:
                _copy(graph, node, slot, stored[name], taken)
            elif name in stored:
                read.add(name)


def _copy(graph: Any, node: Any, slot: int, source: Any, taken: set[str]) -> None:
    number = 2
    while f"{source.name}.{number}" in taken:
        number += 1
    tensor = graph.initializer.add()
    tensor.CopyFrom(source)
    tensor.name = node.input[slot] = f"{source.name}.{number}"
    taken.add(tensor.name)


def tie(onnx: Any, graph: Any, tensors: Tensors) -> None:
    """Replace matrices that are copies of earlier ones by nodes that read these."""
    first: dict[tuple[Any, ...], str] = {}
    nodes: list[Any] = []
    for tensor in list(graph.initializer):
        if len(tensor.dims) != 2 or np.prod(tensor.dims, dtype=float) < MIN_ELEMENTS:
            continue
        array = tensors.array(tensor)
        if array.dtype.kind != "f" or bool(np.all(array == array.reshape(-1)[0])):
            continue
        flipped = np.ascontiguousarray(array.T)
        own, other = ((a.dtype.name, a.shape, a.tobytes()) for a in (array, flipped))
        if own in first or other in first:
            operator = "Identity" if own in first else "Transpose"
            nodes.append(onnx.helper.make_node(operator, [first.get(own) or first[other]], [tensor.name]))
            graph.initializer.remove(tensor)
        else:
            first[own] = tensor.name
    kept = list(graph.node)
    del graph.node[:]
    graph.node.extend([*nodes, *kept])
