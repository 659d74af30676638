"""Groups: nodes that one loop nest computes, so that values between them stay in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import prod
from typing import Final, cast

from prograd_proto import program_pb2 as pb
from runtime.codegen.groups.nodes import Node, Nodes
from runtime.codegen.rules import CustomKernel, Product, Reduction

MAX_ROW_ELEMENTS: Final = 1 << 14
"""Number of elements of a row up to which a few of its values stay in the first-level cache.

A tensor with fewer elements in all is one thread's work.
"""

MIN_ROWS: Final = 8
"""Least number of rows, so that all threads have work."""


@dataclass(eq=False)
class Group:
    """Nodes that are computed together.

    Attributes:
        domain: extents of the loops: the shape of the results, or of the operand of a reduction.
        nodes: nodes in the order in which each element is computed; a product is the first, a reduction the last. A
            node without a lowering rule is a group by itself.
        reads: roots of the tensors that it reads from memory.
        rank: its position among the groups.
        reduced_axes: axes of its reductions, which all reduce the same.
        row_values: tensors that it computes with one element for each row of those axes.
        prologue: nodes that compute the first operand of its convolution: pointwise ones where that is copied, or those
            of the two other convolutions of a bottleneck, see `lowering.merge_bottlenecks`.
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
        """The product or convolution with which it begins, if there is one."""
        return self.nodes[0] if isinstance(self.nodes[0].rule, Product) or self.takes_epilogue else None

    @property
    def is_reduced(self) -> bool:
        """True if it has a reduction."""
        return any(isinstance(node.rule, Reduction) for node in self.nodes)

    @property
    def is_rows(self) -> bool:
        """True if it processes rows, in as many passes as necessary: see `goes_over_rows`."""
        return self.is_reduced and goes_over_rows(self.domain, self.reduced_axes)

    @property
    def passes(self) -> dict[str, int]:
        """The number of the pass over a row that computes each tensor, if it processes rows.

        It is the first pass in which all is known: values of rows are available after their pass.
        """
        found: dict[str, int] = {}
        for node in self.nodes:
            at = 0
            for name in node.inputs:
                if name in found:
                    is_later = name in self.row_values and node.outputs[0] not in self.row_values
                    at = max(at, found[name] + is_later)
            found.update(dict.fromkeys(node.outputs, at))
        return found

    @property
    def is_host(self) -> bool:
        """True if a NumPy kernel computes it."""
        return self.nodes[0].rule is None

    @property
    def is_unfusible(self) -> bool:
        """True if it is one node that no other joins, and that writes all its results."""
        rule = self.nodes[0].rule
        return rule is None or (isinstance(rule, CustomKernel) and not rule.takes_epilogue)

    @property
    def takes_epilogue(self) -> bool:
        """True if it begins with a custom kernel whose finished vectors other nodes may take."""
        rule = self.nodes[0].rule
        return isinstance(rule, CustomKernel) and rule.takes_epilogue

    @property
    def name(self) -> str:
        """The types of its ops."""
        return "+".join(op.type for op in self.ops)

    @property
    def label(self) -> str:
        """The names of its nodes, with the parts of a decomposition together, and its prologue."""
        if not self.prologue:
            return _label(self.nodes)
        if any(isinstance(node.rule, CustomKernel) for node in self.prologue):
            return f"inverted bottleneck of {_label([*self.prologue, *self.nodes])}"
        return f"{_label(self.nodes)}, whose operand is computed by {_label(self.prologue)}"

    @property
    def ops(self) -> list[pb.OpDesc]:
        """The ops of the block of which it computes at least a part, in order."""
        return list({id(node.op): node.op for node in (*self.prologue, *self.nodes)}.values())


def _label(nodes: Sequence[Node]) -> str:
    """Return names of nodes, where consecutive parts of one op are one name: softmax(max, difference, exp)."""
    named: list[str] = []
    for part_of, run in groupby(nodes, key=lambda node: (node.op.id, node.op.type) if node.part_name else None):
        names = [node.part_name or node.name for node in run]
        named += [f"{part_of[1]}({', '.join(names)})"] if part_of else names
    return " + ".join(named)


def domain_of(block: Nodes, node: Node) -> tuple[int, ...]:
    """Return the extents of the loops of a node: the shape of its results, or of the operand of a reduction."""
    name = node.inputs[0] if isinstance(node.rule, Reduction) else node.outputs[0] if node.outputs else ""
    return block.types[name].static_shape if name else ()


def axes_of(node: Node, rank: int) -> frozenset[int]:
    """Return the axes of a reduction, counted from the first."""
    axes = cast("tuple[int, ...]", node.attributes["axes"]) or range(rank)
    return frozenset(axis % rank for axis in axes)


def goes_over_rows(domain: Sequence[int], reduced: frozenset[int]) -> bool:
    """Return True if these axes reduce rows over which one thread may pass several times."""
    wide = [axis for axis, extent in enumerate(domain) if extent > 1]
    if not wide or wide[-1] not in reduced:
        return False
    row = prod(domain[axis] for axis in reduced)
    return row <= MAX_ROW_ELEMENTS and (prod(domain) <= MAX_ROW_ELEMENTS or prod(domain) // row >= MIN_ROWS)
