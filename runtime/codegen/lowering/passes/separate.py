"""Separate: every node of an instrumented step is a group of its own, so that each op can be checked."""

from __future__ import annotations

from runtime.codegen.groups.group import Group, domain_of
from runtime.codegen.lowering.lowered_block import LoweredBlock


def separate(block: LoweredBlock) -> LoweredBlock:
    """Put each node into a group of its own, in the order of the block."""
    nodes = block.nodes
    groups: list[Group] = []
    for rank, node in enumerate(nodes.nodes):
        roots = {nodes.root[name] for name in node.inputs if name}
        groups.append(Group(domain_of(nodes, node), [node], roots, rank))
    return block._replace(groups=groups)
