"""Fuse: nodes that are computed by one loop nest become one group, so that values pass between them in registers.

1. Nodes are visited in the order of the block. A node with a lowering rule joins the group of one of its operands if
   both iterate over the same elements; otherwise it begins a group. A node without a rule is a group by itself.
2. A group that takes a node is computed at the position of the node if no group between the two needs its results.
   Otherwise, and for nodes that read a result of a reduction, it stays at its position and takes the node if all
   operands of the node are computed by then, or can be. It does not take a node from far behind that computes one
   number for each row, because reading these numbers later is cheap. If a budget was planned, so that ops run again, it
   takes no node from far behind: its result would stay in memory until then.
3. Groups of two operands of a node become one group if both may be computed at the position of the node.
4. A node whose only readers are reductions, such as the square of a product's result for a norm, is computed with them
   and not with the product: the product has no reductions, so its result is written once and read once.
5. Random numbers are not drawn in the epilogue of a product: their code is long, and an epilogue is written once for
   each vector of a tile.
6. The backward pass widens 16-bit floats of the forward pass where it needs them: what it computes from them would
   take more memory than they do.
7. `fusion_legality` decides which nodes may read a reduction that the same group computes.

Operands are read as they were at the start of the step, and every tensor is written once. The order of groups is
therefore right if every group comes after those that compute its operands.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, islice
from operator import attrgetter
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.codegen.groups.group import Group, axes_of, domain_of
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.lowering.fusion_legality import MAX_GROUP_NODES, can_fuse, can_join, is_long
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.rules import Pointwise, Reduction

BACKWARD: Final = (pb.STAGE_GRADIENT, pb.STAGE_DERIVATIVE)
"""Stages of the ops of the backward pass."""

MAX_FUSION_DISTANCE: Final = 4
"""Upper bound on the groups between a node and the group that computes it, if it does not have to."""


def fuse(block: LoweredBlock) -> LoweredBlock:
    """Form groups of nodes that one loop nest computes, and keep the values between them in registers."""
    return block._replace(groups=fused_groups(block.nodes))


def fused_groups(block: Nodes) -> list[Group]:
    """Return the groups of a block, in an order in which they can be computed."""
    fusion = _Fusion(block)
    for node in block.nodes:
        fusion.add(node)
    return sorted(fusion.groups, key=attrgetter("rank"))


class _Fusion:
    def __init__(self, block: Nodes) -> None:
        self.block = block
        self.groups: dict[Group, None] = {}
        self.maker: dict[str, Group] = {}  # by root
        self.readers: dict[str, list[Group]] = {}  # likewise
        self.ranks = count()
        readers = [
            (block.root[name], isinstance(node.rule, Reduction))
            for node in block.nodes
            for name in filter(None, node.inputs)
        ]
        others = {name for name, joins in readers if not joins} | block.ends
        self.only_joined = {name for name, joins in readers if joins} - others
        self.has_budget = any(node.op.recompute_of for node in block.nodes)

    def add(self, node: Node) -> None:
        """Put a node into a group."""
        domain = domain_of(self.block, node)
        group = self._joined(node, domain) or self._placed_last(Group(domain))
        group.nodes.append(node)
        if isinstance(node.rule, Reduction):
            group.reduced_axes = axes_of(node, len(group.domain))
            group.row_values.update(node.outputs)
        elif group.domain != domain:
            group.row_values.update(node.outputs)
        self.maker.update((name, group) for name in node.outputs)
        self._reads(group, self._roots(node))

    def _roots(self, node: Node) -> set[str]:
        return {self.block.root[name] for name in node.inputs if name}

    def _placed_last(self, group: Group) -> Group:
        group.rank = next(self.ranks)
        self.groups[group] = None
        return group

    def _reads(self, group: Group, roots: Iterable[str]) -> None:
        for name in roots:
            if self.maker.get(name) is not group:
                group.reads.add(name)
                self.readers.setdefault(name, []).append(group)

    def _joined(self, node: Node, domain: tuple[int, ...]) -> Group | None:
        """Return the group that takes the node, moved to the required position; None if there is none."""
        if not isinstance(node.rule, Pointwise | Reduction):
            return None
        makers = dict.fromkeys(self.maker[name] for name in self._operands(node) if name in self.maker)
        fitting = [group for group in makers if self._fits(group, node, domain)]
        movable = [group for group in fitting if self._may_wait(group, domain)]
        staying = [group for group in fitting if group not in movable and (group.is_reduced or not movable)]
        staying = [group for group in staying if self._is_worth_it(node, domain, group)]
        group = next((group for group in staying if self._are_there(self._roots(node), group)), None)
        if group is not None:
            return self._with(group, movable)
        return self._merged(movable) if movable else None

    def _may_wait(self, group: Group, domain: tuple[int, ...]) -> bool:
        """Return True if a group may be computed at the position of the node.

        Reductions, except of rows, are not kept so long.
        """
        return (group.domain == domain or group.is_rows) and not self._is_needed_later(group)

    def _is_worth_it(self, node: Node, domain: tuple[int, ...], group: Group) -> bool:
        """Return True if computing the node early saves more than it costs.

        It costs reading one number again for each row and, where a budget was planned, memory until the node is read.
        """
        reads_elements = any(self.maker.get(x) is group and x not in group.row_values for x in node.inputs)
        if not self.has_budget and (domain != group.domain or reads_elements):
            return True
        later = (other for other in reversed(self.groups) if other.rank > group.rank)
        return next(islice(later, MAX_FUSION_DISTANCE, None), None) is None

    def _are_there(self, roots: set[str], group: Group) -> bool:
        """Return True if the group, or groups before it, compute these tensors; groups that can are moved there."""
        makers = {self.maker[name] for name in roots if name in self.maker} - {group}
        late = [maker for maker in makers if maker.rank > group.rank]
        if any(maker.is_host or self._needs(maker, group.rank) for maker in late):
            return False
        for maker in late:
            before = max((other.rank for other in self.groups if other.rank < group.rank), default=group.rank - 2)
            maker.rank = (before + group.rank) / 2
        return all(maker.rank < group.rank for maker in late)

    def _needs(self, group: Group, rank: float) -> bool:
        """Return True if the group reads a tensor that is computed at this rank or later."""
        return any(self.maker[name].rank >= rank for name in group.reads if name in self.maker)

    def _operands(self, node: Node) -> Iterable[str]:
        return (self.block.root[name] for name in node.inputs if name)

    def _fits(self, group: Group, node: Node, domain: tuple[int, ...]) -> bool:
        """Return True if the node may be computed with the group, element by element."""
        if group.is_unfusible or len(group.nodes) >= MAX_GROUP_NODES:
            return False
        if group.product and (is_long(node) or self._is_for_a_sum(group, node)):
            return False
        if self._widens_later(group, node):
            return False
        names = [name for name in node.inputs if name]
        if any(self.maker.get(x) is not group for x in names if self.maker.get(self.block.root[x]) is group):
            return False
        return can_join(group, node, domain, self.block)

    def _widens_later(self, group: Group, node: Node) -> bool:
        """Return True if the backward pass widens a tensor of 16 bits of the forward pass, which waits in memory."""
        if node.op.type != "cast" or self.block.types[node.inputs[0]].dtype not in ("bfloat16", "float16"):
            return False
        return node.op.stage in BACKWARD and group.nodes[0].op.stage == pb.STAGE_FORWARD

    def _is_for_a_sum(self, group: Group, node: Node) -> bool:
        """Return True if a node computes an operand of reductions only, from a product's result."""
        return group.product is group.nodes[-1] and self.only_joined.issuperset(node.outputs)

    def _is_needed_later(self, group: Group) -> bool:
        """Return True if a group after this one reads its results."""
        readers = (reader for name in group.outputs for reader in self.readers.get(name, ()))
        return any(reader.rank > group.rank for reader in readers)

    def _merged(self, groups: list[Group]) -> Group:
        """Merge groups that nothing reads so far at the end; groups that cannot be merged stay separate, before it."""
        first = next((group for group in groups if group.product), groups[0])
        for group in groups:
            if group is first:
                continue
            if can_fuse(first, group, self.block):
                self._unite(first, group)
            else:
                group.rank = next(self.ranks)
        return self._placed_last(first)

    def _with(self, group: Group, others: Iterable[Group]) -> Group:
        """Return a group that stays at its position, merged with the groups that are before it for it alone."""
        for other in others:
            if can_fuse(group, other, self.block) and group.reads.isdisjoint(other.outputs):
                self._unite(group, other)
        return group

    def _unite(self, group: Group, other: Group) -> None:
        """Take the nodes of another group, of which this group reads nothing."""
        del self.groups[other]
        group.nodes += other.nodes
        group.reduced_axes |= other.reduced_axes
        group.row_values |= other.row_values
        self.maker.update((name, group) for name in other.outputs)
        self._reads(group, other.reads)
        for name in other.reads:
            self.readers[name].remove(other)
