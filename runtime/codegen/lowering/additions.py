"""Additions: the order in which each product adds, set by the program alone.

An element of a product is a sum along the depth. It is added up as one chain of blocks, as two halves of the depth that
threads compute apart, or in the lanes of a vector where the result has one column: see `Additions`. Which of these it
is follows from the shapes of the operands, and from the axes along which they would lie if nothing were copied: the
search for that goes back through views, transposes, slices, and tensors that were moved to a file and back. Fetches,
memory plans and other readers decide whether such an operand is really copied, and what is computed in one group with
the product; so strides and loops of the code that is written decide nothing here. For results of one column the op
alone decides, and operands that do not lie as it says are copied: see `lowering.accesses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from runtime.codegen.ir import DTYPES
from runtime.codegen.kernels.matmul.shape import Shape, is_halved, is_large_shape
from runtime.codegen.kernels.moves import Lying, row_major
from runtime.codegen.kernels.nest import Nest
from runtime.codegen.lowering.nodes import Additions, Node, Nodes
from runtime.codegen.rules import Product
from runtime.codegen.rules.form import Factors
from runtime.codegen.rules.shape import MOVES, VIEWS
from runtime.operators import CONTRACTS

COPIES = frozenset({"spill", "reload"})
"""Ops whose result has the elements of their operand."""


def with_additions(block: Nodes) -> Nodes:
    """Return the block with the order of additions of each of its products."""
    if not any(isinstance(node.form, Product) for node in block.nodes):
        return block
    orders = _Orders(block)
    found = {node.outputs[0]: orders.of(node) for node in block.nodes if isinstance(node.form, Product)}
    return replace(block, additions=found)


class _Sides(NamedTuple):
    """The axes along which the operands of a product lie, if nothing is copied.

    Attributes:
        left_along_depth: whether elements of a row of the left operand lie beside each other.
        right_along_rows: whether elements of a row of the right operand do.
    """

    left_along_depth: bool
    right_along_rows: bool


class _Orders:
    def __init__(self, block: Nodes) -> None:
        self._block = block
        self._maker = {name: node for node in block.nodes for name in node.outputs}
        self._steady = _steady(block)

    def of(self, node: Node) -> Additions:
        """Return the order in which a product adds."""
        shape = self._shape(node)
        if shape.n == 1 < shape.m:
            return Additions.LANES
        right = self._block.root[node.inputs[0 if shape.is_turned else 1]]
        if is_large_shape(shape, is_prepacked=right in self._steady):
            return Additions.CHAIN
        bits = DTYPES[self._block.types[node.outputs[0]].dtype].bits
        return Additions.HALVES if is_halved(shape, bits) else Additions.CHAIN

    def _shape(self, node: Node) -> Shape:
        """Return a product as matrices: rows of all axes along which the right operand is the same are one axis."""
        types, domain = self._block.types, self._block.types[node.outputs[0]].static_shape
        factors = self._factors(node, *(_plain(types[name].static_shape) for name in node.inputs))
        assert factors is not None, "operands without gaps are always taken"
        first = len(domain) - 1
        while first > 0 and (domain[first - 1] == 1 or not factors.right[first - 1]):
            first -= 1
        matrices, m, n, k = prod(domain[:first]), prod(domain[first:-1]), domain[-1], factors.depth
        if n == 1 < m:
            if factors.left[-1] == 1:
                return Shape(Nest((matrices, m, 1), {}), m, 1, k, (k, 1), (1, 1))
            return Shape(Nest((matrices, 1, m), {}), 1, m, k, (1, 1), (m, 1), is_turned=True)
        sides = self._sides(node, m, n, k)
        left, right = (k, 1) if sides.left_along_depth else (1, m), (n, 1) if sides.right_along_rows else (1, k)
        return Shape(Nest((matrices, m, n), {}), m, n, k, left, right)

    def _sides(self, node: Node, m: int, n: int, k: int) -> _Sides:
        """Return how operands lie that are read where they are, or those that no product could read there as copies."""
        types = self._block.types
        plain = [_plain(types[name].static_shape) for name in node.inputs]
        moved = [self._lying(name) for name in node.inputs]
        for pair in (moved, [moved[0], plain[1]], [plain[0], moved[1]], plain):
            factors = self._factors(node, *pair)
            if factors is None:
                continue
            (row, _, depth), (_, column, depth_of_right) = factors.left[-3:], factors.right[-3:]
            along_depth, along_rows = k == 1 or m == 1 or depth == 1, n == 1 or column == 1
            if (along_depth or row == 1) and (along_rows or depth_of_right == 1):
                return _Sides(along_depth, along_rows)
        raise AssertionError("operands without gaps are always taken")

    def _factors(self, node: Node, *operands: Lying) -> Factors | None:
        assert isinstance(node.form, Product), "only asked of products"
        return node.form.factors(*operands, **node.attributes)

    def _lying(self, name: str) -> Lying:
        """Return how a tensor lies in the memory of the one that it is a part of, however far back that is."""
        shape, maker = self._block.types[name].static_shape, self._maker.get(self._block.root.get(name, name))
        if maker is None or (maker.form is None and maker.op.type not in COPIES):
            return _plain(shape)
        if maker.op.type in COPIES:
            lying = self._lying(maker.inputs[0])
        elif maker.op.type in VIEWS:
            outputs = [self._block.types[output] for output in maker.outputs]
            [moves] = MOVES[maker.op.type]([self._lying(maker.inputs[0])], outputs, **maker.attributes)
            move = moves[maker.outputs.index(self._block.root[name])]
            assert not isinstance(move.source, int), "what is picked out is read"
            lying = Lying(move.extents, move.source.steps)
        else:
            return _plain(shape)
        return lying.reshaped(shape) or _plain(shape)


def _plain(shape: Sequence[int]) -> Lying:
    return Lying(tuple(shape), row_major(shape))


def _steady(block: Nodes) -> set[str]:
    """Return the roots that follow from states and constants alone, where no step changes a state."""
    if block.block.desc.updates:
        return set()
    steady = {*block.state_of, *block.constants}
    for node in block.nodes:
        if not CONTRACTS[node.op.type].random and all(block.root[x] in steady for x in node.inputs if x):
            steady.update(node.outputs)
    return steady
