"""The passes of a group over a row, and the nodes that each computes, keeps for a later one, or recomputes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from math import inf

from runtime.codegen.costs import INSTRUCTION_CYCLES, KEPT_VECTOR_CYCLES
from runtime.codegen.groups.group_kernel import GroupKernel
from runtime.codegen.groups.instructions import instructions
from runtime.codegen.groups.nodes import Node
from runtime.codegen.machine import Target
from runtime.codegen.rules import Pointwise, Reduction


@dataclass
class Pass:
    """A pass over a row, and the nodes after it.

    Attributes:
        nodes: nodes computed for every element, in order.
        stored: tensors that are written.
        kept: values that are kept in scratch of the thread.
        taken: values that an earlier pass kept.
        reductions: reductions of the row.
        after: nodes with one element for the row, computed after the reductions.
    """

    nodes: list[Node] = field(default_factory=list[Node])
    stored: list[str] = field(default_factory=list[str])
    kept: list[str] = field(default_factory=list[str])
    taken: list[str] = field(default_factory=list[str])
    reductions: list[Node] = field(default_factory=list[Node])
    after: list[Node] = field(default_factory=list[Node])


def passes_of(target: Target, kernel: GroupKernel, stored: Collection[str], again: bool) -> list[Pass]:
    """Return the passes of a group.

    Args:
        target: the target of the code.
        kernel: the group.
        stored: tensors that are written.
        again: True if cheap values are recomputed instead of kept; if False, all values are available in later passes.
    """
    return _Passes(target, kernel, stored, again).passes


class _Passes:
    def __init__(self, target: Target, kernel: GroupKernel, stored: Collection[str], again: bool) -> None:
        self.target, self.kernel, self.again = target, kernel, again
        self.of_rows = kernel.group.row_values
        self.maker = {name: node for node in kernel.group.nodes for name in node.outputs}
        self.level = kernel.group.passes
        self.passes = [Pass() for _ in range(1 + max(self.level[name] for name in self.maker))]
        self.kept: set[str] = set()
        for node in kernel.group.nodes:
            name = node.outputs[0]
            if isinstance(node.rule, Reduction):
                self.passes[self.level[name]].reductions.append(node)
            elif name in self.of_rows:
                self.passes[self.level[name]].after.append(node)
        for name in self.maker:
            if name in stored and name not in self.of_rows:
                self.passes[self.level[name]].stored.append(name)
        for number in reversed(range(len(self.passes))):
            self._fill(number)

    def _fill(self, number: int) -> None:
        """Choose the nodes of a pass, from the last pass back: values that it takes, an earlier pass must keep."""
        one = self.passes[number]
        wanted = [*one.stored, *one.kept, *(node.inputs[0] for node in one.reductions)]
        needed: set[str] = set()
        self._need(wanted, number, one, needed)
        one.nodes = [node for node in self.kernel.group.nodes if not needed.isdisjoint(node.outputs)]
        one.nodes = [node for node in one.nodes if isinstance(node.rule, Pointwise)]

    def _need(self, names: Iterable[str], number: int, one: Pass, needed: set[str]) -> None:
        for name in names:
            if name not in self.maker or name in self.of_rows or name in needed or name in one.taken:
                continue
            level = self.level[name]
            if level < number and not (self.again and self._cycles(name) <= KEPT_VECTOR_CYCLES):
                one.taken.append(name)
                if name not in self.passes[level].kept:
                    self.passes[level].kept.append(name)
                continue
            needed.update(self.maker[name].outputs)
            self._need(self.maker[name].inputs, number, one, needed)

    def _cycles(self, name: str) -> float:
        """Return the cycles in which a vector of a value is recomputed from memory."""
        if name not in self.maker:
            return INSTRUCTION_CYCLES  # a load
        if name in self.of_rows:
            return 0
        node = self.maker[name]
        own = instructions(self.target, node, self.kernel.types)
        return inf if own is None else own * INSTRUCTION_CYCLES + sum(self._cycles(x) for x in node.inputs if x)
