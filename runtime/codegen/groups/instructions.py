"""The number of instructions of a pointwise node for a vector, counted by writing them."""

from __future__ import annotations

from collections.abc import Mapping

from prograd_proto import TensorType
from runtime.codegen.groups.nodes import Node
from runtime.codegen.ir import Module, Value
from runtime.codegen.machine import Target
from runtime.codegen.rules import Pointwise, register_type


def instructions(target: Target, node: Node, types: Mapping[str, TensorType]) -> int | None:
    """Return the number of instructions of the node's expression; None if it has other arguments than operands."""
    rule = node.rule
    if not isinstance(rule, Pointwise) or rule.uniforms or rule.indices or rule.is_invalid:
        return None
    f = Module(target).function("counted", [], None)
    operands = [Value("%x", register_type(types[x].dtype).of(target.lanes(64)), f) if x else None for x in node.inputs]
    before = f.size
    rule.evaluate(operands, dict(node.attributes))
    return f.size - before
