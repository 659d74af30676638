"""Fusion legality: the nodes that one loop nest may compute, element by element or row by row.

The reductions of a group have the same axes. If the reduced axes are contiguous rows, short enough for the first-level
cache, the group may pass over a row several times: the group may use a reduction for elements of the row, and for
nodes with one element for each row. Otherwise it may use a reduction only for nodes with the shape of the result, such
as the update of a bias whose gradient is a sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from runtime.codegen.groups.group import Group, axes_of
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.rules import Moment, Pointwise, Reduction, register_type

MAX_GROUP_NODES: Final = 64
"""Upper bound on the nodes of a group; larger groups spill registers."""


def can_join(group: Group, node: Node, domain: tuple[int, ...], block: Nodes) -> bool:
    """Return True if a node of a block may be computed with a group of which it reads a result."""
    if isinstance(node.rule, Reduction):
        return _can_reduce(group, node, domain, block)
    if group.takes_epilogue and not can_follow_convolution(group, node, block):
        return False
    if group.row_values.isdisjoint(node.inputs):
        return group.domain == domain
    if not isinstance(node.rule, Pointwise):
        return False
    may_follow = _can_follow_in_rows if group.is_rows else _can_follow_reduction
    return may_follow(group, node, node.rule, domain, block)


def can_follow_convolution(group: Group, node: Node, block: Nodes) -> bool:
    """Return True if a node may take the finished vectors of a convolution, with known pixel and channels.

    Its operands are as large as the result, or have one element for each channel, or one.
    """
    rule = node.rule
    if not isinstance(rule, Pointwise) or rule.indices or rule.is_random or rule.is_invalid or rule.uniforms:
        return False
    element = block.types[group.nodes[0].outputs[0]].dtype

    def is_taken(name: str) -> bool:
        type, internal = block.types[name], name in group.outputs
        if prod(type.static_shape) == 1:
            return True
        channels = type.static_shape[-1:] == group.domain[-1:] and prod(type.static_shape) == group.domain[-1]
        return (
            type.dtype in (element, "bool", "bfloat16", *(("float32", "uint8") if element == "int32" else ()))
            and (internal or name not in block.views)
            and (type.static_shape == group.domain or channels)
        )

    alike = all(block.types[name].static_shape == group.domain for name in node.outputs)
    return alike and all(is_taken(name) for name in (*node.inputs, *node.outputs) if name)


def _can_follow_in_rows(group: Group, node: Node, rule: Pointwise, domain: tuple[int, ...], block: Nodes) -> bool:
    """Return True if a node that reads values with one element for each row may be computed row by row."""
    row = tuple(1 if axis in group.reduced_axes else extent for axis, extent in enumerate(group.domain))
    read = group.row_values.intersection(node.inputs)
    if rule.uniforms is not None or any(block.types[name].static_shape != row for name in read):
        return False
    if group.domain == domain:
        return True
    return domain == row and not rule.indices and read.issuperset(set(group.outputs).intersection(node.inputs))


def _can_follow_reduction(group: Group, node: Node, rule: Pointwise, domain: tuple[int, ...], block: Nodes) -> bool:
    """Return True if a node may be computed with each result of a reduction as soon as that is finished."""
    if domain == group.domain or rule.indices or rule.is_random or (rule.uniforms is not None and not domain):
        return False  # `uniforms` needs numbers that are known before the loops
    internal = set(group.outputs)

    def is_at_hand(name: str) -> bool:
        shape = block.types[name].static_shape
        if name in internal:
            return name in group.row_values and shape == domain
        return prod(shape) == 1 or (shape == domain and name not in block.views)

    alike = all(block.types[name].static_shape == domain for name in node.outputs)
    return alike and all(is_at_hand(name) for name in node.inputs if name)


def _can_reduce(group: Group, node: Node, domain: tuple[int, ...], block: Nodes) -> bool:
    if group.domain != domain or group.product or node.inputs[0] in group.row_values:
        return False
    if not group.is_reduced:
        return True
    alike = group.reduced_axes == axes_of(node, len(domain)) and _widths([node, *group.nodes], block) == 1
    return alike and _are_of_one_pass([node, *group.nodes])


def _are_of_one_pass(nodes: Sequence[Node]) -> bool:
    """Return True if no reduction is a moment, or all are moments of one tensor."""
    reductions = [node for node in nodes if isinstance(node.rule, Reduction)]
    moments = [node.inputs[0] for node in reductions if isinstance(node.rule, Moment)]
    return not moments or (len(moments) == len(reductions) and len(set(moments)) == 1)


def is_long(node: Node) -> bool:
    """Return True if a node is too much code to be written for every vector of a tile."""
    return isinstance(node.rule, Pointwise) and node.rule.is_random


def can_fuse(a: Group, b: Group, block: Nodes) -> bool:
    """Return True if two groups may become one; neither reads the other, and some node reads both."""
    for one, other in ((a, b), (b, a)):
        if one.takes_epilogue and not all(can_follow_convolution(one, node, block) for node in other.nodes):
            return False
    products, reduced = (a.product is not None) + (b.product is not None), a.is_reduced or b.is_reduced
    if products > 1 or (products and (reduced or any(map(is_long, (*a.nodes, *b.nodes))))):
        return False
    alike = (
        not a.is_reduced
        or not b.is_reduced
        or (
            a.reduced_axes == b.reduced_axes
            and _widths([*a.nodes, *b.nodes], block) == 1
            and _are_of_one_pass([*a.nodes, *b.nodes])
        )
    )
    return a.domain == b.domain and alike


def _widths(nodes: Sequence[Node], block: Nodes) -> int:
    """Return the number of element sizes that reductions accumulate: vectors have the lanes of these elements.

    If other nodes of a group decided about lanes, they would decide about the order of additions.
    """
    types = [
        node.rule.accumulator_type(register_type(block.types[node.inputs[0]].dtype))
        for node in nodes
        if isinstance(node.rule, Reduction)
    ]
    return len({type.bits for type in types})
