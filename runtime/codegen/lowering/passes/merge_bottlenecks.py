"""Inverted bottlenecks: three successive convolutions become one group, if nothing else reads between them.

The images with many channels, such as four times those of the operand and the result, are then never in memory; see
`kernels.conv.bottleneck`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runtime.codegen.groups.group import Group
from runtime.codegen.groups.nodes import Nodes, convolution_of
from runtime.codegen.kernels.conv.bottleneck import Bottleneck
from runtime.codegen.lowering.lowered_block import LoweredBlock


def merge_bottlenecks(block: LoweredBlock) -> LoweredBlock:
    """Merge the three convolutions of an inverted bottleneck into one group."""
    return block._replace(groups=with_bottlenecks(block.nodes, block.groups))


def with_bottlenecks(block: Nodes, groups: Sequence[Group]) -> list[Group]:
    """Return the groups, where the last one of each bottleneck has the nodes of the others as its prologue."""
    readers: dict[str, list[Group]] = {}
    for group in groups:
        for name in group.reads:
            readers.setdefault(name, []).append(group)
    maker = {name: group for group in groups if _is_plain(group) for name in group.outputs}
    found: dict[Group, Group] = {}
    taken: set[Group] = set()
    for group in groups:
        convolutions = _bottleneck_of(block, group, maker, readers)
        if convolutions is None or not taken.isdisjoint(convolutions):
            continue
        if any(block.types[other.nodes[0].inputs[0]].dtype == "bfloat16" for other in convolutions):
            continue
        shapes = [convolution_of(other.nodes[0], block.types) for other in convolutions]
        if Bottleneck.takes((shapes[0], shapes[1], shapes[2])):
            taken.update(convolutions)
            found[group] = _merged(convolutions)
    return [found.get(group, group) for group in groups if group in found or group not in taken]


def _bottleneck_of(
    block: Nodes, group: Group, maker: Mapping[str, Group], readers: Mapping[str, list[Group]]
) -> list[Group] | None:
    """Return three convolutions, this one the last, each of which alone reads the one before; None otherwise."""
    convolutions = [group]
    while len(convolutions) < 3 and _is_plain(convolutions[0]):
        source = convolutions[0].nodes[0].inputs[0]
        previous = maker.get(source)
        if previous is None or any(name in block.ends for name in previous.outputs):
            return None
        if any(readers.get(name, []) != ([convolutions[0]] if name == source else []) for name in previous.outputs):
            return None
        if any(source in node.inputs[int(i == 0) :] for i, node in enumerate(convolutions[0].nodes)):
            return None
        convolutions.insert(0, previous)
    return (
        convolutions if _is_plain(convolutions[0]) and convolutions[0].nodes[0].inputs[0] not in block.views else None
    )


def _is_plain(group: Group) -> bool:
    return group.nodes[0].op.type == "conv2d" and group.takes_epilogue and not group.prologue


def _merged(convolutions: Sequence[Group]) -> Group:
    """Return one group, at the position of the last."""
    *first, last = convolutions
    previous = [node for group in first for node in group.nodes]
    internal = {name for node in previous for name in node.outputs}
    reads = {name for group in convolutions for name in group.reads} - internal
    return replace(last, prologue=previous, reads=reads)
