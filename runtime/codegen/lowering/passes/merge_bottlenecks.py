"""Inverted bottlenecks: three successive convolutions become one group, if nothing else reads between them.

The images with many channels, such as four times those of the operand and the result, are then never in memory; see
`kernels.conv.bottleneck`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from runtime.codegen.kernels.conv.bottleneck import Bottleneck
from runtime.codegen.lowering.groups import Group
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.lowering.nodes import Nodes, convolution_of


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
        three = _before(block, group, maker, readers)
        if three is None or not taken.isdisjoint(three):
            continue
        shapes = [convolution_of(other.nodes[0], block.types) for other in three]
        if Bottleneck.takes((shapes[0], shapes[1], shapes[2])):
            taken.update(three)
            found[group] = _merged(three)
    return [found.get(group, group) for group in groups if group in found or group not in taken]


def _before(
    block: Nodes, group: Group, maker: Mapping[str, Group], readers: Mapping[str, list[Group]]
) -> list[Group] | None:
    """Return three convolutions, this one the last, each of which alone reads the one before; None otherwise."""
    three = [group]
    while len(three) < 3 and _is_plain(three[0]):
        source = three[0].nodes[0].inputs[0]
        before = maker.get(source)
        if before is None or any(name in block.ends for name in before.outputs):
            return None
        if any(readers.get(name, []) != ([three[0]] if name == source else []) for name in before.outputs):
            return None
        if any(source in node.inputs[int(i == 0) :] for i, node in enumerate(three[0].nodes)):
            return None
        three.insert(0, before)
    return three if _is_plain(three[0]) and three[0].nodes[0].inputs[0] not in block.views else None


def _is_plain(group: Group) -> bool:
    return group.nodes[0].op.type == "conv2d" and group.takes_epilogue and not group.prologue


def _merged(three: Sequence[Group]) -> Group:
    """Return one group, at the position of the last."""
    *first, last = three
    before = [node for group in first for node in group.nodes]
    made = {name for node in before for name in node.outputs}
    reads = {name for group in three for name in group.reads} - made
    return replace(last, prologue=before, reads=reads)
