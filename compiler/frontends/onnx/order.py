"""The order of nodes: each after the nodes whose results it reads. Files of some exporters violate it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compiler.frontends.onnx.inside import names_read


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Return nodes in an order in which each comes after those that it needs; nodes of a cycle keep their order."""
    makers = {name: number for number, node in enumerate(nodes) for name in node.output if name}
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
