"""Recompute: cheap values are computed again in the groups that read them, instead of being written and read.

1. A tensor that pointwise nodes compute, such as the mask of an activation, is no longer stored if every group that
   reads it can compute it again. This must read fewer bytes than writing and reading the tensor takes. Tensors that
   have to live longer for it may take at most the bytes that the tensor took.
2. A group that reads the tensor element by element computes it in its own loops.
3. A product or a convolution that reads it as an operand computes it where it packs that operand, in its producer slot
   (see `groups.producers`). The nodes of the slot may read statistics of rows that the tensor's own group has
   reduced, so that a norm before a product needs no pass over rows to write its result. Products compute each element
   once in all. A tensor that exceeds the second-level cache may be computed again if that takes few instructions.
4. A weight of few bits, such as `dequantize` widens, is computed in every product that reads it, and so is a weight of
   16 bits that exceeds the second-level cache.
5. The result of a product is never computed again. If another group reads it, it is stored and counts as an operand.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from runtime.codegen.costs import (
    INSTRUCTION_CYCLES,
    KEPT_VECTOR_CYCLES,
    READ_BYTE_CYCLES,
    STORED_VECTOR_CYCLES,
    WRITTEN_BYTE_CYCLES,
)
from runtime.codegen.emit.evaluations import evaluations
from runtime.codegen.groups.group import Group
from runtime.codegen.groups.group_kernel import kernel_of
from runtime.codegen.groups.instructions import instructions
from runtime.codegen.groups.nodes import Additions, Node, Nodes
from runtime.codegen.groups.producers import can_produce, has_slot, reader_of
from runtime.codegen.lowering.clamped_masks import with_unclamped_masks
from runtime.codegen.lowering.fusion_legality import MAX_GROUP_NODES, can_follow_convolution
from runtime.codegen.lowering.lowered_block import LoweredBlock
from runtime.codegen.machine import Target
from runtime.codegen.rules import Pointwise, Product, Rule

MIN_TENSOR_BYTES: Final = 1 << 14
"""Least size of a tensor that is recomputed; smaller tensors stay in the first-level cache."""

FAR_TENSOR_BYTES: Final = 1 << 20
"""Size of a tensor that leaves the second-level cache, so that writing and reading it takes time."""

MAX_EXTENSION: Final = 16
"""Groups by which a tensor of 16 bits may live longer without a price: it takes the place of a mask or of float32."""


def recompute(block: LoweredBlock) -> LoweredBlock:
    """Compute cheap values again in the groups that read them, instead of storing them."""
    nodes, groups = recomputed(block.target, block.nodes, block.groups)
    return block._replace(nodes=nodes, groups=groups)


def recomputed(target: Target, block: Nodes, groups: Sequence[Group]) -> tuple[Nodes, list[Group]]:
    """Return the block with more tensors, and copies of the groups, some of which compute tensors of others again."""
    remaking = _Recomputation(target, block, [_copy(group) for group in groups])
    for group in remaking.groups:
        while remaking.consider_all(group):
            pass  # another tensor may need operands that are read by then
    remaking.forget_unread()
    for group in remaking.groups:
        if group.nodes and reader_of(group.nodes[0], remaking.types):
            remaking.consider(group.nodes[0].outputs[0], group)  # casts of it are in slots by then
    return remaking.result()


@dataclass
class _GroupRecomputation:
    """The recomputation of a tensor in one group.

    Attributes:
        group: the group.
        nodes: that compute the tensor.
        more: roots that the group has to read besides those that it reads already.
        evaluations: how often it computes each element.
        in_epilogue: True if it computes the tensor after its product, for nodes that take the product's result.
    """

    group: Group
    nodes: list[Node]
    more: set[str]
    evaluations: int
    in_epilogue: bool


@dataclass
class _Recomputation:
    target: Target
    block: Nodes
    groups: list[Group]
    names: dict[tuple[Group, bool, str], str] = field(default_factory=dict[tuple[Group, bool, str], str])
    counts: dict[tuple[object, ...], tuple[Rule, int | None]] = field(
        default_factory=dict[tuple[object, ...], tuple[Rule, int | None]]
    )

    def __post_init__(self) -> None:
        self.types, self.root = dict(self.block.types), dict(self.block.root)
        self.rank = {group: i for i, group in enumerate(self.groups)}
        self.readers: dict[str, set[Group]] = {}
        for group in self.groups:
            for root in group.reads:
                self.readers.setdefault(root, set()).add(group)
        self.copies = {group: int(group.product is not None) for group in self.groups}
        firsts = [group.nodes[0] for group in self.groups]
        self.products = {node.outputs[0] for node in firsts if isinstance(node.rule, Product)}
        self.narrowed = {x for group in self.groups for node in group.nodes for x in self._narrowed_by(node)}

    def result(self) -> tuple[Nodes, list[Group]]:
        """Return the block, and all groups that still compute something."""
        for group in self.groups:
            group.nodes[:] = with_unclamped_masks(group.nodes, self.block.constants)
        self.forget_unread()
        return replace(self.block, types=self.types, root=self.root), [g for g in self.groups if g.nodes]

    def forget_unread(self) -> None:
        """Remove the nodes that nothing reads any more."""
        for group in reversed(self.groups):
            if group.nodes:
                self._forget_unread(group)

    def consider_all(self, group: Group) -> bool:
        """Recompute the results of a group for which this pays; return True if there was one."""
        names = [x.outputs[0] for x in reversed(group.nodes) if isinstance(x.rule, Pointwise) and len(x.outputs) == 1]
        if not self.narrowed.isdisjoint(group.outputs):  # masks may be computed again from what stays in memory
            names.sort(key=lambda name: self.types[name].dtype == "bool")
        return sum(self.consider(name, group) for name in names) > 0

    def consider(self, name: str, group: Group) -> bool:
        """Recompute a tensor if this pays; return True if it did."""
        size = self._bytes(name)
        if not size or name in self.block.ends or not self.readers.get(name):
            return False
        readers = sorted(self.readers[name], key=self.rank.__getitem__)
        plans = [self._plan(name, group, reader) for reader in readers]
        if any(plan is None for plan in plans):
            return False
        found = [plan for plan in plans if plan is not None]
        reader = reader_of(group.nodes[0], self.types)
        most = size if reader and reader.instructions is None else inf  # of a table only selected rows are read
        more = sum(min(self._bytes(root), most) for plan in found for root in plan.more)
        longer = {root for plan in found for root in plan.more if not self._lives(root, plan.group)}
        stored = size * (WRITTEN_BYTE_CYCLES + len(found) * READ_BYTE_CYCLES)
        if more * READ_BYTE_CYCLES >= stored or sum(map(self._bytes, longer)) > size:
            return False
        if not self._pays_packing(name, found):
            return False
        for plan in found:
            self._recompute(plan, name)
        return True

    def _bytes(self, root: str) -> int:
        """Return the size of a tensor that does not stay in the first-level cache; 0 for others."""
        size = self.types[root].nbytes
        return size if size >= MIN_TENSOR_BYTES else 0

    def _lives(self, root: str, group: Group) -> bool:
        """Return True if a tensor is in memory when a group runs, whatever the group reads."""
        last = max((self.rank[other] for other in self.readers.get(root, ())), default=-1)
        last += MAX_EXTENSION if root in self.narrowed else 0
        return root in self.block.ends or root in self.block.state_of or last >= self.rank[group]

    def _plan(self, name: str, group: Group, reader: Group) -> _GroupRecomputation | None:
        """Return the nodes by which a group could recompute a tensor of an earlier one; None if it cannot."""
        if any(self.root[x] == name and x != name for node in reader.nodes for x in node.inputs if x):
            return None
        is_slot = has_slot(reader, name)
        if reader_of(group.nodes[0], self.types):
            nodes = group.nodes if is_slot else None
        else:
            nodes = self._chain(name, group, group.row_values - {name} if is_slot else ())
        if nodes is None or len(nodes) + len(reader.nodes) > MAX_GROUP_NODES:
            return None
        in_epilogue = self._epilogue_takes(reader, name, nodes)
        count = 1 if in_epilogue or self._takes_copies(reader, name) else self._evaluations(reader, name, nodes)
        if count is None:
            return None
        internal = {node.outputs[0] for node in nodes}
        leaves = {self.root[x] for node in nodes for x in node.inputs if x and x not in internal}
        more = {root for root in leaves - reader.reads if root not in self.block.constants}
        return _GroupRecomputation(reader, nodes, more, count, in_epilogue)

    def _takes_copies(self, group: Group, name: str) -> bool:
        """Return True if a group goes over such a domain once, and has no runtime check of its operands."""
        refuses = any(isinstance(node.rule, Pointwise) and node.rule.is_invalid for node in group.nodes)
        fits = group.domain == self.types[name].static_shape
        return fits and not (group.is_unfusible or group.product or refuses)

    def _epilogue_takes(self, group: Group, name: str, nodes: Sequence[Node]) -> bool:
        """Return True if nodes after a product may compute a tensor again from tensors of 16 bits."""
        first, *others = group.nodes
        if group.product is None or not others or name in first.inputs or group.domain != self.types[name].static_shape:
            return False
        internal = {node.outputs[0] for node in nodes}
        leaves = {self.root[x] for node in nodes for x in node.inputs if x and x not in internal}
        large = {root for root in leaves if self._bytes(root)}
        if not large or not large <= self.narrowed:
            return False
        block = replace(self.block, types=self.types, root=self.root)
        return not group.takes_epilogue or all(can_follow_convolution(group, node, block) for node in nodes)

    def _evaluations(self, group: Group, name: str, nodes: Sequence[Node]) -> int | None:
        """Return how often a group computes each element of the operand in its slot; None if it cannot."""
        if not has_slot(group, name) or (self._is_prepacked(nodes) and not self._stays_narrow(group, nodes)):
            return None
        if reader_of(nodes[0], self.types) and not self._reads_alone(group, nodes[0]):
            return None
        nodes = [*nodes, *group.prologue]
        if not can_produce(nodes, self.types[name], self.types, self.block.views):
            return None
        block, producing = replace(self.block, types=self.types, root=self.root), replace(group, prologue=nodes)
        return evaluations(self.target, kernel_of(block, producing, ()))

    def _reads_alone(self, group: Group, node: Node) -> bool:
        """Return True if a group may compute rows of a kernel: a product, which checks indices before any update."""
        if not isinstance(group.nodes[0].rule, Product):
            return False
        updated = {self.root[update.tensor] for update in self.block.block.desc.updates}
        first = next(i for i, other in enumerate(self.groups) if node in other.nodes)
        between = self.groups[first : self.rank[group] + 1]
        return self._is_narrow(node) or all(updated.isdisjoint(other.outputs) for other in between)

    def _is_narrow(self, node: Node) -> bool:
        """Return True if a node widens numbers of few bits, whose result should never be in memory."""
        reader = reader_of(node, self.types)
        return reader is not None and reader.instructions is not None

    def _pays_packing(self, name: str, plans: Sequence[_GroupRecomputation]) -> bool:
        """Return True if products compute an operand once in all, or its memory costs more than to compute it again."""
        again = sum(plan.evaluations for plan in plans if isinstance(plan.group.nodes[0].rule, Product)) - 1
        if again < 1 or any(self._is_narrow(plan.nodes[0]) for plan in plans):
            return True
        if self._bytes(name) >= FAR_TENSOR_BYTES and all(self._is_widening(plan.nodes) for plan in plans):
            return True  # half the bytes come from memory each time
        cycles = KEPT_VECTOR_CYCLES + max(sum(self._cycles(node, name) for node in plan.nodes) for plan in plans)
        saved = STORED_VECTOR_CYCLES - KEPT_VECTOR_CYCLES
        return self._bytes(name) >= FAR_TENSOR_BYTES and again * cycles <= saved

    def _is_prepacked(self, nodes: Sequence[Node]) -> bool:
        """Return True if nodes compute the same in every step, so that `prepack` may take them out of it."""
        internal = {x for node in nodes for x in node.outputs}
        read = {self.root[x] for node in nodes for x in node.inputs if x and x not in internal}
        return not self.block.block.desc.updates and read <= {*self.block.state_of, *self.block.constants}

    def _stays_narrow(self, group: Group, nodes: Sequence[Node]) -> bool:
        """Return True if nodes widen a weight of few bits, or one of 16 bits for a product in lanes.

        Such a product reads each element once, so that half the bytes take half the time, and widening them in
        registers takes none.
        """
        in_lanes = self.block.additions.get(group.nodes[0].outputs[0]) is Additions.LANES
        return self._is_narrow(nodes[0]) or (self._is_widening(nodes) and in_lanes)

    def _is_widening(self, nodes: Sequence[Node]) -> bool:
        """Return True if nodes are the cast of a tensor of 16 bits."""
        [first, *others] = nodes
        return not others and first.op.type == "cast" and self.types[first.inputs[0]].dtype in ("bfloat16", "float16")

    def _chain(self, name: str, group: Group, row_values: Collection[str]) -> list[Node] | None:
        """Return the nodes of the group that compute a tensor, in order, if they are few and cheap.

        They may read those of its row values; a group that reduces rows to such statistics has stored them by then.
        """
        wanted, cycles = {name}, 0.0
        chain: list[Node] = []
        for node in reversed(group.nodes):
            is_result = name in node.outputs
            if wanted.isdisjoint(node.outputs) or node.outputs[0] in row_values:
                continue
            if self._is_kept(node.outputs[0]) and not is_result:
                continue
            cycles += 0 if self.narrowed.issuperset(node.outputs) else self._cycles(node, name)
            if cycles > STORED_VECTOR_CYCLES:
                return None
            chain.insert(0, node)
            wanted.update(x for x in node.inputs if x)
        missing = {self.root[x] for x in wanted - {x for node in chain for x in node.outputs}}
        missing = missing.intersection(group.outputs).difference(row_values)
        return chain if all(map(self._is_kept, missing)) else None

    def _is_kept(self, root: str) -> bool:
        """Return True if a tensor is in memory: it is expensive and others read it, or rounded to 16 bits."""
        return root in self.narrowed or (root in self.products and bool(self.readers.get(root)))

    def _narrowed_by(self, node: Node) -> tuple[str, ...]:
        """Return the result of a node that rounds to 16 bits; reading it again and widening it costs little."""
        if node.op.type != "cast" or self.types[node.outputs[0]].dtype not in ("bfloat16", "float16"):
            return ()
        return node.outputs

    def _cycles(self, node: Node, name: str) -> float:
        """Return the cycles in which a node recomputes a vector for a tensor; infinite if it has another shape."""
        alike = len(node.outputs) == 1 and self.types[node.outputs[0]].static_shape == self.types[name].static_shape
        count = self._count(node) if alike else None
        return inf if count is None else count * INSTRUCTION_CYCLES

    def _count(self, node: Node) -> int | None:
        """Return the number of instructions of a node; equal nodes are counted once."""
        assert node.rule is not None, "what is in no group of its own has a form"
        key = id(node.rule), tuple([x and self.types[x].dtype for x in node.inputs]), repr(node.attributes)
        if key not in self.counts:
            self.counts[key] = node.rule, instructions(self.target, node, self.types)
        return self.counts[key][1]

    def _recompute(self, plan: _GroupRecomputation, name: str) -> None:
        """Put copies of the nodes, with new names, before those of the group."""
        reader, new = plan.group, dict[str, str]()
        is_operand = (reader.product is not None or reader.is_unfusible) and not plan.in_epilogue
        for node in plan.nodes:
            old = node.outputs[0]
            if (reader, plan.in_epilogue, old) not in self.names:
                again = self.names[reader, plan.in_epilogue, old] = f"{old} again {len(self.names)}"
                self.types[again], self.root[again] = self.types[old], again
                copy = node._replace(inputs=tuple(new.get(x, x) for x in node.inputs), outputs=(again,))
                if is_operand:
                    reader.prologue.insert(len(new), copy)
                else:
                    reader.nodes.insert(self.copies[reader], copy)
                    self.copies[reader] += 1
            new[old] = self.names[reader, plan.in_epilogue, old]
        for nodes, first in ((reader.prologue, 0), (reader.nodes, 0 if is_operand else self.copies[reader])):
            for i, node in enumerate(nodes[first:], first):
                nodes[i] = node._replace(inputs=tuple(new[x] if x == name else x for x in node.inputs))
        self._read(reader, reader.reads - {name} | plan.more)

    def _read(self, group: Group, roots: set[str]) -> None:
        """Let a group read these roots and no others."""
        for root in group.reads - roots:
            self.readers[root].discard(group)
        for root in roots - group.reads:
            self.readers.setdefault(root, set()).add(group)
        group.reads = roots

    def _forget_unread(self, group: Group) -> None:
        """Remove the nodes of a group that nothing reads any more."""
        if group.is_unfusible and not reader_of(group.nodes[0], self.types):
            return
        read = {name for name in group.outputs if name in self.block.ends or self.readers.get(name)}
        kept: list[Node] = []
        for node in reversed(group.nodes):
            if not read.isdisjoint(node.outputs):
                kept.insert(0, node)
                read |= _roots(self.root, node.inputs)
        if len(kept) == len(group.nodes):
            return
        group.nodes[:] = kept
        internal = set(group.outputs)
        group.row_values &= internal
        before = {name for node in group.prologue for name in node.outputs}
        nodes = (*group.prologue, *kept)
        self._read(group, {root for node in nodes for root in _roots(self.root, node.inputs)} - internal - before)


def _copy(group: Group) -> Group:
    nodes, prologue = list(group.nodes), list(group.prologue)
    return replace(group, nodes=nodes, prologue=prologue, reads=set(group.reads), row_values=set(group.row_values))


def _roots(root: Mapping[str, str], names: Iterable[str]) -> set[str]:
    return {root[name] for name in names if name}
