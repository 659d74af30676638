"""Fuse: nodes that are computed by one nest of loops, so that what one hands to the next stays in a register.

1. Nodes come in the order of the block. A node with a form joins the group of one of its operands if both go over the
   same elements; else it begins a group. A node without a form is a group by itself.
2. A group that takes a node in is computed where the node stands, if nothing between the two needs it. Otherwise, and
   for what follows from a reduction, it stays where it is, and takes the node in if all that the node reads is there by
   then, or can be; but far back not for what there is one of for each row, which is read later as well.
3. Groups of two operands of one node become one if both may be computed where the node stands.
4. What is made of a product's result to be joined, such as its square for a norm, is computed with what joins it, as a
   product has no reductions: so the result is written once, and read once more.
5. Random numbers are not drawn with a product: code is written for every vector of its tile, and theirs is long.
6. What a node that reads a reduction of its own group has to be like is in `fitting`.

Operands are read as they were at the start of the step, and every tensor is written once; so the order of groups is
right if every group stands after those that make what it reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from typing import Final

from prograd_proto import program_pb2 as pb
from runtime.codegen.lowering.fusion_legality import axes_of, can_fuse, can_join, goes_over_rows, is_long
from runtime.codegen.lowering.nodes import Node, Nodes
from runtime.codegen.rules import CustomKernel, Pointwise, Product, Reduction

MAX_GROUP_NODES: Final = 64
"""Nodes in a group: more would not stay in registers."""

MAX_FUSION_DISTANCE: Final = 4
"""Groups that may stand between a node and the one that computes it although it does not have to."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together.

    Attributes:
        domain: the extents of the loops: the shape of the results, or of what is reduced.
        nodes: in the order in which each element is computed; a product is the first, a reduction the last. One
            without a form is alone.
        reads: the roots of the tensors that it takes from memory.
        rank: where it stands among the groups.
        reduced_axes: the axes that its reductions join; all join the same.
        row_values: tensors that it makes with one element for each row of those axes.
        prologue: nodes that make the first operand of its convolution: pointwise ones where that is copied, or those of
            the two other convolutions of a bottleneck, see `lowering.bottlenecks`.
    """

    domain: tuple[int, ...]
    nodes: list[Node] = field(default_factory=list[Node])
    reads: set[str] = field(default_factory=set[str])
    rank: float = 0
    reduced_axes: frozenset[int] = frozenset()
    row_values: set[str] = field(default_factory=set[str])
    prologue: list[Node] = field(default_factory=list[Node])

    @property
    def outputs(self) -> list[str]:
        """The tensors that it computes."""
        return [name for node in self.nodes for name in node.outputs]

    @property
    def product(self) -> Node | None:
        """The product or convolution that it begins with, if there is one."""
        return self.nodes[0] if isinstance(self.nodes[0].rule, Product) or self.takes_epilogue else None

    @property
    def is_reduced(self) -> bool:
        """Whether something is joined in it."""
        return any(isinstance(node.rule, Reduction) for node in self.nodes)

    @property
    def is_rows(self) -> bool:
        """Whether it goes over rows, one after the other, more than once if need be: see `goes_over_rows`."""
        return self.is_reduced and goes_over_rows(self.domain, self.reduced_axes)

    @property
    def is_host(self) -> bool:
        """Whether a NumPy kernel computes it."""
        return self.nodes[0].rule is None

    @property
    def is_unfusible(self) -> bool:
        """Whether it is one node that no other joins, and that writes all its results."""
        rule = self.nodes[0].rule
        return rule is None or (isinstance(rule, CustomKernel) and not rule.takes_epilogue)

    @property
    def takes_epilogue(self) -> bool:
        """Whether it begins with a node that has loops of its own, whose finished vectors others may take."""
        rule = self.nodes[0].rule
        return isinstance(rule, CustomKernel) and rule.takes_epilogue

    @property
    def name(self) -> str:
        """What it computes, in short."""
        return "+".join(op.type for op in self.ops)

    @property
    def ops(self) -> list[pb.OpDesc]:
        """The ops of the block that it has a part of, in order."""
        return list({id(node.op): node.op for node in (*self.prologue, *self.nodes)}.values())


def fuse(block: Nodes) -> list[Group]:
    """The groups of a block, in an order in which they can be computed."""
    fusion = _Fusion(block)
    for node in block.nodes:
        fusion.add(node)
    return sorted(fusion.groups, key=attrgetter("rank"))


def unfused(block: Nodes) -> list[Group]:
    """Every node by itself, in the order of the block, for who looks at each."""
    groups: list[Group] = []
    for rank, node in enumerate(block.nodes):
        roots = {block.root[name] for name in node.inputs if name}
        groups.append(Group(domain_of(block, node), [node], roots, rank))
    return groups


def domain_of(block: Nodes, node: Node) -> tuple[int, ...]:
    """The extents of the loops of a node: the shape of its results, or of what it reduces."""
    name = node.inputs[0] if isinstance(node.rule, Reduction) else node.outputs[0] if node.outputs else ""
    return block.types[name].static_shape if name else ()


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
        """The group that takes the node in, where it has to stand for that; None if there is none."""
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
        """Whether a group may be computed where the node stands; what it joins, if not by rows, is not kept so long."""
        return (group.domain == domain or group.is_rows) and not self._is_needed_later(group)

    def _is_worth_it(self, node: Node, domain: tuple[int, ...], group: Group) -> bool:
        """Whether computing the node that early saves more than reading one number again for each row."""
        if domain != group.domain or sum(other.rank > group.rank for other in self.groups) <= MAX_FUSION_DISTANCE:
            return True
        return any(x in group.outputs and x not in group.row_values for x in node.inputs)

    def _are_there(self, roots: set[str], group: Group) -> bool:
        """Whether these tensors are made by the group, or before it; what can be is moved there for that."""
        makers = {self.maker[name] for name in roots if name in self.maker} - {group}
        late = [maker for maker in makers if maker.rank > group.rank]
        if any(maker.is_host or self._needs(maker, group.rank) for maker in late):
            return False
        for maker in late:
            before = max((other.rank for other in self.groups if other.rank < group.rank), default=group.rank - 2)
            maker.rank = (before + group.rank) / 2
        return all(maker.rank < group.rank for maker in late)

    def _needs(self, group: Group, rank: float) -> bool:
        """Whether the group reads what is made as late as that."""
        return any(self.maker[name].rank >= rank for name in group.reads if name in self.maker)

    def _operands(self, node: Node) -> Iterable[str]:
        return (self.block.root[name] for name in node.inputs if name)

    def _fits(self, group: Group, node: Node, domain: tuple[int, ...]) -> bool:
        """Whether the node may be computed with the group, element by element."""
        if group.is_unfusible or len(group.nodes) >= MAX_GROUP_NODES:
            return False
        if group.product and (is_long(node) or self._is_for_a_sum(group, node)):
            return False
        names = [name for name in node.inputs if name]
        if any(self.maker.get(x) is not group for x in names if self.maker.get(self.block.root[x]) is group):
            return False
        return can_join(group, node, domain, self.block)

    def _is_for_a_sum(self, group: Group, node: Node) -> bool:
        """Whether a node makes something of a product's result that is joined and nothing else."""
        return group.product is group.nodes[-1] and self.only_joined.issuperset(node.outputs)

    def _is_needed_later(self, group: Group) -> bool:
        """Whether something that stands after the group reads what it makes."""
        readers = (reader for name in group.outputs for reader in self.readers.get(name, ()))
        return any(reader.rank > group.rank for reader in readers)

    def _merged(self, groups: list[Group]) -> Group:
        """One group, at the end, of several that nothing reads so far; what cannot be one stays apart, before it."""
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
        """A group that stays where it is, and those that stand before it for it alone."""
        for other in others:
            if can_fuse(group, other, self.block) and group.reads.isdisjoint(other.outputs):
                self._unite(group, other)
        return group

    def _unite(self, group: Group, other: Group) -> None:
        """Take the nodes of another group, of which this one reads nothing."""
        del self.groups[other]
        group.nodes += other.nodes
        group.reduced_axes |= other.reduced_axes
        group.row_values |= other.row_values
        self.maker.update((name, group) for name in other.outputs)
        self._reads(group, other.reads)
        for name in other.reads:
            self.readers[name].remove(other)
