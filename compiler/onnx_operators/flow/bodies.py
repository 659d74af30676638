"""Branches and bodies: graphs within a node, read in the block that is being built."""

from __future__ import annotations

from typing import Any

from compiler.errors import CompileError
from compiler.frontends.arranged import plain
from compiler.frontends.onnx.known.constants import Constant
from compiler.frontends.onnx.node import MISSING, Node
from registry import Value


def inside(node: Node, graph: Any, operands: list[Any]) -> tuple[Value, ...]:
    """Return the results of a branch or a body as tensors of the block that is being built."""
    block = node.walk.block.root.active
    return tuple(plain(x.tensor(block) if isinstance(x, Constant) else x) for x in traced(node, graph, operands))


def traced(node: Node, graph: Any, operands: list[Any]) -> list[Any]:
    """Return the results of a branch or a body, tensors or constants, in the block that is being built."""
    walk = node.walk
    outer, count = walk.block, len(walk.updates)
    walk.block = outer.root.active
    try:
        results = ran(node, graph, operands)
        if len(walk.updates) != count:
            raise CompileError("has a branch with batch normalisation, whose statistics would follow it")
        return results
    finally:
        walk.block = outer


def ran(node: Node, graph: Any, operands: list[Any]) -> list[Any]:
    """Return the results of a branch or a body; raise CompileError for the first problem in it."""
    before = len(node.walk.problems)
    results = node.walk.graph(graph, operands)
    inner = node.walk.problems[before:]
    if inner:
        del node.walk.problems[before:]
        raise CompileError(f"contains {inner[0].operator}, which {inner[0].reason}")
    if any(x is MISSING for x in results):
        raise CompileError("has a branch that does not make its results")
    return results
