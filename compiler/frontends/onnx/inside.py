"""The graphs inside of a graph, its branches and bodies, and the names that nodes read there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def graphs_of(node: Any) -> list[Any]:
    """Return the branches and bodies of a node."""
    return [inner for a in node.attribute if a.type in (5, 10) for inner in ([a.g] if a.type == 5 else a.graphs)]


def all_nodes(graph: Any) -> Iterator[Any]:
    """Yield each node of a graph, before those of its branches and bodies."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from all_nodes(inner)


def all_graphs(graph: Any) -> list[Any]:
    """Return a graph and those inside it."""
    return [graph, *(inner for node in all_nodes(graph) for inner in graphs_of(node))]


def names_read(node: Any) -> Iterator[str]:
    """Yield the names that a node reads, in its branches and bodies as well."""
    yield from (name for name in node.input if name)
    for graph in graphs_of(node):
        yield from (result.name for result in graph.output)
        for inner in graph.node:
            yield from names_read(inner)


def names_needed(nodes: Sequence[Any], wanted: Iterable[str]) -> set[str]:
    """Return some names, and all that the nodes read which compute them."""
    makers = {name: node for node in nodes for name in node.output if name}
    needed, todo = set[str](), list(wanted)
    while todo:
        name = todo.pop()
        if name not in needed:
            needed.add(name)
            todo += names_read(makers[name]) if name in makers else ()
    return needed
